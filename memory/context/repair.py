"""From the stored log to units that a provider accepts (A3, A17, A31).

Repair reorders, fills or removes only what cannot be sent as it is; a valid log comes
out as it went in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.context.arguments import REDACTED, as_object, redacted, wire_name
from memory.context.matching import Draft, Matcher
from memory.context.policy import PolicyOf
from memory.context.text import clean
from memory.context.tokens import Counter
from memory.context.types import (
    INTENT_ORIGINS,
    MADE_UP_ORIGINS,
    NO_RESPONSE_TEXT,
    Dialect,
    Message,
    ToolCall,
)
from memory.context.units import Fate, Item, Unit, item_tokens

PINNED_STUB = "[pinned: see the standing orders]"

_EMPTY = Fate("empty", "repair", "It holds nothing that can be sent.")
_ORPHAN = Fate("orphan", "repair", "No call before it has this id.")
_PINNED = Fate("pinned", "pins", "Shown with the standing orders instead of in place.")
_BAD_ARGUMENTS = Fate(
    "truncated", "repair", "Arguments that are no JSON object were sent as {}."
)
_OLD_PROMPT = "A newer version of the system prompt is sent."


@dataclass(slots=True)
class Repaired:
    """The log as units, and what is known of every row.

    `prompt` is the stored system prompt to send, `pins` the texts of pinned rows by
    id, `intent` the id of the newest order, `tokens_in` the tokens of each row.
    """

    units: list[Unit] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    counted: list[int] = field(default_factory=list)
    pins: dict[int, str] = field(default_factory=dict)
    tokens_in: dict[int, int] = field(default_factory=dict)
    prompt: Message | None = None
    intent: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What repair needs to know of the request."""

    count: Counter
    policy_of: PolicyOf
    dialect: Dialect
    system_given: bool

    def is_blank(self, text: str) -> bool:
        """Whether the dialect refuses this as the text of a message."""
        return not text or (self.dialect == "anthropic" and not text.strip())


def repair(messages: Sequence[Message], rules: Rules) -> Repaired:
    """Read the log once, in stored order, in linear time."""
    return _Reader(rules).read(messages)


class _Reader:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.out = Repaired()
        self.matcher = Matcher()
        self.entries: list[Unit | Draft] = []
        self.current: Draft | None = None
        self.since: list[int] = []
        self.prompts: list[Message] = []

    def read(self, messages: Sequence[Message]) -> Repaired:
        for index, message in enumerate(messages):
            if message.origin not in MADE_UP_ORIGINS:
                self.out.counted.append(index)
            self._take(message, index)
        self._choose_prompt()
        for entry in self.entries:
            self._finish(entry)
        return self.out

    def _take(self, message: Message, index: int) -> None:
        if message.role == "tool":
            self._take_result(message)
        elif message.role == "assistant" and message.tool_calls:
            self._take_calls(message, index)
        elif message.role == "system" and message.origin == "prompt":
            self.prompts.append(message)
        else:
            self._take_single(message, index)

    def _take_result(self, message: Message) -> None:
        draft = self.matcher.place(message, self.current)
        if draft is None:
            self.out.tokens_in[message.id] = self.rules.count(message.content)
            self.out.fates[message.id] = _ORPHAN
            return
        if draft is self.current:
            for moved in self.since:
                self._displace(moved, draft)
            self.since.clear()
        else:
            self._displace(message.id, draft)

    def _displace(self, message_id: int, draft: Draft) -> None:
        if message_id not in self.out.fates:
            self.out.fates[message_id] = Fate(
                "displaced",
                draft.message.id,
                "Moved to the end of the tool block it belongs to or fell into.",
            )

    def _take_calls(self, message: Message, index: int) -> None:
        self.current = Draft(message, index)
        self.since.clear()
        self.matcher.open(self.current)
        self.entries.append(self.current)

    def _take_single(self, message: Message, index: int) -> None:
        text, tokens = self._measure(message)
        if self.rules.is_blank(text):
            self.out.fates[message.id] = _EMPTY
            return
        assistant = message.role == "assistant"
        if assistant:
            self.current = None
            self.since.clear()
        intent = not assistant and message.origin in INTENT_ORIGINS
        if intent:
            self.out.intent = message.id
        if message.pinned:
            self.out.pins[message.id] = text
            self.out.fates[message.id] = _PINNED
            return
        self.since.append(message.id)
        item = Item(
            role="assistant" if assistant else "user",
            content=text,
            tokens=tokens,
            source=message.id,
            reasoning=message.reasoning,
            signature=message.signature,
        )
        self.entries.append(
            Unit((item,), index, (message.id,), signed=_signed(message), intent=intent)
        )

    def _measure(self, message: Message) -> tuple[str, int]:
        """The text to send and its tokens; the stored row's tokens are noted."""
        count = self.rules.count
        text = clean(message.content)
        stored = count(message.content)
        self.out.tokens_in[message.id] = stored
        return text, stored if text is message.content else count(text)

    def _choose_prompt(self) -> None:
        """The newest stored prompt, unless the request brings one (A2, A10)."""
        newest: Message | None = None
        for message in self.prompts:
            text, _ = self._measure(message)
            if self.rules.is_blank(text):
                self.out.fates[message.id] = _EMPTY
            elif not self.rules.system_given:
                newest = message
        by: int | str = newest.id if newest else "system"
        for message in self.prompts:
            if message is newest or message.id in self.out.fates:
                continue
            if message.pinned:
                self.out.pins[message.id] = clean(message.content)
                self.out.fates[message.id] = _PINNED
            else:
                self.out.fates[message.id] = Fate("superseded", by, _OLD_PROMPT)
        self.out.prompt = newest

    def _finish(self, entry: Unit | Draft) -> None:
        if isinstance(entry, Unit):
            self.out.units.append(entry)
        else:
            self.out.units.append(self._unit_of(entry))

    def _unit_of(self, draft: Draft) -> Unit:
        """The whole tool block: the call message, its results, fillers at the end."""
        winners = [slot.winner() for slot in draft.slots]
        items = [self._call_item(draft.message)]
        rows = [draft.message.id]
        pending = False
        for result, index in draft.results:
            rows.append(result.id)
            winner = winners[index]
            if winner is result:
                pending = pending or result.pending
                name = draft.message.tool_calls[index].name
                items.append(self._result_item(result, index, name))
            elif winner is not None:
                self._supersede(result, winner)
        for index, winner in enumerate(winners):
            if winner is None:
                items.append(self._filler(index))
        return Unit(
            tuple(items),
            draft.start,
            tuple(rows),
            signed=_signed(draft.message),
            pending=pending,
        )

    def _supersede(self, result: Message, winner: Message) -> None:
        self.out.tokens_in[result.id] = self.rules.count(result.content)
        self.out.fates[result.id] = Fate(
            "superseded", winner.id, "A later result came for the same call."
        )

    def _call_item(self, message: Message) -> Item:
        count = self.rules.count
        text, tokens = self._measure(message)
        stored = self.out.tokens_in[message.id]
        calls = []
        for call in message.tool_calls:
            cost = count(call.name) + count(call.arguments)
            stored += cost
            sent = self._sendable(call, message.id)
            if sent is not call:
                cost = count(sent.name) + count(sent.arguments)
            tokens += cost
            calls.append(sent)
        self.out.tokens_in[message.id] = stored
        item = Item(
            role="assistant",
            content=text,
            tokens=tokens,
            source=message.id,
            calls=tuple(calls),
            reasoning=message.reasoning,
            signature=message.signature,
        )
        if message.pinned and not self.rules.is_blank(text):
            return self._pin_calls(message, item)
        return item

    def _pin_calls(self, message: Message, item: Item) -> Item:
        """The text goes to the standing orders, the calls stay (signed: all stays)."""
        self.out.pins[message.id] = item.content
        self.out.fates[message.id] = _PINNED
        if _signed(message):
            return item
        tokens = item_tokens("", item.calls, self.rules.count)
        return Item("assistant", "", tokens, message.id, calls=item.calls)

    def _sendable(self, call: ToolCall, message_id: int) -> ToolCall:
        name = wire_name(call.name)
        if self.rules.policy_of(call.name) == "secret":
            return ToolCall(call.id, name, redacted(call.arguments))
        arguments, same = as_object(call.arguments)
        if not same:
            self.out.fates.setdefault(message_id, _BAD_ARGUMENTS)
        if arguments == call.arguments and name == call.name:
            return call
        return ToolCall(call.id, name, arguments)

    def _result_item(self, result: Message, index: int, name: str) -> Item:
        text, tokens = self._measure(result)
        replaced: str | None = None
        if self.rules.policy_of(name) == "secret":
            replaced = REDACTED if text else ""
        elif result.pinned and not self.rules.is_blank(text):
            self.out.pins[result.id] = text
            self.out.fates[result.id] = _PINNED
            replaced = PINNED_STUB
        if replaced is not None:
            text, tokens = replaced, self.rules.count(replaced)
        return Item(
            role="tool",
            content=text,
            tokens=tokens,
            source=result.id,
            call=index,
            is_error=result.is_error,
            pending=result.pending,
        )

    def _filler(self, index: int) -> Item:
        return Item(
            role="tool",
            content=NO_RESPONSE_TEXT,
            tokens=self.rules.count(NO_RESPONSE_TEXT),
            kind="filler",
            call=index,
            is_error=True,
        )


def _signed(message: Message) -> bool:
    return message.signed or message.signature is not None
