"""What each kind of event is to people: its icon and chip, its words, whether it is news."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agents.actions.orders import WORKING
from agents.dashboard.conversation import (
    clip_text,
    format_arguments,
    name_message,
    read_sender_name,
)
from agents.events import Kind
from memory.gamestate.values import format_title

# Looking at something is no news, unless it failed.
LOOKS = ("get_", "view_", "list_", "find_", "search_", "zoea_")
# What the feed has under this chip only.
STALENESS = "stale"
# Everything grows old while nobody looks: the badges of the rows tell that.
BY_AGE = ("ageing", "stale")
# An order on its way is no news, unless somebody said a word on it. What becomes of it
# with several at once is told in one line, and so is a broadcast.
ON_THE_WAY = ("shown", "answered")
WORDS_ON_IT = ("report", "reopened", "noted")
TOLD_ELSEWHERE = ("broadcast", "whole")
# Characters of a value.
TEXT = 300

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
UNNAMED = frozenset({"", "system", "runtime"})


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
        if any(data.get(name) for name in TOLD_ELSEWHERE):
            return False
        word = any(data.get(name) for name in WORDS_ON_IT)
        return word or data.get("state") not in ON_THE_WAY
    return find_style(kind).news


def find_groups(kind: str, data: Data) -> set[str]:
    """The chips that count an event."""
    own = {find_style(kind).group}
    return own | {BAD} if is_bad(kind, data) else own


def is_bad(kind: str, data: Data) -> bool:
    """Whether an event tells of something that went wrong."""
    errored = "errored" in (data.get("state"), data.get("outcome"))
    wrong = kind in (Kind.ERROR, Kind.ALERT_RAISED)
    return wrong or data.get("ok") is False or errored


def read_text(data: Data, *keys: str) -> str:
    """The first of these values that an event has, cut to a line."""
    for key in keys:
        value = data.get(key)
        if value not in (None, "", [], {}):
            return clip_text(str(value), TEXT)
    return ""


def _colon(*parts: str) -> str:
    return ": ".join(part for part in parts if part)


def _state(data: Data) -> str:
    by = read_sender_name(read_text(data, "by"))
    if note := read_text(data, "note"):
        done = "forgotten" if data.get("forgotten") else "written"
        return f"note {note} {done} (by {by})"
    state = read_text(data, "state") or "changed"
    words = state if by in UNNAMED else f"{state} (by {by})"
    if cleared := data.get("cleared"):
        words += f", {cleared} {'order' if cleared == 1 else 'orders'} cleared"
    return _colon(words, read_text(data, "reason"), read_text(data, "error"))


def _tool(data: Data) -> str:
    if outcome := read_text(data, "outcome"):
        by = read_sender_name(read_text(data, "by"))
        return f"{outcome} (by hand, {by})" if by else outcome
    # An event of a version that did not tell outcomes.
    words = f"{read_text(data, 'tool') or 'a tool'}({format_arguments(data.get('arguments'))})"
    if data.get("ok") is not False:
        return clip_text(words, TEXT)
    return _colon(clip_text(words, TEXT), "refused", read_text(data, "error"))


def _stale(data: Data) -> str:
    causes = data.get("causes")
    told = [one for one in causes if isinstance(one, Mapping)] if causes else []
    if len(told) > 1:
        # What touched which fact is on the Mysis's page; here who had a part in it.
        parts = (
            _at_tick(read_text(one, "tool"), read_text(one, "tick")) for one in told
        )
        return f"after {clip_text(', '.join(dict.fromkeys(parts)), TEXT)}"
    reason, tick = read_text(data, "reason"), read_text(data, "tick")
    aged = data.get("confidence") in BY_AGE
    return _at_tick(
        f"{data['confidence']}, {reason}" if aged else f"after {reason}", tick
    )


def _at_tick(words: str, tick: str) -> str:
    return f"{words} at tick {tick}" if tick else words


def _updated(data: Data) -> str:
    done = "merged" if data.get("fields") else "captured"
    return f"{format_title(read_text(data, 'tool'))} {done}"


def _begun(data: Data, does: str = "begins") -> str:
    return " ".join(filter(None, ("turn", read_text(data, "number"), does)))


def _ended(data: Data) -> str:
    outcome = read_text(data, "outcome").replace("_", " ")
    return _colon(_begun(data, "ends"), outcome, read_text(data, "error"))


def _compacted(data: Data) -> str:
    done = SUMMARY_WORDS.get(read_text(data, "status"), "context compacted")
    return _colon(done, read_text(data, "reason"))


# What was done to a summary that was there; without a status it was made.
SUMMARY_WORDS = {"reverted": "summary taken back", "cleared": "summary tried again"}


def _memory(data: Data) -> str:
    # A message that is gone by now leaves no words.
    role, origin = read_text(data, "role"), read_text(data, "origin")
    return read_text(data, "words") or name_message(role, origin)


def _broadcast(data: Data) -> str:
    count = data.get("recipients")
    to = f"broadcast to {count}" if isinstance(count, int) else "broadcast"
    return _colon(to + _replaced(data), read_text(data, "text"))


def _replaced(data: Data) -> str:
    return " in place of what was open" if data.get("supersedes") else ""


def _order(data: Data) -> str:
    """What was ordered, or what became of it and why; the Mysis is named before."""
    text = read_text(data, "text")
    if data.get("state") == "queued" and not any(map(data.get, WORDS_ON_IT)):
        count = data.get("recipients")
        to = f"order to {count}" if isinstance(count, int) and count > 1 else "order"
        return _colon(to + _replaced(data), text)
    cut = clip_text(text, 80).rstrip(".")
    return _colon(_describe_order(data), cut, read_text(data, "note"))


def _describe_order(data: Data) -> str:
    """What became of an order, and who says so where that is not the Mysis."""
    if data.get("report") == WORKING:
        return "works on"
    state = f"order {read_text(data, 'state').replace('_', ' ')}"
    if data.get("report"):
        return state
    if data.get("noted"):
        state = "note on order"
    elif data.get("reopened"):
        state = "order open again"
    return f"{state} (by {read_sender_name(read_text(data, 'by'))})"


def _prompt(data: Data) -> str:
    return f"prompt {read_text(data, 'prompt')} is now version {read_text(data, 'version')}"


def _error(data: Data) -> str:
    words = read_text(data, "detail", "error", "message") or "error"
    remedy = read_text(data, "remedy")
    return f"{words} {remedy}".strip()


def _replay(data: Data) -> str:
    state = read_text(data, "state")
    far = f", {data.get('done')} of {data.get('total')} calls"
    words = f"replay {read_text(data, 'replay')} {state}"
    return _colon(words + far * (state == "running"), read_text(data, "error"))


def _plain(data: Data) -> str:
    return read_text(data, "text", "reason", "detail") or "event"


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
    Kind.REPLAY_CHANGED: KindStyle("refresh", "states", False, _replay),
}
OTHER = KindStyle("flag", "states", False, _plain)
# What the feed has while no chip is chosen.
NEWS = tuple(kind for kind, one in KINDS.items() if one.news and one.group != STALENESS)


def find_style(kind: str) -> KindStyle:
    """The style of a kind; one of a later version looks like any other."""
    return KINDS.get(kind, OTHER)
