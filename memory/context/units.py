"""What a strategy works with: units, the history made of them, and its plan.

A unit is one user message, one plain assistant message, or one assistant message
with its tool calls and all their results; it is kept or left out whole. A call is
known by its place (assistant message, index), never by the provider's id, which
repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from memory.context.result_types import CoalescedTurn
from memory.context.text import count_shortest, shorten_text
from memory.context.tokens import TokenCounter
from memory.context.tool_calls import GAME_HELP, PolicyLookup, get_sent_form
from memory.context.types import (
    NO_RESPONSE_TEXT,
    AssemblyRequest,
    Disposition,
    Kind,
    Message,
    Status,
    Summary,
    SummaryWanted,
    ToolCall,
    build_handle,
    find_marked_peer,
    mark_peer_lines,
)

# What stands in the place of the arguments of a call that was cut.
CUT_ARGUMENTS = "arguments_cut"


@dataclass(frozen=True, slots=True)
class Item:
    """One message of a view: `source` is its stored id, or `kind` says what it is.

    `call` is, for a tool result, the index of its call in the unit's first item.
    `whole` is the text before it was cut, None where it was not: a second cut is made
    from there, so that its note counts all that is missing.
    """

    role: str
    content: str
    tokens: int
    source: int | None = None
    kind: Kind | None = None
    calls: tuple[ToolCall, ...] = ()
    call: int = -1
    is_error: bool = False
    pending: bool = False
    reasoning: str | None = None
    signature: str | None = None
    whole: str | None = None

    @property
    def filled(self) -> bool:
        """Whether this replaces a result that never came, also as a stored row."""
        return self.role == "tool" and self.content == NO_RESPONSE_TEXT

    def with_text(self, content: str, tokens: int, whole: str | None = None) -> Item:
        """The same item with another text and its tokens; `whole` if it was cut."""
        # Spelled out: `replace` takes ten times as long, and long logs need it often.
        return Item(
            self.role,
            content,
            tokens,
            self.source,
            self.kind,
            self.calls,
            self.call,
            self.is_error,
            self.pending,
            self.reasoning,
            self.signature,
            whole,
        )


@dataclass(frozen=True)  # without slots: its tokens are asked for often, so kept
class Unit:
    """Items that stay together; `start` is the row index at which the unit begins.

    `rows` are all stored ids that belong to it, also of superseded results. A view
    without its `required` units is impossible. `turn` is that of its first row.
    """

    items: tuple[Item, ...]
    start: int
    rows: tuple[int, ...] = ()
    signed: bool = False
    pending: bool = False
    intent: bool = False
    required: bool = False
    turn: int | None = None

    @cached_property
    def tokens(self) -> int:
        return sum([item.tokens for item in self.items])

    @property
    def role(self) -> str:
        return self.items[0].role

    @property
    def sources(self) -> list[int]:
        """The stored ids of its items: its rows without superseded results."""
        return [item.source for item in self.items if item.source is not None]

    def with_items(self, items: tuple[Item, ...]) -> Unit:
        return Unit(
            items,
            self.start,
            self.rows,
            self.signed,
            self.pending,
            self.intent,
            self.required,
            self.turn,
        )

    def move(self, start: int) -> Unit:
        """The same unit at another place of its log."""
        if start == self.start:
            return self
        return Unit(
            self.items,
            start,
            self.rows,
            self.signed,
            self.pending,
            self.intent,
            self.required,
            self.turn,
        )


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one stored row, by which rule or stored id, and why."""

    disposition: Disposition
    by: int | str | None
    reason: str


@dataclass(slots=True)
class RepairedLog:
    """The log as units that a provider accepts, and what is known of every row.

    `counted` holds the row indexes that count toward a window, `prompt` the stored
    system prompt to send, `pins` the texts of pinned rows by id, `intent` the id of
    the newest order, `tokens_in` the tokens of each stored row. `capped` says which
    results were cut to the cap, `secret` whether a call may hold secrets.
    """

    units: list[Unit] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    counted: list[int] = field(default_factory=list)
    pins: dict[int, str] = field(default_factory=dict)
    tokens_in: dict[int, int] = field(default_factory=dict)
    capped: dict[int, Fate] = field(default_factory=dict)
    prompt: Message | None = None
    intent: int | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """What a strategy sees: the repaired log and what it may spend.

    `counted` holds the row indexes that count toward a window, ascending. `window`
    is the budget without the output reserve, `room` what remains of it for units.
    `sanitize` makes a text sendable that did not come in a unit. `notes` are what
    strategies noted, by their names, for the next view of the same log, longer only at
    its end.
    """

    units: tuple[Unit, ...]
    counted: tuple[int, ...]
    window: int
    room: int
    count: TokenCounter
    policy_of: PolicyLookup
    sanitize: Callable[[str], str]
    system: Item | None
    request: AssemblyRequest
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> Summary | None:
        return self.request.summary

    def handle(self, message_id: int) -> str:
        """The handle by which a stored message can be read in full (I21)."""
        return build_handle(self.request.mysis, message_id)


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy's answer: the units of the view in order, and why others are gone.

    A stored row that is neither in `units` nor in `fates` counts as out of the
    strategy's window. `covers_intent` and `exempt_newest` say that the newest order
    or the newest unit need not be added, as the plan's own units tell of it.
    `attach_state` puts the text of the state block into one of the units; without it
    the block stands behind them. `told` are the stored orders that a unit which is no
    stored row quotes, and `turns` what it tells of each turn.
    """

    units: tuple[Unit, ...]
    fates: Mapping[int, Fate] = field(default_factory=dict)
    status: Status | None = None
    reason: str = ""
    summary_wanted: SummaryWanted | None = None
    window_exceeded: bool = False
    covers_intent: bool = False
    exempt_newest: bool = False
    attach_state: Callable[[str], tuple[Unit, ...]] | None = None
    compression: Mapping[str, object] | None = None
    warnings: tuple[str, ...] = ()
    told: tuple[int, ...] = ()
    turns: tuple[CoalescedTurn, ...] = ()


def build_program_unit(
    text: str, tokens: int, kind: Kind, role: str = "user", *, required: bool = False
) -> Unit:
    """A unit of one message that is no stored row."""
    return Unit((Item(role, text, tokens, kind=kind),), start=-1, required=required)


def count_message_tokens(
    content: str, calls: tuple[ToolCall, ...], count: TokenCounter
) -> int:
    """Tokens of a message: content, call names and arguments, without overhead."""
    return count(content) + sum(count_call_tokens(call, count) for call in calls)


def count_call_tokens(call: ToolCall, count: TokenCounter) -> int:
    """Tokens of a call as it is sent."""
    name, arguments = get_sent_form(call)
    return count(name) + count(arguments)


def cut_call(call: ToolCall, limit: int, count: TokenCounter, handle: str) -> ToolCall:
    """The call with the head and the tail of its arguments, within `limit` tokens.

    They stand as one text in an object, so that they stay valid (I8). As it is where
    it has no more, or nothing would be saved.
    """
    if count(call.arguments) <= limit:
        return call
    # Its quotes take one more sign each.
    text = shorten_text(call.arguments, limit // 2, count, handle)
    if text is None:
        return call
    arguments = json.dumps({CUT_ARGUMENTS: text}, ensure_ascii=False)
    cut = ToolCall(call.id, call.name, arguments, call.via)
    return (
        cut if count_call_tokens(cut, count) < count_call_tokens(call, count) else call
    )


def shorten_item(
    item: Item, limit: int, count: TokenCounter, handle: str
) -> str | None:
    """The item's text within `limit` tokens, cut from the whole of it; see `shorten_text`.

    What is left of another Mysis's words has their mark on each line, as before.
    """
    text = item.whole
    if text is None or count(item.content) <= limit:
        text = item.content
    mark, counted = _find_marker(text, count)
    cut = shorten_text(text, limit, counted, handle)
    return None if cut is None else mark(cut)


def count_shortest_item(item: Item, count: TokenCounter, handle: str) -> int:
    """The fewest tokens that `shorten_item` can bring the item's text down to."""
    text = item.whole or item.content
    least = count_shortest(text, _find_marker(text, count)[1], handle)
    return min(least, count(item.content))


def _find_marker(
    text: str, count: TokenCounter
) -> tuple[Callable[[str], str], TokenCounter]:
    """What marks the lines of a cut text as the whole is, and counts it so."""
    peer = find_marked_peer(text)
    if not peer:
        return str, count
    return (
        lambda cut: mark_peer_lines(cut, peer),
        lambda cut: count(mark_peer_lines(cut, peer)),
    )


def find_loop_start(units: Sequence[Unit]) -> int:
    """The index at which the tool loop that is still open begins (A25).

    The loop is the run of tool blocks of one turn at the end, before any user
    messages that are not answered yet. Without one, it is the index behind the newest
    assistant unit.
    """
    index = len(units)
    while index and units[index - 1].role == "user":
        index -= 1
    newest = units[index - 1] if index else None
    while index and units[index - 1].items[0].calls:
        if newest is not None and not may_share_turn(units[index - 1], newest):
            break
        index -= 1
    return index


def may_share_turn(unit: Unit, other: Unit) -> bool:
    """Whether two units may belong to one turn; True where it is not known."""
    return unit.turn is None or other.turn is None or unit.turn == other.turn


def find_turn_start(units: Sequence[Unit]) -> int:
    """Where the open turn begins (A16); after the last unit where no turn is open."""
    if not units or (units[-1].role == "assistant" and not units[-1].items[0].calls):
        return len(units)
    index = find_loop_start(units)
    while index and units[index - 1].role == "user":
        index -= 1
    return index


def keep_calls(unit: Unit, stays: Sequence[int], count: TokenCounter) -> Unit:
    """The unit with these of its calls alone, by index, and their results."""
    head = unit.items[0]
    calls = tuple(head.calls[index] for index in stays)
    tokens = count_message_tokens(head.content, calls, count)
    moved = {index: place for place, index in enumerate(stays)}
    results = (
        replace(item, call=moved[item.call])
        for item in unit.items[1:]
        if item.call in moved
    )
    return unit.with_items((replace(head, calls=calls, tokens=tokens), *results))


def find_asked_schemas(units: Sequence[Unit]) -> list[Unit]:
    """The units in which the open turn was given schemas by `game_help`."""
    newest: Unit | None = None
    found: list[Unit] = []
    for unit in reversed(units):
        if unit.role == "user":
            if newest is not None and newest.turn is None:
                break
            continue
        if not unit.items[0].calls or not may_share_turn(unit, newest or unit):
            break
        newest = newest or unit
        if find_schema_items(unit):
            found.append(unit)
    return found[::-1]


def find_schema_items(unit: Unit) -> list[Item]:
    """The good results of `game_help` in a unit."""
    calls = unit.items[0].calls
    return [
        item
        for item in unit.items[1:]
        if calls[item.call].name == GAME_HELP and not (item.is_error or item.filled)
    ]
