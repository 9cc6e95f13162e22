"""What a search finds, as its page shows it, and where each hit is read.

The days of messages go by ids, which rise with time as rows are written: by an index on
the time itself, a search would either sort all matches or keep a second order of the
whole log.
An imported history keeps its own times under new ids. Its rows are shown with the right
day or not at all, but a search by days may end before it has seen those that lie
further back by id; without days every match is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Max, Min, Model
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents import record_search
from agents.broadcast_search import BroadcastHit, search_broadcasts
from agents.dashboard import feed
from agents.dashboard.conversation import read_sender_name
from agents.models import Broadcast, Event, Mysis, Order, Pin, PromptVersion
from agents.record_search import BROADCASTS, LOG_FIELDS, NOTES, RecordHit
from memory.api.parameters import PAGE_BYTES
from memory.models import Memory
from memory.notes import NoteHit, search_notes
from memory.search.results import Count, Hit, search_messages

# So many matches are looked through for a page.
ASKED = 100
# An event is shown below so many newer ones at most.
NEWER_EVENTS = 10
# Names the hit in an address that leads to it, and begins the names of its search.
FOUND = "found"
# What a search is told by in addresses, and carries from page to page.
ASKED_BY = ("q", "where", "mysis", "mode", "origin", "since", "until", "before")


@dataclass(frozen=True, slots=True)
class Result:
    """A hit as the page shows it. ``snippet`` holds escaped text and marks.

    ``memory`` is the message to show in its place, None where nobody has it; ``link``
    is the address of what was found, empty where there is none. ``origin`` is empty for
    what is not one Mysis's alone, as a broadcast. ``fits`` is that of a `Hit`.
    """

    id: int
    memory: int | None
    mysis: Mysis | None
    who: str
    snippet: str
    at: datetime
    origin: str = ""
    link: str = ""
    taken_back: bool = False
    fits: bool = True


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The newest matches; ``reached`` is the oldest looked at, if more lie behind."""

    results: Sequence[Result]
    reached: int | None


def search_everything(
    asked: dict[str, Any], seconds: float | None = None
) -> SearchPage:
    """The newest matches of a search form's values; raises SlowSearchError.

    It may take so many seconds, None for the usual.
    """
    finders = {BROADCASTS: _find_broadcasts, NOTES: _find_notes}
    usual = _find_messages if asked["where"] in LOG_FIELDS else _find_records
    found = finders.get(asked["where"], usual)(
        asked, {**_read_question(asked), "seconds": seconds}
    )
    # What comes while the hits are walked changes no number.
    newest = found[0].id + 1 if found else None
    walked = asked | {"before": asked["before"] or newest}
    since, until = _read_days(asked)
    in_time = [
        replace(one, link=_add_search(one.link, one.id, walked))
        for one in found
        if (since is None or one.at >= since) and (until is None or one.at < until)
    ]
    full = len(found) == ASKED or any(not one.fits for one in found[-1:])
    more = full and (since is None or found[-1].at >= since)
    return SearchPage(in_time, found[-1].id if more else None)


def count_everything(asked: dict[str, Any]) -> Mapping[str, Count]:
    """The matches of each kind, without the kinds that take too long to count."""
    since, until = _read_days(asked)
    return record_search.count_hits(
        query=asked["q"],
        mode=asked["mode"] or "fts",
        mysis_id=asked["mysis"].pk if asked["mysis"] else None,
        since=since,
        until=until,
        origin=asked["origin"],
    )


def _read_question(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "query": asked["q"],
        "mode": asked["mode"] or "fts",
        "limit": ASKED,
        "before": asked["before"],
        "mysis_id": asked["mysis"].pk if asked["mysis"] else None,
    }


def _read_days(asked: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The moments that matches lie between."""
    since, until = asked["since"], asked["until"]
    return (
        _midnight(since) if since else None,
        _midnight(until + timedelta(days=1)) if until else None,
    )


def _add_search(link: str, hit: int, asked: dict[str, Any]) -> str:
    """The address of a hit with the search that it was found by."""
    if not link:
        return ""
    place = urlsplit(link)
    question = {f"{FOUND}-{name}": v for name, v in write_question(asked).items()}
    added = urlencode({FOUND: hit, **question})
    return place._replace(query="&".join(filter(None, (place.query, added)))).geturl()


def write_question(asked: dict[str, Any]) -> dict[str, Any]:
    """The values of a search form as an address has them, the empty ones left out."""
    passed = {"passed": asked["passed"]} if asked["before"] else {}
    values = {**{name: asked[name] for name in ASKED_BY}, **passed}
    return {
        name: value.pk if isinstance(value, Mysis) else value
        for name, value in values.items()
        if value not in (None, "")
    }


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))


def _find_edge(
    model: type[Model], before: int | None, until: date | None
) -> int | None:
    """The id that matches lie before; that of a day's end, since ids rise with time."""
    if until is None or until >= timezone.localdate():
        return before
    edge = find_first_id_since(model, _midnight(until + timedelta(days=1)))
    return min(before, edge) if before is not None else edge


def find_first_id_since(model: type[Model], moment: datetime) -> int:
    """The lowest id written at a moment or later, by halving: a few rows are read.

    Where ids do not rise with time, as after an import, one of several such places.
    """
    rows = model._default_manager.order_by("pk")
    ends = rows.aggregate(low=Min("pk"), high=Max("pk"))
    low, high = ends["low"] or 0, (ends["high"] or 0) + 1
    while low < high:
        middle = (low + high) // 2
        row = rows.filter(pk__gte=middle).values_list("pk", "created_at").first()
        if row is None or row[1] >= moment:
            high = middle
        else:
            low = row[0] + 1
    return low


# --- Messages


def _find_messages(asked: dict[str, Any], question: dict[str, Any]) -> list[Result]:
    question["before"] = _find_edge(Memory, asked["before"], asked["until"])
    field = LOG_FIELDS[asked["where"]]
    hits = search_messages(
        **question,
        reasoning=field == "reasoning",
        calls=field == "calls",
        origin=asked["origin"],
        most_bytes=PAGE_BYTES,
    )
    known = feed.load_names(hit.mysis for hit in hits)
    return [_show_message(hit, known.get(hit.mysis)) for hit in hits]


def _show_message(hit: Hit, mysis: Mysis | None) -> Result:
    return Result(
        id=hit.memory_id,
        memory=hit.memory_id,
        mysis=mysis,
        who=hit.role if hit.origin == "agent" else hit.origin,
        snippet=hit.snippet,
        at=hit.timestamp,
        origin=hit.origin,
        link=_link_message(mysis, hit.memory_id),
        taken_back=hit.taken_back,
        fits=hit.fits,
    )


def _link_message(mysis: Mysis | None, memory: int | None) -> str:
    """The message in its place."""
    return f"{mysis.get_absolute_url()}?at={memory}" if mysis else ""


# --- What stands beside the log


def _find_notes(asked: dict[str, Any], question: dict[str, Any]) -> list[Result]:
    since, until = _read_days(asked)
    hits = search_notes(**question, since=since, until=until)
    known = feed.load_names(hit.mysis for hit in hits)
    return [_show_note(hit, known.get(hit.mysis)) for hit in hits]


def _show_note(hit: NoteHit, mysis: Mysis | None) -> Result:
    link = ""
    if mysis is not None:
        page = reverse("mysis-notes", args=[mysis.page_key])
        link = f"{page}?{urlencode({'name': hit.name})}#note-{hit.id}"
    return Result(hit.id, None, mysis, "note", hit.snippet, hit.timestamp, "note", link)


def _find_broadcasts(asked: dict[str, Any], question: dict[str, Any]) -> list[Result]:
    """Each with one message of it: that of the Mysis asked for, or the first."""
    question["before"] = _find_edge(Broadcast, asked["before"], asked["until"])
    since, until = _read_days(asked)
    hits = search_broadcasts(**question, since=since, until=until)
    rows = Memory.objects.filter(broadcast__in=[hit.id for hit in hits])
    if asked["mysis"]:
        rows = rows.filter(mysis=asked["mysis"])
    found = rows.order_by("-pk").values_list("broadcast", "pk", "mysis")
    places = {broadcast: (pk, owner) for broadcast, pk, owner in found}
    known = feed.load_names(owner for _, owner in places.values())
    results = []
    for hit in hits:
        memory, owner = places.get(hit.id, (None, 0))
        results.append(_show_broadcast(hit, memory, known.get(owner)))
    return results


def _show_broadcast(
    hit: BroadcastHit, memory: int | None, mysis: Mysis | None
) -> Result:
    link = _link_message(mysis, memory)
    who = read_sender_name(hit.sender)
    return Result(hit.id, memory, mysis, who, hit.snippet, hit.timestamp, "", link)


def _find_records(asked: dict[str, Any], question: dict[str, Any]) -> list[Result]:
    since, until = _read_days(asked)
    hits = record_search.search_records(
        asked["where"], **question, since=since, until=until
    )
    known = feed.load_names(hit.mysis for hit in hits)
    return [_show_record(hit, known.get(hit.mysis or 0)) for hit in hits]


def _show_record(hit: RecordHit, mysis: Mysis | None) -> Result:
    who, link = _describe_record(hit.row, mysis)
    return Result(hit.id, None, mysis, who, hit.snippet, hit.timestamp, "", link)


def _describe_record(row: Any, mysis: Mysis | None) -> tuple[str, str]:
    """What a row is called, and the address where it is read."""
    if isinstance(row, Event):
        page = f"{reverse('events')}?before={row.pk + NEWER_EVENTS}"
        return row.kind, f"{page}#event-{row.pk}"
    if isinstance(row, Order):
        return (
            f"order {row.pk} by {read_sender_name(row.sender)}",
            f"{row.get_absolute_url()}#text",
        )
    if isinstance(row, PromptVersion):
        page = reverse("prompt", args=[row.prompt_id])
        return str(row), f"{page}?before={row.number + 1}#v{row.number}"
    context = reverse("mysis-context", args=[mysis.page_key]) if mysis else ""
    if isinstance(row, Pin):
        return f"standing order, {row.state}", f"{context}#pin-{row.pk}"
    place = f"{context}?folded={row.pk + 1}#summary-{row.pk}"
    return f"summary {row.generation}, {row.status}", place
