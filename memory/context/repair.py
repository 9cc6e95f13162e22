"""From the stored log to units that a provider accepts (A3, A17, A31).

Repair reorders, fills or removes only what cannot be sent as it is; a valid log comes
out as it went in.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.context.blocks import PINNED, Rules, block_of, is_signed
from memory.context.matching import Draft, Matcher
from memory.context.types import INTENT_ORIGINS, MADE_UP_ORIGINS, Message
from memory.context.units import Fate, Item, Repaired, Unit

_EMPTY = Fate("empty", "repair", "It holds nothing that can be sent.")
_ORPHAN = Fate("orphan", "repair", "No call before it has this id.")
_OLD_PROMPT = "A newer version of the system prompt is sent."


def repair(messages: Sequence[Message], rules: Rules) -> Repaired:
    """Read the log once, in stored order, in linear time."""
    return _Reader(rules).read(messages)


class _Reader:
    """`current` is the tool block that further results may still belong to, `since`
    the rows that came after it and that such a result moves behind it."""

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
            # W1, W2: the prompt comes in addition to the window.
            if message.origin not in MADE_UP_ORIGINS and message.origin != "prompt":
                self.out.counted.append(index)
            self._take(message, index)
        self._choose_prompt()
        self.out.units = [
            entry if isinstance(entry, Unit) else block_of(entry, self.rules, self.out)
            for entry in self.entries
        ]
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
        elif draft is self.current:
            for moved in self.since:
                self._displace(moved, draft)
            self.since.clear()
        else:
            self._displace(message.id, draft)

    def _displace(self, row: int, draft: Draft) -> None:
        why = "Moved to the end of the tool block that it belongs to or came into."
        self.out.fates[row] = Fate("displaced", draft.message.id, why)

    def _take_calls(self, message: Message, index: int) -> None:
        self.current = Draft(message, index)
        self.since.clear()
        self.matcher.open(self.current)
        self.entries.append(self.current)

    def _take_single(self, message: Message, index: int) -> None:
        text, tokens = self.rules.measure(message, self.out)
        if self.rules.is_blank(text):
            self.out.fates[message.id] = _EMPTY
            return
        assistant = message.role == "assistant"
        if assistant:
            self.current = None
        intent = not assistant and message.origin in INTENT_ORIGINS
        if intent:
            self.out.intent = message.id
        if message.pinned and text.strip():
            self.out.pins[message.id] = text
            self.out.fates[message.id] = PINNED
            return
        if self.current is not None:
            self.since.append(message.id)
        reasoning, signature = (
            self.rules.thinking(message) if assistant else (None, None)
        )
        item = Item(
            role="assistant" if assistant else "user",
            content=text,
            tokens=tokens,
            source=message.id,
            reasoning=reasoning,
            signature=signature,
        )
        rows = (message.id,)
        self.entries.append(
            Unit(
                (item,),
                index,
                rows,
                signed=is_signed(message),
                intent=intent,
                turn=message.turn,
            )
        )

    def _choose_prompt(self) -> None:
        """The newest stored prompt, unless the request brings one (A2, A10)."""
        newest: Message | None = None
        for message in self.prompts:
            text, _ = self.rules.measure(message, self.out)
            if self.rules.is_blank(text):
                self.out.fates[message.id] = _EMPTY
            elif not self.rules.system_given:
                newest = message
        by: int | str = newest.id if newest else "system"
        for message in self.prompts:
            if message is newest or message.id in self.out.fates:
                continue
            text = self.rules.sanitize(message.content)
            if message.pinned and text.strip():
                self.out.pins[message.id] = text
                self.out.fates[message.id] = PINNED
            else:
                self.out.fates[message.id] = Fate("superseded", by, _OLD_PROMPT)
        self.out.prompt = newest
