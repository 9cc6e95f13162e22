"""What a search finds, as its page shows it.

The days go by ids, which rise with time as rows are written: by an index on the time
itself, a search would either sort all matches or keep a second order of the whole log.
An imported history keeps its own times under new ids. Its rows are shown with the right
day or not at all, but a search by days may end before it has seen those that lie
further back by id; without days every match is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Max, Min, Model
from django.utils import timezone

from agents.broadcast_search import BroadcastHit, search_broadcasts
from agents.dashboard import feed
from agents.dashboard.conversation import read_sender_name
from agents.models import Broadcast, Mysis
from memory.models import Memory
from memory.notes import NoteHit, search_notes
from memory.search.results import Hit, search_messages

# So many matches are looked through for a page.
ASKED = 100
BROADCASTS, NOTES = "broadcasts", "notes"


@dataclass(frozen=True, slots=True)
class Result:
    """A hit as the page shows it. ``snippet`` holds escaped text and marks.

    ``memory`` is the message to show in its place, None where nobody has it;
    ``origin`` is empty for a broadcast, which is not one Mysis's; ``note`` is the name
    of the note that it is.
    """

    id: int
    memory: int | None
    mysis: Mysis | None
    who: str
    snippet: str
    at: datetime
    origin: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The newest matches; ``reached`` is the oldest looked at, if more lie behind."""

    results: Sequence[Result]
    reached: int | None


def search_log(asked: dict[str, Any]) -> SearchPage:
    """The newest matches of a search form's values; raises SlowSearchError."""
    model = Broadcast if asked["where"] == BROADCASTS else Memory
    mysis_id = asked["mysis"].pk if asked["mysis"] else None
    chosen = {
        "query": asked["q"],
        "mode": asked["mode"] or "fts",
        "limit": ASKED,
        "before": _find_edge(model, asked["before"], asked["until"]),
        "mysis_id": mysis_id,
    }
    until: datetime | None = None
    if asked["where"] == NOTES:
        # Not by ids: there are few.
        chosen["before"] = asked["before"]
        day = asked["until"]
        until = _midnight(day + timedelta(days=1)) if day else None
        origin, found = "", _show_notes(search_notes(**chosen))
    elif model is Broadcast:
        origin, found = "", _show_broadcasts(search_broadcasts(**chosen), mysis_id)
    else:
        hits = search_messages(**chosen, reasoning=asked["where"] == "reasoning")
        origin, found = asked["origin"], _show_messages(hits)
    since = _midnight(asked["since"]) if asked["since"] else None
    in_time = [
        one
        for one in found
        if (since is None or one.at >= since) and (until is None or one.at < until)
    ]
    more = len(found) == ASKED and found[-1:] == in_time[-1:]
    wanted = [one for one in in_time if origin in ("", one.origin)]
    return SearchPage(wanted, found[-1].id if more else None)


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


def _show_messages(hits: Sequence[Hit]) -> list[Result]:
    known = feed.load_names(hit.mysis for hit in hits)
    return [
        Result(
            id=hit.memory_id,
            memory=hit.memory_id,
            mysis=known.get(hit.mysis),
            who=hit.role if hit.origin == "agent" else hit.origin,
            snippet=hit.snippet,
            at=hit.timestamp,
            origin=hit.origin,
        )
        for hit in hits
    ]


def _show_notes(hits: Sequence[NoteHit]) -> list[Result]:
    known = feed.load_names(hit.mysis for hit in hits)
    return [
        Result(
            id=hit.id,
            memory=None,
            mysis=known.get(hit.mysis),
            who="note",
            snippet=hit.snippet,
            at=hit.timestamp,
            origin="note",
            note=hit.name,
        )
        for hit in hits
    ]


def _show_broadcasts(
    hits: Sequence[BroadcastHit], mysis_id: int | None
) -> list[Result]:
    """Each with one message of it: that of the Mysis asked for, or the first."""
    rows = Memory.objects.filter(broadcast__in=[hit.id for hit in hits])
    if mysis_id is not None:
        rows = rows.filter(mysis_id=mysis_id)
    found = rows.order_by("-pk").values_list("broadcast", "pk", "mysis")
    places = {broadcast: (pk, owner) for broadcast, pk, owner in found}
    known = feed.load_names(owner for _, owner in places.values())
    results = []
    for hit in hits:
        memory, owner = places.get(hit.id, (None, 0))
        mysis, who = known.get(owner), read_sender_name(hit.sender)
        results.append(Result(hit.id, memory, mysis, who, hit.snippet, hit.timestamp))
    return results
