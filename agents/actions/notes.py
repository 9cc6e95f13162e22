"""What writes the notes of a Mysis: its own tools, its operator, and an import.

A change makes a new version, and the old ones stay to be read: the newest of each note,
and of all notes of a Mysis so many. A log that is pruned, summed up or imported into
leaves notes alone.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.actions.base import (
    CHANGED,
    ActionError,
    append_state_event,
    check_text,
    lock_mysis,
)
from agents.models import Mysis
from memory import audit
from memory.context.sections import LONGEST_NOTE, NoteNameError, clean_note_name
from memory.models import Note
from memory.notes import drop_versions, find_next_version, select_notes
from memory.redaction import hide_secrets

MOST_NOTES = 50
# Old versions that are kept: of one note, and of all notes of a Mysis.
VERSIONS_OF_NOTE = 20
VERSIONS_OF_MYSIS = 500


@transaction.atomic
def save_note(  # noqa: PLR0913 (one keyword for each part of a note)
    *,
    mysis: Mysis,
    name: str,
    text: str,
    by: str,
    at: datetime | None = None,
    secrets: Collection[str] = (),
    version: int | None = None,
    author: str = "",
) -> Note:
    """Make a note, or replace the one of that name; the same text again changes nothing.

    ``at`` is when it was written, if not now. ``secrets`` are taken out, with all
    that is sealed. ``version`` is the one that is to be replaced, 0 for none. It is the
    ``author``'s where ``by`` only sets back what that one wrote. Raises ActionError: 422
    for a name or a text that cannot be kept, 409 where there are too many, or where
    another version stands.
    """
    name, text = clean_note(name, text, secrets)
    locked = lock_mysis(mysis)
    current = select_notes(locked.pk)
    old = current.filter(name=name).first()
    if old is not None and old.text == text:
        return old
    _check_version(old, version)
    if old is None and current.count() >= MOST_NOTES:
        raise ActionError(
            f"There are {MOST_NOTES} notes, which is the most: forget one, or put this "
            "into one of them.",
            code="too_many",
        )
    if old is not None:
        _end(old, by)
    known = Note.objects.filter(mysis=locked, name=name)
    made = Note.objects.create(
        mysis=locked,
        name=name,
        text=text,
        version=find_next_version(locked.pk, name),
        author=(author or by)[:200],
        written_at=at or timezone.now(),
    )
    _drop_oldest(known, VERSIONS_OF_NOTE)
    _drop_oldest(Note.objects.filter(mysis=locked), VERSIONS_OF_MYSIS)
    append_state_event(locked, by, note=name, version=made.version)
    audit.record(
        "note.update" if old else "note.create",
        f"note:{locked.name}/{name}",
        by=by,
        before={"version": old.version, "text": old.text} if old else {},
        after={"version": made.version, "text": text},
    )
    return made


@transaction.atomic
def forget_note(*, mysis: Mysis, name: str, by: str) -> Note:
    """Take a note out of use; its versions stay. Raises ActionError 404."""
    locked = lock_mysis(mysis)
    note = find_note(locked, name)
    _end(note, by)
    append_state_event(locked, by, note=note.name, forgotten=True)
    old = {"version": note.version, "text": note.text}
    audit.record("note.delete", f"note:{locked.name}/{note.name}", by=by, before=old)
    return note


def find_note(mysis: Mysis, name: str) -> Note:
    """The note in use; raises ActionError 404 that names those there are."""
    found = None
    current = select_notes(mysis.pk)
    with suppress(NoteNameError):
        found = current.filter(name=clean_note_name(name)).first()
    if found is None:
        names = ", ".join(current.values_list("name", flat=True)) or "none"
        raise ActionError(
            f"There is no note {name[:100]!r}. Notes are: {names}.",
            code="not_found",
            status=404,
        )
    return found


def _check_version(old: Note | None, wanted: int | None) -> None:
    """Raise ActionError 409 where not the wanted version is in use."""
    now = old.version if old else 0
    if wanted not in (None, now):
        stands = f"version {now} stands" if now else "there is no such note"
        raise ActionError(
            f"version: the note was changed, {stands} now: read it, then write again "
            f"with version {now}.",
            code=CHANGED,
        )


def clean_note(name: str, text: str, secrets: Collection[str] = ()) -> tuple[str, str]:
    """Name and text as they are stored; raises ActionError 422."""
    checked = check_text(text, "text:", LONGEST_NOTE)
    return check_name(name, secrets), hide_secrets(checked, secrets)


def check_name(name: str, secrets: Collection[str] = ()) -> str:
    """The name as it is stored; raises ActionError 422."""
    try:
        return clean_note_name(hide_secrets(name, secrets))
    except NoteNameError as error:
        raise ActionError(f"name: {error}", code="invalid", status=422) from error


def _end(note: Note, by: str) -> None:
    note.ended_at, note.ended_by = timezone.now(), by[:200]
    note.save(update_fields=["ended_at", "ended_by"])


def _drop_oldest(rows: QuerySet[Note], kept: int) -> None:
    """Remove old versions beyond so many; those in use are none."""
    old = rows.filter(ended_at__isnull=False).order_by("-ended_at", "-pk")
    if going := list(old.values_list("pk", flat=True)[kept:]):
        drop_versions(going)
