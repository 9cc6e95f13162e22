"""The notes of a Mysis as they stand, as they stood, and what of them matches a search.

They are written by `agents.actions.notes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Q, QuerySet
from django.utils.safestring import SafeString

from memory.context.sections import SHOWN_BYTES, is_too_long
from memory.context.types import Note as ViewNote
from memory.context.types import build_note_handle
from memory.models import Note, NoteFloor, fetch_rows
from memory.redaction import hide_secrets
from memory.search.query import Mode, TextQuery, limit_time
from memory.search.results import build_pattern, filter_matching, make_snippet
from memory.search.visibility import Texts, fetch_seen, mask_texts

# As JSON, newest first; a text that is too long to be shown is null.
SELECT_CURRENT = f"""
  (SELECT coalesce(jsonb_agg(jsonb_build_array(name, version,
       CASE WHEN octet_length(text) <= {SHOWN_BYTES} THEN text END)
     ORDER BY written_at DESC, id DESC), '[]')
   FROM memory_note WHERE mysis_id = mysis.id AND ended_at IS NULL)
"""  # noqa: S608 (no input in the text)

# Of a name of which nothing is left the greatest version is written down. The statement
# sees the rows as they were before it.
_DROP = """
WITH gone AS (
  DELETE FROM memory_note WHERE id = ANY(%(ids)s) RETURNING mysis_id, name, version
)
INSERT INTO memory_notefloor AS floor (mysis_id, version)
SELECT mysis_id, max(version) FROM gone WHERE NOT EXISTS (
  SELECT FROM memory_note AS kept WHERE kept.mysis_id = gone.mysis_id
    AND kept.name = gone.name AND kept.id <> ALL(%(ids)s)
) GROUP BY mysis_id
ON CONFLICT (mysis_id) DO UPDATE SET version = greatest(floor.version, excluded.version)
"""


@dataclass(frozen=True, slots=True)
class NoteHit:
    """One note that matches; ``snippet`` is HTML, escaped, with ``<mark>`` around hits."""

    id: int
    mysis: int
    name: str
    text: str
    author: str
    snippet: SafeString
    timestamp: datetime

    @property
    def handle(self) -> str:
        """By which its text is recalled."""
        return build_note_handle(str(self.mysis), self.name)


def select_notes(mysis_id: int, moment: datetime | None = None) -> QuerySet[Note]:
    """The notes as they stand, or stood at a moment, newest first."""
    rows = Note.objects.filter(mysis_id=mysis_id).defer("vector")
    if moment is None:
        rows = rows.filter(ended_at=None)
    else:
        ends_later = Q(ended_at=None) | Q(ended_at__gt=moment)
        rows = rows.filter(ends_later, written_at__lte=moment)
    return rows.order_by("-written_at", "-pk")


def read_notes_at(mysis_id: int, moment: datetime) -> tuple[ViewNote, ...]:
    """The notes of a moment, as far as their versions are still kept."""
    found = select_notes(mysis_id, moment).values_list("name", "version", "text")
    return parse_notes(found)


def read_note_versions(
    mysis_id: int, wanted: Sequence[tuple[str, int]], before: datetime
) -> tuple[ViewNote, ...]:
    """These versions in their order, as far as they are kept and of before a moment."""
    rows = Note.objects.filter(
        mysis_id=mysis_id, name__in={name for name, _ in wanted}, written_at__lte=before
    )
    found = rows.values_list("name", "version", "text")
    kept = {(name, version): (name, version, text) for name, version, text in found}
    return parse_notes(kept[each] for each in wanted if each in kept)


def parse_notes(
    found: Iterable[tuple[str, int, str | None]],
) -> tuple[ViewNote, ...]:
    """The notes that `SELECT_CURRENT` gives, without secrets (A11)."""
    return tuple(
        ViewNote(name, "", too_long=True, version=version)
        if text is None or is_too_long(text)
        else ViewNote(name, hide_secrets(text), version=version)
        for name, version, text in found
    )


def find_next_version(mysis_id: int, name: str) -> int:
    """The version of a note that is written now: never one that there was before."""
    rows = Note.objects.filter(mysis_id=mysis_id, name=name)
    newest: int | None = rows.aggregate(n=Max("version"))["n"]
    if newest is None:
        floor = NoteFloor.objects.filter(pk=mysis_id)
        newest = floor.values_list("version", flat=True).first() or 0
    return newest + 1


def drop_versions(ids: Sequence[int]) -> None:
    """Remove versions of notes for ever, in one statement."""
    fetch_rows(_DROP, {"ids": list(ids)})


def select_matching_notes(wanted: TextQuery) -> QuerySet[Note]:
    """The notes in use that match, the last stored first."""
    rows = Note.objects.filter(ended_at=None).defer("vector").order_by("-pk")
    if wanted.mysis_id is not None:
        rows = rows.filter(mysis_id=wanted.mysis_id)
    if wanted.before is not None:
        rows = rows.filter(pk__lt=wanted.before)
    return filter_matching(rows, wanted, "name", "text")


def read_note_texts(row: Note) -> tuple[Texts, Texts]:
    """What of a note is searched."""
    return mask_texts(row.name, row.text)


def search_notes(  # noqa: PLR0913 (one keyword for each part of a question)
    *,
    query: str,
    mysis_id: int | None = None,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    ignore_case: bool = False,
    stem: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    seconds: float | None = None,
) -> list[NoteHit]:
    """The notes in use whose name or text matches, the last stored first.

    An imported note counts from its import on. ``before`` is the id of a note. Raises
    SlowSearchError.
    """
    wanted = TextQuery(
        query=query.replace("\x00", ""),
        mode=mode,
        mysis_id=mysis_id,
        before=before,
        ignore_case=ignore_case,
        stem=stem,
    )
    rows = select_matching_notes(wanted)
    if since is not None:
        rows = rows.filter(written_at__gte=since)
    if until is not None:
        rows = rows.filter(written_at__lt=until)
    with limit_time(seconds):
        found = fetch_seen(rows, wanted, limit, read_note_texts)
    pattern = build_pattern(wanted)
    return [
        NoteHit(
            id=row.pk,
            mysis=row.mysis_id,
            name=row.name,
            text=text,
            author=row.author,
            snippet=make_snippet(f"{row.name}: {text}", pattern),
            timestamp=row.written_at,
        )
        for row in found
        for text in [hide_secrets(row.text)]
    ]
