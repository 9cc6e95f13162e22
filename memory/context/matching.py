"""Which result answers which call, when ids repeat, come late or twice (A17, A31).

A result goes to the newest assistant message that still waits for its id. Within one
message equal ids are answered in order. A call may get an interim result first; the
last final one wins and the others are superseded by it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from memory.context.types import Message

_FINAL = 2


@dataclass(slots=True)
class Slot:
    """One call of one assistant message, with every result that came for it."""

    results: list[Message] = field(default_factory=list)

    def winner(self) -> Message | None:
        """The result to show: the last of the most final ones, None without any."""
        best: Message | None = None
        for result in self.results:
            if best is None or _rank(result) >= _rank(best):
                best = result
        return best


@dataclass(slots=True)
class Draft:
    """A unit in the making: the assistant row, its index in the log, its slots.

    `results` are its result rows in stored order, each with the index of its call.
    """

    message: Message
    start: int
    slots: list[Slot] = field(default_factory=list)
    results: list[tuple[Message, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """The calls of one message that carry the same id."""

    draft: Draft
    indexes: list[int] = field(default_factory=list)
    answered: int = 0
    interim: deque[int] = field(default_factory=deque)

    def is_unanswered(self) -> bool:
        return self.answered < len(self.indexes)

    def is_waiting(self) -> bool:
        return bool(self.interim)

    def take(self, final: bool) -> int:
        """The index of the call that the next result answers."""
        if self.is_unanswered():
            index = self.indexes[self.answered]
            self.answered += 1
            if not final:
                self.interim.append(index)
            return index
        if self.interim:
            return self.interim.popleft() if final else self.interim[0]
        return self.indexes[-1]


class Matcher:
    """Places results while the log is read in order; every step takes constant time."""

    def __init__(self) -> None:
        self._latest: dict[str, _Group] = {}
        self._unanswered: dict[str, list[_Group]] = {}
        self._waiting: dict[str, list[_Group]] = {}

    def open(self, draft: Draft) -> None:
        """Take note of the calls of an assistant message."""
        groups: dict[str, _Group] = {}
        for index, call in enumerate(draft.message.tool_calls):
            group = groups.get(call.id)
            if group is None:
                group = groups[call.id] = _Group(draft)
                self._latest[call.id] = group
                self._unanswered.setdefault(call.id, []).append(group)
            group.indexes.append(index)
            draft.slots.append(Slot())

    def place(self, result: Message, current: Draft | None) -> Draft | None:
        """Put a result to its call; the message it belongs to, None for an orphan."""
        group = self._find(result.tool_call_id, current)
        if group is None:
            return None
        final = _rank(result) == _FINAL
        was_waiting = group.is_waiting()
        index = group.take(final)
        if group.is_waiting() and not was_waiting:
            self._waiting.setdefault(result.tool_call_id or "", []).append(group)
        group.draft.slots[index].results.append(result)
        group.draft.results.append((result, index))
        return group.draft

    def _find(self, call_id: str | None, current: Draft | None) -> _Group | None:
        if call_id is None:
            return None
        latest = self._latest.get(call_id)
        is_current = latest is not None and latest.draft is current
        if latest and is_current and (latest.is_unanswered() or latest.is_waiting()):
            return latest
        waiting = self._waiting.get(call_id, [])
        while waiting and not waiting[-1].is_waiting():
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
