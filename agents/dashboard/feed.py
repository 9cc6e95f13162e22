"""The event log as lines: one an event, the noise left out, and where each leads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Max, Q, QuerySet
from django.urls import reverse

from agents.dashboard.conversation import clip_text, describe_messages
from agents.dashboard.event_kinds import (
    BAD,
    BY_AGE,
    GROUPS,
    KINDS,
    LOOKS,
    NEWS,
    ON_THE_WAY,
    STALENESS,
    TEXT,
    TOLD_ELSEWHERE,
    WORDS_ON_IT,
    Data,
    find_style,
    is_bad,
    is_news,
    read_text,
)
from agents.dashboard.shared_results import shared
from agents.events import Item, Kind
from agents.models import Event, Mysis
from memory.gamestate.values import format_title
from memory.models import fetch_rows
from memory.redaction import hide_secrets_in_value, sealed

# Lines of the feed.
SHOWN = 40
# What a line is made of, and what orders it.
_COLUMNS = ("mysis_id", "pk", "kind", "created_at", "xid", "data")
# How far back news are looked for among what is none, in events.
FAR = 20_000
_FLOOR = -FAR

MESSAGE = Kind.MEMORY_ADDED
# Kinds whose lines lead to a message in its place, or else to a turn.
PLACED = frozenset({MESSAGE, Kind.TOOL_CALLED})
LINKED_TURNS = frozenset({Kind.TURN_STARTED, Kind.TURN_FINISHED, Kind.TOOL_CALLED})
LINKED_ORDERS = frozenset({Kind.ORDER_CHANGED, Kind.BROADCAST_SENT})


@dataclass(frozen=True, slots=True)
class FeedLine:
    """One event as a line.

    ``cause`` is the tool that was called, ``stale`` names the snapshots that it
    made untrue; ``link`` is the address of the message, the turn or the order.
    """

    id: int
    kind: str
    icon: str
    at: datetime
    name: str
    key: str
    text: str
    bad: bool
    cause: str = ""
    stale: str = ""
    link: str = ""

    @property
    def groups(self) -> str:
        """The chips under which the line is shown, as class names."""
        found = {find_style(self.kind).group}
        found |= {STALENESS} if self.stale else set()
        found |= {BAD} if self.bad else set()
        return " ".join(f"group-{name}" for name in sorted(found))


def load_names(ids: Iterable[int | None]) -> dict[int, Mysis]:
    """Those of these Myses that still exist, with no more than links need."""
    return Mysis.objects.only("name").in_bulk(set(filter(None, ids)))


def make_event_lines(found: Iterable[Event]) -> list[FeedLine]:
    """Event rows as lines, in their order."""
    return _make_lines(
        (e.mysis_id, e.pk, e.kind, e.created_at, hide_secrets_in_value(e.data))
        for e in found
    )


def make_news_lines(items: Iterable[Item]) -> list[FeedLine]:
    """Items of the hub that are news as lines, newest first.

    The hub tells all viewers of the same items, so the lines are made once.
    """
    kept = [item for item in items if is_news(item["kind"], item["data"])]
    key = ("news", *(item["id"] for item in kept))
    return list(shared.get(key, lambda: make_item_lines(kept))) if kept else []


def make_item_lines(kept: Sequence[Item]) -> list[FeedLine]:
    """Items as lines, newest first; they come in stream order."""
    return _make_lines(
        (i["mysis"], i["id"], i["kind"], datetime.fromisoformat(i["at"]), i["data"])
        for i in reversed(kept)
    )


def _make_lines(
    found: Iterable[tuple[int | None, int, str, datetime, Data]],
) -> list[FeedLine]:
    kept = list(found)
    known = load_names(owner for owner, *_ in kept)
    messages = (
        data.get("memory_id") for _, _, kind, _, data in kept if kind == MESSAGE
    )
    said = describe_messages(n for n in messages if isinstance(n, int))
    return _join_effects(
        make_feed_line(
            number, kind, at, _add_words(kind, data, said), known.get(owner or 0)
        )
        for owner, number, kind, at, data in kept
    )


def _add_words(kind: str, data: Data, said: Mapping[int, str]) -> Data:
    words = said.get(data.get("memory_id", 0)) if kind == MESSAGE else None
    return {**data, "words": words} if words else data


def _join_effects(found: Iterable[FeedLine]) -> list[FeedLine]:
    """Tell what an action made stale on the action's own line.

    The lines come newest first, so the action stands before its effects.
    """
    joined: list[FeedLine] = []
    newest: dict[str, int] = {}
    for one in found:
        place = newest.get(one.key)
        if one.kind == Kind.SNAPSHOT_STALE and place is not None:
            cause = joined[place]
            if cause.cause == one.cause:
                stale = dict.fromkeys(
                    [*filter(None, cause.stale.split(", ")), one.stale]
                )
                joined[place] = replace(cause, stale=clip_text(", ".join(stale), TEXT))
                continue
        newest[one.key] = len(joined)
        joined.append(one)
    return joined


def make_feed_line(
    number: int, kind: str, at: datetime, data: Data, mysis: Mysis | None
) -> FeedLine:
    """One event in words."""
    key = mysis.page_key if mysis else ""
    is_stale = kind == Kind.SNAPSHOT_STALE
    return FeedLine(
        id=number,
        kind=kind,
        icon=find_style(kind).icon,
        at=at,
        name=mysis.name if mysis else str(data.get("name") or ""),
        key=key,
        text=find_style(kind).words(data),
        bad=is_bad(kind, data),
        cause=read_text(data, "reason" if is_stale else "tool"),
        stale=format_title(read_text(data, "tool")) if is_stale else "",
        link=_find_link(kind, data, key),
    )


def _find_link(kind: str, data: Data, key: str) -> str:
    memory, turn, order = (data.get(key) for key in ("memory_id", "turn", "order"))
    if kind == Kind.TOOL_CALLED:
        memory = data.get("memory")
    if kind in PLACED and key and isinstance(memory, int):
        return f"{reverse('mysis', args=[key])}?at={memory}"
    if kind in LINKED_ORDERS and isinstance(order, int):
        return reverse("order", args=[order])
    if kind in LINKED_TURNS and isinstance(turn, int):
        return reverse("turn", args=[turn])
    return ""


def load_newest_feed(group: str = "", limit: int = SHOWN) -> list[FeedLine]:
    """The newest news, newest first: of one chip if named, else all but staleness."""
    text, values = _write_newest(group, limit)
    if _FLOOR in values:
        floor = (Event.objects.aggregate(last=Max("pk"))["last"] or 0) - FAR
        values = tuple(floor if one == _FLOOR else one for one in values)
    found, known = fetch_rows(text, values), sealed.read().number
    return _make_lines(
        (mysis, number, kind, at, _read_data(data, known))
        for mysis, number, kind, at, _, data in found
    )


@lru_cache(maxsize=1_024)
def _read_data(text: str, known: int) -> Data:
    """Masked by what is ``known`` to be secret now; most lines were new before too."""
    found: Data = hide_secrets_in_value(json.loads(text))
    return found


@lru_cache(maxsize=16)
def _write_newest(group: str, limit: int) -> tuple[str, tuple[Any, ...]]:
    """The statement for the newest news, which takes longer to write than to answer.

    Among its values `_FLOOR` stands for the event from which news are looked for among
    what is none.
    """
    # Each kind has an index of its own; one scan of all would read much noise.
    first, *others = (
        _select_news(kind, group).values_list(*_COLUMNS)[:limit]
        for kind in _list_kinds(group)
    )
    if others:
        first = first.union(*others, all=True).order_by("-xid", "-id")[:limit]
    return first.query.sql_with_params()


def _list_kinds(group: str) -> Iterable[str]:
    if group not in GROUPS:
        return NEWS
    return [
        kind
        for kind, style in KINDS.items()
        if style.news
        and (style.group == group or _is_searched_for_failures(kind, group))
    ]


def _is_searched_for_failures(kind: str, group: str) -> bool:
    return group == BAD and kind in (Kind.TOOL_CALLED, Kind.MYSIS_STATE)


def _select_news(kind: str, group: str) -> QuerySet[Event]:
    """The news of a kind under a chip; among what is none from `_FLOOR` on."""
    rows = Event.objects.filter(kind=kind).order_by("-xid", "-id")
    if _is_searched_for_failures(kind, group):
        failed = Q(data__ok=False) | Q(data__state="errored")
        return rows.filter(failed, pk__gt=_FLOOR)
    if kind == Kind.TOOL_CALLED:
        looks = Q(data__tool__regex=f"^({'|'.join(LOOKS)})")
        # A fleet may do nothing but look for days.
        rows = rows.filter(pk__gt=_FLOOR)
        return rows.exclude(looks, data__ok=True, data__told__isnull=True)
    if kind == Kind.ORDER_CHANGED:
        silent = ~Q(data__has_any_keys=WORDS_ON_IT)
        known = rows.exclude(silent, data__state__in=ON_THE_WAY)
        return known.exclude(data__has_any_keys=TOLD_ELSEWHERE)
    if kind == Kind.SNAPSHOT_STALE:
        unknown = Q(data__confidence__isnull=True)
        return rows.filter(unknown | ~Q(data__confidence__in=BY_AGE), pk__gt=_FLOOR)
    return rows
