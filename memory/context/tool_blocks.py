"""Tool blocks: an assistant message with its calls, and one result for each (A17, A31).

Provider ids repeat, and results come late or twice. A result goes to the newest
assistant message that still waits for its id. Within one message equal ids are
answered in order. A call may get an interim result first; the last final one wins and
the others are superseded by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from memory.context.call_ids import make_call_id
from memory.context.text import clean_text
from memory.context.tokens import TokenCounter
from memory.context.tool_calls import (
    GAME,
    REDACTED,
    PolicyLookup,
    Sanitizer,
    is_own_tool,
    normalize_arguments,
    normalize_name,
    redact_arguments,
)
from memory.context.types import (
    NO_RESPONSE_TEXT,
    Dialect,
    Message,
    ToolCall,
    mark_peer_lines,
)
from memory.context.units import (
    Fate,
    Item,
    RepairedLog,
    Unit,
    count_call_tokens,
    count_message_tokens,
)

_PINNED = Fate("pinned", "pins", "Shown with the standing orders instead of in place.")
_PINNED_STUB = "[pinned: see the standing orders]"
_BAD_ARGUMENTS = Fate(
    "truncated", "repair", "Arguments that are no JSON object were sent as {}."
)
_LATER_RESULT = "A later result came for the same call."
_FINAL = 2


@dataclass(slots=True)
class BlockDraft:
    """A unit in the making: the assistant row and its index in the log.

    `results` are its result rows in stored order, each with the index of its call;
    `answers` are the same for each call. `built`: the unit was made.
    """

    message: Message
    start: int
    answers: list[list[Message]] = field(default_factory=list)
    results: list[tuple[Message, int]] = field(default_factory=list)
    built: bool = False


@dataclass(slots=True)
class _Group:
    """The calls of one message that carry the same id."""

    draft: BlockDraft
    indexes: list[int] = field(default_factory=list)
    answered: int = 0
    # Seldom there is one, and an empty deque takes 600 bytes.
    interim: deque[int] | None = None

    def is_unanswered(self) -> bool:
        return self.answered < len(self.indexes)

    def answer(self, final: bool) -> int:
        """The index of the call that the next result answers."""
        if self.is_unanswered():
            index = self.indexes[self.answered]
            self.answered += 1
            if not final:
                self.interim = self.interim or deque()
                self.interim.append(index)
            return index
        if self.interim:
            return self.interim.popleft() if final else self.interim[0]
        return self.indexes[-1]


class ResultMatcher:
    """Places results while the log is read in order; every step takes constant time."""

    def __init__(self) -> None:
        self._latest: dict[str, _Group] = {}
        self._unanswered: dict[str, list[_Group]] = {}
        self._waiting: dict[str, list[_Group]] = {}

    def add_calls(self, draft: BlockDraft) -> None:
        """Expect results for the calls of an assistant message."""
        groups: dict[str, _Group] = {}
        for index, call in enumerate(draft.message.tool_calls):
            group = groups.get(call.id)
            if group is None:
                group = groups[call.id] = _Group(draft)
                self._latest[call.id] = group
                self._unanswered.setdefault(call.id, []).append(group)
            group.indexes.append(index)
            draft.answers.append([])

    def place(self, result: Message, current: BlockDraft | None) -> BlockDraft | None:
        """Put a result to its call: the block that it belongs to, None for an orphan."""
        group = self._find_group(result.tool_call_id, current)
        if group is None:
            return None
        final = _rank(result) == _FINAL
        was_waiting = bool(group.interim)
        index = group.answer(final)
        if group.interim and not was_waiting:
            self._waiting.setdefault(result.tool_call_id or "", []).append(group)
        group.draft.answers[index].append(result)
        group.draft.results.append((result, index))
        return group.draft

    def _find_group(
        self, call_id: str | None, current: BlockDraft | None
    ) -> _Group | None:
        if call_id is None:
            return None
        latest = self._latest.get(call_id)
        is_current = latest is not None and latest.draft is current
        if latest and is_current and (latest.is_unanswered() or latest.interim):
            return latest
        waiting = self._waiting.get(call_id, [])
        while waiting and not waiting[-1].interim:
            waiting.pop()
        if waiting:
            return waiting[-1]
        unanswered = self._unanswered.get(call_id, [])
        while unanswered and not unanswered[-1].is_unanswered():
            unanswered.pop()
        if unanswered and not is_current:
            return unanswered[-1]
        return latest


def _rank(result: Message) -> int:
    if result.origin == "filler":
        return 0
    return 1 if result.pending else _FINAL


# --- The block


@dataclass(frozen=True, slots=True)
class RepairRules:
    """What repair needs to know of the request.

    `through_game` says whether the game's tools are called by way of `game` now, None
    where the tools are not known.
    """

    count: TokenCounter
    policy_of: PolicyLookup
    dialect: Dialect
    system_given: bool
    sanitize: Sanitizer
    through_game: bool | None = None

    def choose_way(self, call: ToolCall, *, signed: bool) -> str:
        """By way of which tool a call is sent: one that is offered now.

        A signed message stays as the model made it (I12).
        """
        if signed or self.through_game is None:
            return call.via
        return GAME if self.through_game and not is_own_tool(call.name) else ""

    def is_blank(self, text: str) -> bool:
        """Whether the dialect refuses this as the text of a message."""
        return not text or (self.dialect == "anthropic" and not text.strip())

    def find_signed_reasoning(self, message: Message) -> tuple[str | None, str | None]:
        """Signed reasoning and its signature as they were, or none of both (I12)."""
        text, signature = message.reasoning, message.signature
        if message.role != "assistant" or not (text and text.strip() and signature):
            return None, None
        if self.sanitize(text) is not text or clean_text(signature) is not signature:
            return None, None
        return text, signature

    def measure(self, message: Message, out: RepairedLog) -> tuple[str, int]:
        """The text to send and its tokens; the tokens of the stored row go into `out`."""
        peer = message.find_peer() if message.role == "user" else ""
        said = mark_peer_lines(message.content, peer) if peer else message.content
        text = self.sanitize(said)
        stored = self.count(message.content)
        out.tokens_in[message.id] = stored
        return text, stored if text is message.content else self.count(text)


def build_block(draft: BlockDraft, rules: RepairRules, out: RepairedLog) -> Unit:
    """The whole block: the calls, their results as stored, fillers at the end (A17)."""
    message = draft.message
    draft.built = True
    # The last of the most final results of each call.
    winners = [max(reversed(a), key=_rank, default=None) for a in draft.answers]
    items = [_call_item(message, rules, out)]
    pending = False
    for result, index in draft.results:
        winner = winners[index]
        if winner is result:
            pending = pending or result.pending
            call = message.tool_calls[index]
            items.append(_result_item(result, index, call, rules, out))
        elif winner is not None:
            out.tokens_in[result.id] = rules.count(result.content)
            out.fates[result.id] = Fate("superseded", winner.id, _LATER_RESULT)
    items.extend(_fillers(winners, rules))
    rows = (message.id, *(result.id for result, _ in draft.results))
    signed = is_signed(message)
    return Unit(tuple(items), draft.start, rows, signed, pending, turn=message.turn)


@dataclass(frozen=True, slots=True)
class BuiltBlock:
    """A block in which nothing had to be repaired, and what it was built of.

    With the tokens of its rows, and which of its results were cut to the cap.
    """

    message: Message
    results: tuple[tuple[Message, int], ...]
    unit: Unit
    tokens_in: Mapping[int, int]
    capped: Mapping[int, Fate]

    @classmethod
    def keep(cls, draft: BlockDraft, unit: Unit, out: RepairedLog) -> BuiltBlock | None:
        """What was built of a draft; None where a repair may depend on the log."""
        if not out.fates.keys().isdisjoint(unit.rows):
            return None
        capped = {row: out.capped[row] for row in unit.rows if row in out.capped}
        tokens_in = {row: out.tokens_in[row] for row in unit.rows}
        return cls(draft.message, (*draft.results,), unit, tokens_in, capped)

    def is_of(self, draft: BlockDraft) -> bool:
        """Whether building this draft would give the same."""
        return self.message is draft.message and self.results == (*draft.results,)

    def build_again(self, draft: BlockDraft, out: RepairedLog) -> Unit:
        """The same unit at the place of the draft, with all that it says of its rows."""
        draft.built = True
        out.tokens_in.update(self.tokens_in)
        out.capped.update(self.capped)
        return self.unit.move(draft.start)


def is_signed(message: Message) -> bool:
    """Whether the row may not be edited (I12)."""
    return message.signed or message.signature is not None


def _call_item(message: Message, rules: RepairRules, out: RepairedLog) -> Item:
    count = rules.count
    text, tokens = rules.measure(message, out)
    calls = []
    for index, call in enumerate(message.tool_calls):
        cost = count_call_tokens(call, count)
        out.tokens_in[message.id] += cost
        sent = _sendable(call, message, rules, out)
        if sent is not call:
            cost = count_call_tokens(sent, count)
        tokens += cost
        calls.append(sent.with_id(make_call_id(call.id, message.id, index)))
    reasoning, signature = rules.find_signed_reasoning(message)
    # Of a pinned row the text moves and the calls stay; of a signed one all stays.
    if pin_text(message, text, out) and not is_signed(message):
        tokens = count_message_tokens("", tuple(calls), count)
        return Item("assistant", "", tokens, message.id, calls=tuple(calls))
    return Item(
        role="assistant",
        content=text,
        tokens=tokens,
        source=message.id,
        calls=tuple(calls),
        reasoning=reasoning,
        signature=signature,
    )


def pin_text(message: Message, text: str, out: RepairedLog) -> bool:
    """Put the text of a pinned row among the standing orders, if it is one."""
    if not message.pinned or not text.strip():
        return False
    out.pins[message.id] = text
    out.fates[message.id] = _PINNED
    return True


def _sendable(
    call: ToolCall, message: Message, rules: RepairRules, out: RepairedLog
) -> ToolCall:
    name = normalize_name(call.name)
    way = rules.choose_way(call, signed=is_signed(message))
    if rules.policy_of(call.name, call.arguments) == "secret":
        out.secret = True
        return ToolCall(call.id, name, redact_arguments(call.arguments), way)
    text = rules.sanitize(call.arguments)
    arguments, same = normalize_arguments(text)
    if not same:
        out.fates.setdefault(message.id, _BAD_ARGUMENTS)
    same = arguments == call.arguments and name == call.name and way == call.via
    if same and (not call.original or _may_stand(call.original, rules)):
        return call
    return ToolCall(call.id, name, arguments, way)


def _may_stand(original: str, rules: RepairRules) -> bool:
    """Whether a model's own text of arguments can be sent as it is (I8, I27)."""
    sendable = normalize_arguments(original) == (original, True)
    return sendable and rules.sanitize(original) is original


def _result_item(
    result: Message, index: int, call: ToolCall, rules: RepairRules, out: RepairedLog
) -> Item:
    text, tokens = rules.measure(result, out)
    replaced: str | None = None
    if rules.policy_of(call.name, call.arguments) == "secret":
        replaced = REDACTED if text else ""
    elif pin_text(result, text, out):
        replaced = _PINNED_STUB
    if replaced is not None:
        text, tokens = replaced, rules.count(replaced)
    return Item(
        role="tool",
        content=text,
        tokens=tokens,
        source=result.id,
        call=index,
        is_error=result.is_error,
        pending=result.pending,
    )


def _fillers(winners: list[Message | None], rules: RepairRules) -> list[Item]:
    return [
        Item(
            role="tool",
            content=NO_RESPONSE_TEXT,
            tokens=rules.count(NO_RESPONSE_TEXT),
            kind="filler",
            call=index,
            is_error=True,
        )
        for index, winner in enumerate(winners)
        if winner is None
    ]
