"""The event log in words: one line an event, the noise left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Max, Q, QuerySet
from django.urls import reverse

from agents.dashboard.conversation import (
    clip_text,
    describe_messages,
    format_arguments,
    name_message,
    read_sender_name,
)
from agents.dashboard.shared_results import shared
from agents.events import Item, Kind
from agents.models import Event, Mysis
from memory.gamestate.values import format_title

# Looking at something is no news, unless it failed.
LOOKS = ("get_", "view_", "list_", "find_", "search_", "zoea_")
# What the feed has under this chip only.
STALENESS = "stale"
# Everything grows old while nobody looks: the badges of the rows tell that.
BY_AGE = ("ageing", "stale")
# An order on its way is no news; a broadcast has a line of its own, and so has a tick
# for all recipients.
ON_THE_WAY = ("shown", "answered")
TOLD_ELSEWHERE = ("broadcast", "whole")
# Characters of a value, and lines of the feed.
TEXT = 300
SHOWN = 40
# How far back failures are looked for among what went well, in events.
FAR = 20_000

BAD = "bad"
# What the chips above the feed show, by the kind of a line.
GROUPS: Mapping[str, str] = {
    "acts": "Actions",
    STALENESS: "Staleness",
    "orders": "Orders",
    "states": "States",
    BAD: "Errors",
}
Data = Mapping[str, Any]
MESSAGE = Kind.MEMORY_ADDED
# Kinds whose lines lead to a message in its place, or else to a turn.
PLACED = frozenset({MESSAGE, Kind.TOOL_CALLED})
LINKED_TURNS = frozenset({Kind.TURN_STARTED, Kind.TURN_FINISHED, Kind.TOOL_CALLED})
UNNAMED = frozenset({"", "system", "runtime"})


@dataclass(frozen=True, slots=True)
class FeedLine:
    """One event as a line.

    ``cause`` is the tool that was called, ``stale`` names the snapshots that it
    made untrue; ``link`` is the address of the message or the turn.
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
        found = {_style(self.kind).group}
        found |= {STALENESS} if self.stale else set()
        found |= {BAD} if self.bad else set()
        return " ".join(f"group-{name}" for name in sorted(found))


def load_names(ids: Iterable[int | None]) -> dict[int, Mysis]:
    """Those of these Myses that still exist, with no more than links need."""
    return Mysis.objects.only("name").in_bulk(set(filter(None, ids)))


def make_event_lines(found: Iterable[Event]) -> list[FeedLine]:
    """Event rows as lines, in their order."""
    return _make_lines((e.mysis_id, e.pk, e.kind, e.created_at, e.data) for e in found)


def is_news(kind: str, data: Data) -> bool:
    """Whether an event of a kind goes into the feed, by what it says.

    A look is news where it brought the outcome of an action.
    """
    if kind == Kind.TOOL_CALLED and data.get("ok") is True:
        looks = str(data.get("tool")).startswith(LOOKS)
        return not looks or bool(data.get("told"))
    if kind == Kind.SNAPSHOT_STALE:
        return data.get("confidence") not in BY_AGE
    if kind == Kind.ORDER_CHANGED:
        told = any(data.get(name) for name in TOLD_ELSEWHERE)
        return data.get("state") not in ON_THE_WAY and not told
    return _style(kind).news


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
        icon=_style(kind).icon,
        at=at,
        name=mysis.name if mysis else str(data.get("name") or ""),
        key=key,
        text=_style(kind).words(data),
        bad=_is_bad(kind, data),
        cause=_text(data, "reason" if is_stale else "tool"),
        stale=format_title(_text(data, "tool")) if is_stale else "",
        link=_find_link(kind, data, key),
    )


def _find_link(kind: str, data: Data, key: str) -> str:
    memory, turn, order = (data.get(key) for key in ("memory_id", "turn", "order"))
    if kind == Kind.TOOL_CALLED:
        memory = data.get("memory")
    if kind in PLACED and key and isinstance(memory, int):
        return f"{reverse('mysis', args=[key])}?at={memory}"
    if kind == Kind.ORDER_CHANGED and isinstance(order, int):
        return reverse("order", args=[order])
    if kind in LINKED_TURNS and isinstance(turn, int):
        return reverse("turn", args=[turn])
    return ""


def find_groups(kind: str, data: Data) -> set[str]:
    """The chips that count an event."""
    own = {_style(kind).group}
    return own | {BAD} if _is_bad(kind, data) else own


def _is_bad(kind: str, data: Data) -> bool:
    errored = "errored" in (data.get("state"), data.get("outcome"))
    wrong = kind in (Kind.ERROR, Kind.ALERT_RAISED)
    return wrong or data.get("ok") is False or errored


def _text(data: Data, *keys: str) -> str:
    for key in keys:
        value = data.get(key)
        if value not in (None, "", [], {}):
            return clip_text(str(value), TEXT)
    return ""


def _colon(*parts: str) -> str:
    return ": ".join(part for part in parts if part)


def _state(data: Data) -> str:
    by = read_sender_name(_text(data, "by"))
    if note := _text(data, "note"):
        done = "forgotten" if data.get("forgotten") else "written"
        return f"note {note} {done} (by {by})"
    state = _text(data, "state") or "changed"
    words = state if by in UNNAMED else f"{state} (by {by})"
    return _colon(words, _text(data, "reason"), _text(data, "error"))


def _tool(data: Data) -> str:
    if outcome := _text(data, "outcome"):
        by = read_sender_name(_text(data, "by"))
        return f"{outcome} (by hand, {by})" if by else outcome
    # An event of a version that did not tell outcomes.
    words = (
        f"{_text(data, 'tool') or 'a tool'}({format_arguments(data.get('arguments'))})"
    )
    if data.get("ok") is not False:
        return clip_text(words, TEXT)
    return _colon(clip_text(words, TEXT), "refused", _text(data, "error"))


def _stale(data: Data) -> str:
    causes = data.get("causes")
    told = [one for one in causes if isinstance(one, Mapping)] if causes else []
    if len(told) > 1:
        # What touched which fact is on the Mysis's page; here who had a part in it.
        parts = (_at_tick(_text(one, "tool"), _text(one, "tick")) for one in told)
        return f"after {clip_text(', '.join(dict.fromkeys(parts)), TEXT)}"
    reason, tick = _text(data, "reason"), _text(data, "tick")
    aged = data.get("confidence") in BY_AGE
    return _at_tick(
        f"{data['confidence']}, {reason}" if aged else f"after {reason}", tick
    )


def _at_tick(words: str, tick: str) -> str:
    return f"{words} at tick {tick}" if tick else words


def _updated(data: Data) -> str:
    done = "merged" if data.get("fields") else "captured"
    return f"{format_title(_text(data, 'tool'))} {done}"


def _begun(data: Data, does: str = "begins") -> str:
    return " ".join(filter(None, ("turn", _text(data, "number"), does)))


def _ended(data: Data) -> str:
    outcome = _text(data, "outcome").replace("_", " ")
    return _colon(_begun(data, "ends"), outcome, _text(data, "error"))


def _compacted(data: Data) -> str:
    return _colon("context compacted", _text(data, "reason", "status"))


def _memory(data: Data) -> str:
    # A message that is gone by now leaves no words.
    role, origin = _text(data, "role"), _text(data, "origin")
    return _text(data, "words") or name_message(role, origin)


def _broadcast(data: Data) -> str:
    count = data.get("recipients")
    to = f"broadcast to {count}" if isinstance(count, int) else "broadcast"
    return _colon(to, _text(data, "text"))


def _order(data: Data) -> str:
    """What was ordered, or what became of it and why; the Mysis is named before."""
    text, state = _text(data, "text"), _text(data, "state").replace("_", " ")
    if state == "queued":
        count = data.get("recipients")
        to = f"order to {count}" if isinstance(count, int) and count > 1 else "order"
        return _colon(to, text)
    by = read_sender_name(_text(data, "by"))
    who = "" if data.get("report") else f" (by {by})"
    return _colon(
        f"order {state}{who}", clip_text(text, 80).rstrip("."), _text(data, "note")
    )


def _prompt(data: Data) -> str:
    return f"prompt {_text(data, 'prompt')} is now version {_text(data, 'version')}"


def _error(data: Data) -> str:
    words = _text(data, "detail", "error", "message") or "error"
    remedy = _text(data, "remedy")
    return f"{words} {remedy}".strip()


def _plain(data: Data) -> str:
    return _text(data, "text", "reason", "detail") or "event"


class KindStyle(NamedTuple):
    """How events of a kind are shown; ``news`` are those that the feed has at all."""

    icon: str
    group: str
    news: bool
    words: Callable[[Data], str]


KINDS: Mapping[str, KindStyle] = {
    Kind.MYSIS_STATE: KindStyle("flag", "states", True, _state),
    Kind.TURN_STARTED: KindStyle("turn", "states", False, _begun),
    Kind.TURN_FINISHED: KindStyle("turn", "states", False, _ended),
    Kind.MEMORY_ADDED: KindStyle("message", "orders", False, _memory),
    Kind.TOOL_CALLED: KindStyle("tool", "acts", True, _tool),
    Kind.SNAPSHOT_UPDATED: KindStyle("refresh", STALENESS, False, _updated),
    Kind.SNAPSHOT_STALE: KindStyle("stale", STALENESS, True, _stale),
    Kind.CONTEXT_COMPACTED: KindStyle("fold", "states", True, _compacted),
    Kind.BROADCAST_SENT: KindStyle("broadcast", "orders", True, _broadcast),
    Kind.ORDER_CHANGED: KindStyle("check", "orders", True, _order),
    Kind.PROMPT_CHANGED: KindStyle("prompt", "orders", True, _prompt),
    Kind.ERROR: KindStyle("alert", BAD, True, _error),
    Kind.ALERT_RAISED: KindStyle("alert", BAD, True, _plain),
    Kind.ALERT_CLEARED: KindStyle("check", "states", True, _plain),
}
OTHER = KindStyle("flag", "states", False, _plain)
# What the feed has while no chip is chosen.
NEWS = tuple(kind for kind, one in KINDS.items() if one.news and one.group != STALENESS)


def _style(kind: str) -> KindStyle:
    """The style of a kind; one of a later version looks like any other."""
    return KINDS.get(kind, OTHER)


def load_newest_feed(group: str = "", limit: int = SHOWN) -> list[FeedLine]:
    """The newest news, newest first: of one chip if named, else all but staleness."""
    # Each kind has an index of its own; one scan of all would read much noise.
    first, *others = (_select_news(kind, group)[:limit] for kind in _list_kinds(group))
    if others:
        first = first.union(*others, all=True).order_by("-xid", "-id")[:limit]
    return make_event_lines(first)


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
    rows = Event.objects.filter(kind=kind).order_by("-xid", "-id")
    if _is_searched_for_failures(kind, group):
        last = Event.objects.aggregate(last=Max("pk"))["last"] or 0
        failed = Q(data__ok=False) | Q(data__state="errored")
        return rows.filter(failed, pk__gt=last - FAR)
    if kind == Kind.TOOL_CALLED:
        looks = Q(data__tool__regex=f"^({'|'.join(LOOKS)})")
        return rows.exclude(looks, data__ok=True, data__told__isnull=True)
    if kind == Kind.ORDER_CHANGED:
        known = rows.exclude(data__state__in=ON_THE_WAY)
        return known.exclude(data__has_any_keys=TOLD_ELSEWHERE)
    if kind == Kind.SNAPSHOT_STALE:
        unknown = Q(data__confidence__isnull=True)
        return rows.filter(unknown | ~Q(data__confidence__in=BY_AGE))
    return rows
