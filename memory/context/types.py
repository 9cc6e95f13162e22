"""The frozen values that go into and come out of the context core.

Token counts are those of the request's counter, ids are those of the stored rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from memory.context.payback import Payback, TokenPrices

Role = Literal["system", "user", "assistant", "tool"]
Origin = Literal[
    "human",
    "broadcast",
    "agent",
    "tool",
    "nudge",
    "prompt",
    "summary",
    "state",
    "filler",
    "warning",
]
Policy = Literal["snapshot", "query", "mutation", "drain", "secret", "print"]
Dialect = Literal["openai", "anthropic"]
CounterName = Literal["estimate", "chars"]
Kind = Literal["prompt", "nudge", "filler", "stub", "summary", "state", "coalesced"]
Disposition = Literal[
    "kept",
    "pinned",
    "superseded",
    "masked",
    "truncated",
    "summarized",
    "out_of_window",
    "orphan",
    "displaced",
    "coalesced",
    "dropped_for_budget",
    "empty",
]
Status = Literal[
    "unchanged",
    "reduced",
    "compacted",
    "disabled",
    "nothing_to_send",
    "nothing_to_fold",
    "not_worth_it",
    "already_compacted",
    "cooling_down",
    "breaker_open",
    "summary_failed",
    "fallback_used",
    "budget_impossible",
]

# A tool as models are told of it: name, description and parameters, a JSON schema.
Described = Mapping[str, Any]

ROLES: tuple[Role, ...] = get_args(Role)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
POLICIES: tuple[Policy, ...] = get_args(Policy)
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
COUNTERS: tuple[CounterName, ...] = get_args(CounterName)
TOOL_MODES = ("full", "compact", "on_demand")
KINDS: tuple[Kind, ...] = get_args(Kind)
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)
STATUSES: tuple[Status, ...] = get_args(Status)

DEFAULT_ORIGINS: Mapping[Role, Origin] = {
    "system": "prompt",
    "user": "human",
    "assistant": "agent",
    "tool": "tool",
}
# Orders: only these rows state what somebody wants (A14).
INTENT_ORIGINS = frozenset({"human", "broadcast"})
# What the sender begins with where another Mysis wrote a message.
PEER = "mysis:"
# What the lines of such a message begin with in views.
_PEER_MARK = "[From Mysis "
# Rows that the program wrote itself; they never count toward a window.
MADE_UP_ORIGINS = frozenset({"nudge", "filler", "state", "summary"})

# The strategy of a request that names none, and the one that replaces one that failed.
DEFAULT_STRATEGY = "tiered"
FALLBACK_STRATEGY = "window"

NOTE_SCHEME = "note://"

NUDGE_TEXT = "What's your next move?"
FILLER_TEXT = "(Earlier messages are not shown. Continue from here.)"
# What a view warns of where the state block did not fit whole.
STATE_SHORTENED = "The state block was shortened to fit the budget."
STATE_LEFT_OUT = "The state block was left out to fit the budget."
NO_RESPONSE_TEXT = "Tool no response"
# Stands between a tool result and a text of the user's side (seed 002).
UNDERSTOOD_TEXT = "Understood."
# Between texts that are joined to one message.
SEPARATOR = "\n\n"

CRITICAL_REMINDERS = """\
CRITICAL REMINDERS:
- If you need past data, use zoea_search_messages or zoea_search_reasoning"""

# What the paragraph of a nudge begins with that names the open orders.
OPEN_ORDERS_LEAD = "Open orders: "

NUDGES = (
    NUDGE_TEXT,
    "You ended your last turn without doing anything. Look at the game state, choose "
    "one action and call its tool now.",
    "URGENT: you have stopped acting. Call a tool in this turn, or you will be set "
    "idle until somebody writes to you.",
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of an assistant message.

    The `id` of a stored one is the provider's and may repeat; in a view it is ours.

    `via` names the tool by way of which it was, or is to be sent as, made; `original`
    is that tool's arguments as the model wrote them, where we would spell them otherwise.
    """

    id: str
    name: str
    arguments: str
    via: str = field(default="", repr=False)
    original: str = field(default="", repr=False)

    def with_id(self, call_id: str) -> ToolCall:
        """The same call under another id."""
        return ToolCall(call_id, self.name, self.arguments, self.via, self.original)


@dataclass(frozen=True, slots=True)
class Message:
    """One row, in its `turn` if known; `signed` or a `signature` forbids edits (I12).

    `sender` is who wrote a user message; "mysis:" and a name is another Mysis.
    """

    id: int
    role: Role
    origin: Origin
    content: str
    reasoning: str | None = None
    signature: str | None = None
    signed: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    pending: bool = False
    created_at: str | None = None
    tick: int | None = None
    pinned: bool = False
    turn: int | None = None
    sender: str | None = None

    def is_order(self) -> bool:
        """Whether it states what somebody wants (A14); another Mysis orders nobody."""
        return is_order(self.origin, self.sender)

    def find_peer(self) -> str:
        """The name of the Mysis that wrote it, empty where no other one did."""
        sender = self.sender or ""
        return sender.removeprefix(PEER) if sender.startswith(PEER) else ""


@dataclass(frozen=True, slots=True)
class Budget:
    """The model's window, and what of it is reserved for the answer, in tokens."""

    tokens: int = 128_000
    reserve: int = 8_000


@dataclass(frozen=True, slots=True)
class Note:
    """A note that the agent keeps itself; its name is what recalls it.

    With `too_long` its text was not read, since no view has room for it.
    """

    name: str
    text: str
    too_long: bool = False
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A stored summary of every message up to and including `through_id`."""

    through_id: int
    text: str
    generation: int


@dataclass(frozen=True, slots=True)
class SummaryWanted:
    """A summary that the runtime should have a model write; the core calls no model.

    `request` holds the messages to send, in the dialect; in the anthropic dialect the
    system text is that of the view. In tokens: `folded` of the messages to cover,
    `replaced` of these and the previous summary, `limit` the most for the new one.
    `payback` says what it saves and costs, None where no price is known.
    """

    first_id: int
    last_id: int
    request: list[dict[str, Any]]
    folded: int = 0
    replaced: int = 0
    limit: int = 0
    payback: Payback | None = None


@dataclass(frozen=True, slots=True)
class Compaction:
    """What the runtime knows of its summaries and of the last call.

    `reported_tokens` is what the provider counted for the last call, prompt and
    answer together (L2), and `reported_through` the newest stored id in it (A13).
    With `reported_estimate`, our estimate of that call's prompt, `reported_tokens`
    is the prompt alone: the difference is what the estimate misses; `reported_cached`
    of them came from the provider's cache. With `prices` a summary that never pays
    back is asked for only where the budget needs it.
    `breaker_open`, `cooling_turns` and `failure` say why no summary may be asked for
    now. `prompt` replaces the default headings of the summarisation prompt, and
    `fold_tokens` bounds what one summary may cover; 0 for no bound.
    `summary_calls` counts the requests already made for this assembly.
    """

    reported_tokens: int = 0
    reported_through: int = 0
    reported_estimate: int = 0
    reported_cached: int = 0
    prices: TokenPrices | None = None
    breaker_open: bool = False
    cooling_turns: int = 0
    failure: str = ""
    prompt: str = ""
    fold_tokens: int = 0
    summary_calls: int = 0


@dataclass(frozen=True)
class OfferedTools:
    """The tools of one call: all that there are in full, and those that are sent.

    `mode` is one of `TOOL_MODES`. `catalogue` are the lines that stand in the system
    message under `on_demand`, else empty. Of `allow` None allows every tool of the game;
    `unfit` are its entries that fit none.
    """

    mode: str
    allow: tuple[str, ...] | None
    known: tuple[Described, ...]
    sent: tuple[Described, ...]
    catalogue: str = ""
    unfit: tuple[str, ...] = ()

    @cached_property
    def known_text(self) -> str:
        """All tools as JSON, as they are stored with a call."""
        return json.dumps(self.known, ensure_ascii=False)

    @cached_property
    def sent_text(self) -> str:
        """What is sent as JSON, as it is stored with a call."""
        return json.dumps(self.sent, ensure_ascii=False)

    @property
    def through_game(self) -> bool:
        """Whether the game's tools are called by way of `game`."""
        return self.mode == "on_demand"

    def count_tokens(self, count: Callable[[str], int]) -> int:
        """The tokens of what is sent beside the messages."""
        return count(json.dumps(self.sent)) if self.sent else 0


@dataclass(frozen=True, slots=True)
class AssemblyRequest:
    """Everything one assembly depends on.

    `render_state(max_bytes)` returns the game-state block within that many bytes, or
    an empty string. `calibration` multiplies the estimate (A30) and `estimate_error`
    is the measured fraction by which it is off, None if not measured; both go into
    the statistics. `tools_tokens` is what the tool schemas cost beside the messages;
    `offered` are these tools, None where they are not known.
    `nudge` replaces the default text after a view that would end with an assistant
    message; with one, a view may hold no stored message. `previous` is the view of
    the previous call. Rows before `unbroken_from` were read one by one, with gaps
    between them, so no summary may cover them. `notes` come newest first. The rest is for `coalesced`: the row of
    the `mission`, where it is one; the ids of orders that are not answered yet, None
    where that is not known; what the final answer must look like; and whether results
    are told below their calls. With `usage` the result has its statistics of
    compression as a box too (C6).
    """

    messages: tuple[Message, ...]
    system: str | None = None
    pins: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    summary: Summary | None = None
    compaction: Compaction = Compaction()
    render_state: Callable[[int], str] | None = None
    state_bytes: int = 2_048
    tick_skew: int = 0
    tool_policy: Mapping[str, str] = field(default_factory=dict)
    strategy: str = DEFAULT_STRATEGY
    options: Mapping[str, object] = field(default_factory=dict)
    budget: Budget = Budget()
    dialect: Dialect = "openai"
    counter: CounterName = "estimate"
    calibration: float = 1.0
    estimate_error: float | None = None
    tools_tokens: int = 0
    offered: OfferedTools | None = None
    mysis: str = "self"
    previous: Sequence[Mapping[str, Any]] | None = None
    unbroken_from: int = 0
    nudge: str | None = None
    mission: str | None = None
    turns_left: int | None = None
    max_turns: int | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    tools: Mapping[str, object] = field(default_factory=dict)
    definitions: Mapping[str, object] = field(default_factory=dict)
    signature: str | None = None
    mission_id: int | None = None
    open_orders: tuple[int, ...] | None = None
    show_results: bool = False
    usage: bool = False


def build_handle(mysis: str, message_id: int) -> str:
    """The handle by which a stored message can be read in full (I21)."""
    return f"ctx://{mysis}/{message_id}"


def build_note_handle(mysis: str, name: str) -> str:
    """The handle by which a note can be read in full."""
    return f"{NOTE_SCHEME}{mysis}/{name}"


def is_order(origin: str, sender: str | None) -> bool:
    """Whether a row of them states what somebody wants (A14); a Mysis orders nobody."""
    return origin in INTENT_ORIGINS and not (sender or "").startswith(PEER)


def is_nudge(text: str) -> bool:
    """Whether a text was written by the program, so that it is nobody's order."""
    return text.startswith((*NUDGES, CRITICAL_REMINDERS, FILLER_TEXT))


def split_nudge(text: str) -> tuple[str, str, str]:
    """What stands before the nudge at the end of a text, its words, its open orders.

    The words are empty where only its orders and its reminder end the text.
    """
    body = text.rpartition(CRITICAL_REMINDERS)[0].rstrip() or text
    head, _, last = body.rpartition("\n\n")
    orders = last if last.startswith(OPEN_ORDERS_LEAD) else ""
    before = head if orders else body
    words = next((each for each in NUDGES if before.endswith(each)), "")
    return before.removesuffix(words), words, orders


def drop_nudge_words(nudge: str) -> str:
    """What of a nudge is said where none is due: its open orders and its reminder."""
    found = (nudge.find(each) for each in (OPEN_ORDERS_LEAD, CRITICAL_REMINDERS))
    at = next((place for place in found if place >= 0), len(nudge))
    return nudge[at:]


def mark_peer_lines(text: str, name: str) -> str:
    """A text of another Mysis, each of its lines marked as theirs; those once only."""
    mark = f"{_PEER_MARK}{name}] "
    lines = text.splitlines(keepends=True)
    return "".join(
        line if line.startswith(mark) or not line.strip() else f"{mark}{line}"
        for line in lines
    )


def find_marked_peer(text: str) -> str:
    """The Mysis that all lines of a text are marked with, empty where none is."""
    head = text.lstrip()  # blank lines have no mark
    name, found, _ = head.removeprefix(_PEER_MARK).partition("] ")
    if not (found and head.startswith(_PEER_MARK) and [name] == name.splitlines()):
        return ""
    return name if mark_peer_lines(text, name) == text else ""
