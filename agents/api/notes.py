"""/myses/{id}/notes: what a Mysis noted itself, and /search/notes in all of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents.actions import notes
from agents.api.turns import caller_name, get_mysis
from memory.api.log import Question, parse_query
from memory.api.parameters import (
    WITH_WORDS,
    Body,
    MysisReference,
    Page,
    Rows,
    Window,
    build_example,
    build_page,
    cut_page,
    get_owner,
)
from memory.context.sections import LONGEST_NOTE
from memory.models import Note
from memory.notes import search_notes, select_notes
from memory.redaction import hide_secrets

notes_router = Router(tags=["notes"])

NoteName = Annotated[str, Field(description="Its name.", examples=["base"])]
TEXT = "Sol Station buys iron ore."


class NoteOut(Schema):
    """A note; ``version`` counts from 1, ``by`` is who wrote it, at ``updated_at``."""

    name: str = Field(examples=["base"])
    text: str = Field(examples=[TEXT])
    version: int = Field(examples=[2])
    updated_at: datetime = Field(validation_alias="written_at")
    by: str = Field(validation_alias="author", examples=["mysis:Ada"])

    @staticmethod
    def resolve_text(row: Note) -> str:
        return hide_secrets(row.text)


class NoteVersionOut(NoteOut):
    """A version; ``ended_by`` replaced or forgot it at ``ended_at``, null while in use."""

    ended_at: datetime | None = Field(examples=[None])
    ended_by: str = Field(examples=[""])


class NoteIn(Body):
    """What the note is to say, instead of which ``version`` (0: of none) if given."""

    model_config = build_example(text=TEXT, version=2)

    text: Annotated[
        str, Field(min_length=1, max_length=LONGEST_NOTE, json_schema_extra=WITH_WORDS)
    ]
    version: Annotated[int | None, Field(ge=0, le=2**31 - 1)] = None


class VersionFilter(Window):
    """Of which note; of all without."""

    name: str | None = Field(None, max_length=1000, examples=["base"])


@notes_router.get("/myses/{reference}/notes", response=Page[NoteOut])
def list_notes(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> Rows:
    """The notes in use, the one that was written last at the end."""
    return build_page(select_notes(get_mysis(reference).pk), window)


@notes_router.get("/myses/{reference}/note-versions", response=Page[NoteVersionOut])
def list_note_versions(
    request: HttpRequest, reference: MysisReference, wanted: Query[VersionFilter]
) -> Rows:
    """The versions that are kept, also of notes that were forgotten, oldest first."""
    rows = Note.objects.filter(mysis=get_mysis(reference)).defer("vector")
    if wanted.name is not None:
        rows = rows.filter(name=notes.check_name(wanted.name))
    return build_page(rows, wanted)


@notes_router.get("/myses/{reference}/notes/{path:name}", response=NoteOut)
def read_note(request: HttpRequest, reference: MysisReference, name: NoteName) -> Note:
    """One note in use, by its name."""
    return notes.find_note(get_mysis(reference), name)


@notes_router.put("/myses/{reference}/notes/{path:name}", response=NoteOut)
def save_note(
    request: HttpRequest, reference: MysisReference, name: NoteName, body: NoteIn
) -> Note:
    """Make a note, or replace it; the Mysis sees it from the next call on.

    409 where a Mysis has 50 notes already (`too_many`), or where another ``version``
    than the given one stands (`changed`). The same text again makes no new version.
    """
    return notes.save_note(
        mysis=get_mysis(reference),
        name=name,
        text=body.text,
        by=caller_name(request),
        version=body.version,
    )


@notes_router.delete("/myses/{reference}/notes/{path:name}", response={204: None})
def forget_note(
    request: HttpRequest, reference: MysisReference, name: NoteName
) -> Status[None]:
    """Take a note out of use; its versions can still be read."""
    notes.forget_note(mysis=get_mysis(reference), name=name, by=caller_name(request))
    return Status(204, None)


class NoteHitOut(Schema):
    """A note that matches; ``snippet`` is escaped HTML with ``<mark>`` around the hits."""

    note_id: int = Field(validation_alias="id", examples=[12])
    mysis: int
    name: str = Field(examples=["base"])
    text: str = Field(examples=[TEXT])
    by: str = Field(validation_alias="author", examples=["mysis:Ada"])
    handle: str = Field(examples=["note://7/base"])
    snippet: str = Field(examples=["base: Sol Station buys <mark>iron</mark> ore."])
    timestamp: datetime


@notes_router.get("/search/notes", response=Page[NoteHitOut])
def find_notes(request: HttpRequest, asked: Query[Question]) -> Rows:
    """Notes in use that match, by name or text; `before` is a note id."""
    hits = search_notes(
        query=parse_query(asked),
        mysis_id=get_owner(asked.mysis).pk if asked.mysis is not None else None,
        mode=asked.mode,
        limit=asked.limit + 1,
        before=asked.before,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
    )
    return cut_page(hits, asked.limit, [hit.id for hit in hits])
