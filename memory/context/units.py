"""Units: what a strategy may keep or leave, but never tear apart.

A unit is one user message, one plain assistant message, or one assistant message
with tool calls and all its results. A call is known by its place (assistant message,
index), never by the provider's id, which repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from memory.context.tokens import Counter
from memory.context.tool_calls import PolicyOf
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
    handle_of,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One message of a view. `source` is the stored id; `kind` marks made-up ones.

    `call` is, for a tool result, the index of its call in the unit's assistant item.
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

    @property
    def filled(self) -> bool:
        """Whether this stands for a result that never came, also as a stored row."""
        return self.role == "tool" and self.content == NO_RESPONSE_TEXT

    def with_text(self, content: str, tokens: int) -> Item:
        """The same item with another text. Spelled out, as `replace` takes ten times
        as long and this is done to every other row of a long log."""
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
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """Items that stay together. `start` is the row index at which the unit begins.

    `rows` are the stored ids that belong to it, also those of interim results that
    are not shown. `required` units are sent or the budget is impossible. `turn` is
    that of its first row, where it is known.
    """

    items: tuple[Item, ...]
    start: int
    rows: tuple[int, ...] = ()
    signed: bool = False
    pending: bool = False
    intent: bool = False
    required: bool = False
    turn: int | None = None

    @property
    def tokens(self) -> int:
        """The tokens of all items together."""
        return sum([item.tokens for item in self.items])

    @property
    def role(self) -> str:
        """The role of the first item: user or assistant."""
        return self.items[0].role

    @property
    def sources(self) -> list[int]:
        """The stored ids behind its items: its rows without superseded results."""
        return [item.source for item in self.items if item.source is not None]

    def with_items(self, items: tuple[Item, ...]) -> Unit:
        """The same unit with other items."""
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


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one stored row, by which rule or stored id, and why."""

    disposition: Disposition
    by: int | str | None
    reason: str


@dataclass(slots=True)
class Repaired:
    """The log as units, and what is known of every row.

    `counted` holds the row indexes that count toward a window, `prompt` the stored
    system prompt to send, `pins` the texts of pinned rows by id, `intent` the id of
    the newest order, `tokens_in` the tokens of each stored row.
    """

    units: list[Unit] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    counted: list[int] = field(default_factory=list)
    pins: dict[int, str] = field(default_factory=dict)
    tokens_in: dict[int, int] = field(default_factory=dict)
    prompt: Message | None = None
    intent: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What a strategy sees: the repaired log and what it may spend.

    `counted` holds the row indexes that count toward a window, ascending. `window`
    is the budget without the output reserve, `room` what remains of it for units.
    `sanitize` makes a text sendable that did not come in a unit.
    """

    units: tuple[Unit, ...]
    counted: tuple[int, ...]
    window: int
    room: int
    count: Counter
    policy_of: PolicyOf
    sanitize: Callable[[str], str]
    system: Item | None
    request: AssemblyRequest

    @property
    def summary(self) -> Summary | None:
        """The newest stored summary, if there is one."""
        return self.request.summary

    def handle(self, message_id: int) -> str:
        """The handle of a stored message of this Mysis."""
        return handle_of(self.request.mysis, message_id)


@dataclass(frozen=True, slots=True)
class Plan:
    """A strategy's answer: the units of the view in order, and why others are gone.

    A stored row that is neither in `units` nor in `fates` is taken as left out by
    the strategy. `covers_intent` and `exempt_newest` say that the newest order or
    the newest unit is represented by the plan's own units. `attach_state` takes the
    state block's text and returns the units with it, where it is to stand inside
    one of them instead of behind all.
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


def item_tokens(content: str, calls: tuple[ToolCall, ...], count: Counter) -> int:
    """Tokens of a message: content, call names and arguments, without overhead."""
    tokens = count(content)
    for call in calls:
        tokens += count(call.name) + count(call.arguments)
    return tokens


# SECTION Where the work that is still going on begins, in a log of units.


def loop_start(units: Sequence[Unit]) -> int:
    """The index at which the tool loop that is still open begins (A25).

    It is the run of tool blocks at the end, as far as they are of one turn; orders
    that nobody has answered yet may follow it. Without an open loop the index lies behind its place.
    """
    index = len(units)
    while index and units[index - 1].role == "user":
        index -= 1
    newest = units[index - 1] if index else None
    while index and units[index - 1].items[0].calls:
        if newest is not None and not in_one_turn(units[index - 1], newest):
            break
        index -= 1
    return index


def in_one_turn(unit: Unit, other: Unit) -> bool:
    """Whether two units may belong to one turn: they do where it is not known."""
    return unit.turn is None or other.turn is None or unit.turn == other.turn


def turn_start(units: Sequence[Unit]) -> int:
    """The index at which the turn that is still open begins (A16).

    That is the open tool loop with the user messages before it. A log that ends with
    a plain answer has no open turn.
    """
    if not units or (units[-1].role == "assistant" and not units[-1].items[0].calls):
        return len(units)
    index = loop_start(units)
    while index and units[index - 1].role == "user":
        index -= 1
    return index
