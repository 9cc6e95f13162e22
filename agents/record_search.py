"""Search in what stands beside the log: orders, events, prompts, summaries, pins.

The same query syntax as for messages. Prompts and pins are few and need no index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.utils.safestring import SafeString

from agents.broadcast_search import select_matching_broadcasts
from agents.models import Event, Order, OrderRecipient, Pin, PromptVersion
from agents.models.runs import EVENT_KEYS, EVENT_TEXT, SEARCHED_EVENTS
from memory.models import HistorySummary, Note
from memory.models.secret_tools import read_secret_tools
from memory.models.vectors import build_plain_vector
from memory.notes import select_matching_notes
from memory.problems import SlowSearchError
from memory.redaction import hide_secrets
from memory.search.query import (
    COUNT_SECONDS,
    MOST_COUNTED,
    SECONDS,
    Count,
    Mode,
    TextQuery,
    find_counted_ids,
    limit_time,
)
from memory.search.results import build_pattern, filter_matching, make_snippet
from memory.search.visibility import (
    Texts,
    count_seen,
    fetch_seen,
    keep_seen,
    keep_seen_ids,
    mask_texts,
)

ORDERS, EVENTS, ACTS = "orders", "events", "acts"
PROMPTS, SUMMARIES, PINS = "prompts", "summaries", "pins"
BROADCASTS, NOTES = "broadcasts", "notes"
# What of the log is searched, by the kind of a hit.
LOG_FIELDS: Mapping[str, Any] = {
    "messages": "content",
    "reasoning": "reasoning",
    "calls": "calls",
}
# How people and programs of theirs are named where they act.
_BY_PERSON = Q(data__by__startswith="operator:") | Q(data__by__startswith="token:")

# Letters are counted in the newest so many events.
LETTERS_COUNTED = 100_000
# So long may the count of one kind take, where all of them together took too long.
ALONE_SECONDS = 0.3

Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class RecordHit:
    """One row that matches; ``snippet`` is HTML, escaped, with ``<mark>`` around hits."""

    id: int
    row: Any
    mysis: int | None
    text: str
    snippet: SafeString
    timestamp: datetime


def search_records(  # noqa: PLR0913 (one keyword for each part of a question)
    kind: str,
    *,
    query: str,
    mode: Mode = "fts",
    limit: int = 20,
    before: int | None = None,
    mysis_id: int | None = None,
    ignore_case: bool = False,
    stem: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    seconds: float | None = None,
) -> list[RecordHit]:
    """The newest matching rows of a kind, newest first; raises SlowSearchError."""
    wanted = replace(
        _clean(query, mode, mysis_id, before), ignore_case=ignore_case, stem=stem
    )
    rows = _narrow(RECORDS[kind](wanted), since, until)
    pattern = build_pattern(wanted)
    with limit_time(seconds):
        found = fetch_seen(rows.order_by("-pk"), wanted, limit, _read_texts)
    return [
        RecordHit(
            id=row.pk,
            row=row,
            mysis=getattr(row, "mysis_id", None),
            text=text,
            snippet=make_snippet(text, pattern),
            timestamp=row.created_at,
        )
        for row in found
        for text in [hide_secrets(_read_text(row))]
    ]


def count_hits(  # noqa: PLR0913 (one keyword for each part of a question)
    *,
    query: str,
    mode: Mode = "fts",
    mysis_id: int | None = None,
    ignore_case: bool = False,
    stem: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    origin: str = "",
) -> dict[str, Count]:
    """How many matches there are of each kind, without those that take too long.

    Letter for letter among the newest messages and events only, and then with ``more``.
    ``origin`` narrows the messages alone.
    """
    wanted = replace(_clean(query, mode, mysis_id), ignore_case=ignore_case, stem=stem)
    secret = read_secret_tools()
    fields = [
        replace(wanted, field=field, secret=secret, origin=origin)
        for field in LOG_FIELDS.values()
    ]
    said = _count_apart(partial(_count_messages, since=since, until=until), fields)
    beside = {
        **RECORDS,
        BROADCASTS: select_matching_broadcasts,
        NOTES: select_matching_notes,
    }
    edge = _find_event_edge() if mode == "exact" else 0
    rows = [_narrow(select(wanted), since, until) for select in beside.values()]
    cut = [_cut_events(one, edge) for one in rows]
    numbers = _count_apart(partial(_count, wanted), cut)
    counts = zip((*LOG_FIELDS, *beside), [*said, *numbers], strict=True)
    found = {kind: count for kind, count in counts if count is not None}
    if edge > 0:
        partly = (kind for kind in (EVENTS, ACTS) if kind in found)
        found |= {kind: Count(found[kind].number, more=True) for kind in partly}
    return found


def _count_apart(
    count: Callable[..., list[Count]], selected: Sequence[Any]
) -> list[Count | None]:
    """All in one statement; each alone where that is slow, None for what is slow still."""
    try:
        return [*count(selected)]
    except SlowSearchError:
        found: list[Count | None] = []
        for one in selected:
            with suppress(SlowSearchError):
                found += count([one], seconds=ALONE_SECONDS)
                continue
            found.append(None)
        return found


def _find_event_edge() -> int:
    """The event behind which letters are counted: no index knows those."""
    return (Event.objects.aggregate(last=Max("pk"))["last"] or 0) - LETTERS_COUNTED


def _cut_events(rows: Rows, edge: int) -> Rows:
    return rows.filter(pk__gt=edge) if rows.model is Event and edge > 0 else rows


def _clean(
    query: str, mode: Mode, mysis_id: int | None, before: int | None = None
) -> TextQuery:
    query = query.replace("\x00", "")
    return TextQuery(query, mode, mysis_id=mysis_id, before=before)


def _narrow(rows: Rows, since: datetime | None, until: datetime | None) -> Rows:
    moment = "written_at" if rows.model.__name__ == "Note" else "created_at"
    if since is not None:
        rows = rows.filter(**{f"{moment}__gte": since})
    return rows if until is None else rows.filter(**{f"{moment}__lt": until})


def _count_messages(
    wanted: Sequence[TextQuery], seconds: float = COUNT_SECONDS, **days: Any
) -> list[Count]:
    found, more = find_counted_ids(wanted, seconds=seconds, **days)
    with limit_time(seconds):
        return [
            count_seen(ids, partial(keep_seen_ids, wanted=one), more=more)
            for ids, one in zip(found, wanted, strict=True)
        ]


def _count(
    wanted: TextQuery, selected: Sequence[Rows], seconds: float = COUNT_SECONDS
) -> list[Count]:
    """The numbers of rows, each up to the limit."""
    parts: list[str] = []
    values: list[Any] = []
    for rows in selected:
        some = rows.order_by().values("pk")[: MOST_COUNTED + 1]
        text, given = some.query.sql_with_params()
        parts.append(f"ARRAY({text})")
        values += given
    with limit_time(seconds, wait=SECONDS), connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", values)
        (found,) = cursor.fetchall()
        return [
            count_seen(ids, partial(_keep_seen, rows, wanted), more=False)
            for rows, ids in zip(selected, found, strict=True)
        ]


def _keep_seen(rows: Rows, wanted: TextQuery, ids: list[int]) -> list[Any]:
    kept = rows.model._default_manager.filter(pk__in=ids)
    if rows.model is PromptVersion:
        kept = kept.select_related("prompt")
    return keep_seen(list(kept), wanted, _read_texts)


# --- Which rows match


def _find(rows: Rows, wanted: TextQuery, *texts: Any, owner: str = "mysis") -> Rows:
    """The rows that match in these text columns or expressions."""
    if wanted.before is not None:
        rows = rows.filter(pk__lt=wanted.before)
    if wanted.mysis_id is not None:
        rows = rows.filter(**{owner: wanted.mysis_id})
    if wanted.mode == "fts":
        rows = rows.alias(vector=build_plain_vector(*texts))
        return filter_matching(rows, wanted, *texts)
    named = {
        f"text_{place}": F(text) if isinstance(text, str) else text
        for place, text in enumerate(texts)
    }
    return filter_matching(rows.alias(**named), wanted, *named)


def _find_orders(wanted: TextQuery) -> Rows:
    rows = Order.objects.all()
    if wanted.mysis_id is not None:
        got = OrderRecipient.objects.filter(order=OuterRef("pk"), mysis=wanted.mysis_id)
        rows = rows.filter(Exists(got))
    return _find(rows, replace(wanted, mysis_id=None), "text")


def _find_events(wanted: TextQuery) -> Rows:
    return _find(Event.objects.filter(SEARCHED_EVENTS), wanted, EVENT_TEXT)


def _find_acts(wanted: TextQuery) -> Rows:
    return _find_events(wanted).filter(_BY_PERSON)


def _find_prompts(wanted: TextQuery) -> Rows:
    rows = PromptVersion.objects.select_related("prompt")
    texts = ("prompt__name", "note", "text")
    return _find(rows, wanted, *texts, owner="prompt__myses")


def _find_summaries(wanted: TextQuery) -> Rows:
    return _find(HistorySummary.objects.all(), wanted, "text")


def _find_pins(wanted: TextQuery) -> Rows:
    return _find(Pin.objects.all(), wanted, "text")


RECORDS: Mapping[str, Callable[[TextQuery], Rows]] = {
    ORDERS: _find_orders,
    EVENTS: _find_events,
    ACTS: _find_acts,
    PROMPTS: _find_prompts,
    SUMMARIES: _find_summaries,
    PINS: _find_pins,
}


# --- What they say


def _read_parts(row: Any) -> list[str]:
    """What of a row is searched, without what it has not."""
    if isinstance(row, Event):
        said = [row.data.get(key) for key in EVENT_KEYS]
    elif isinstance(row, PromptVersion):
        said = [row.prompt.name, row.note, row.text]
    else:
        said = [row.name, row.text] if isinstance(row, Note) else [row.text]
    return [str(one) for one in said if one not in (None, "")]


def _read_texts(row: Any) -> tuple[Texts, Texts]:
    return mask_texts(*_read_parts(row))


def _read_text(row: Any) -> str:
    """What is shown of a match."""
    return (" · " if isinstance(row, Event) else ": ").join(_read_parts(row))


def describe_hit(hit: RecordHit) -> dict[str, Any]:
    """A hit as programs see it, with what its kind of row has besides a text."""
    told = {
        "id": hit.id,
        "mysis": hit.mysis,
        "text": hit.text,
        "timestamp": hit.timestamp,
    }
    return told | _describe_row(hit.row)


def _describe_row(row: Any) -> dict[str, Any]:
    if isinstance(row, Event):
        return {"kind": row.kind, "by": row.data.get("by")}
    if isinstance(row, Order):
        return {"by": row.sender}
    if isinstance(row, PromptVersion):
        named = {"prompt": row.prompt_id, "name": row.prompt.name}
        return {**named, "version": row.number, "by": row.author}
    if isinstance(row, Pin):
        return {"state": row.state}
    return {"generation": row.generation, "status": row.status}
