"""The view as a captain remembers it: what was heard, said, called and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.llm.pilot.answers import Answer

STATE_TITLE = "## Current Game State"
NOT_LOGGED_IN = "Not logged in. Use register or login."


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the user's side that is no state block."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """An own message without a call: it ended a turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call with its answer; calls made together share their ``step``."""

    name: str
    arguments: Mapping[str, Any]
    answer: Answer
    step: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """The same for the same call."""
        return key_of(self.name, self.arguments)


def key_of(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """What makes two calls the same."""
    return name, str(sorted(arguments.items()))


Entry = Heard | Said | Called


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that a call of the pilot is given, beside the tools."""

    system: str = ""
    entries: Sequence[Entry] = ()
    state: str = ""
    turn_start: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "turn_start", _turn_start(self.entries))

    @property
    def turn(self) -> Sequence[Entry]:
        """What belongs to the turn that is going on, its occasion first."""
        return self.entries[self.turn_start :]

    def calls(self) -> Iterator[Called]:
        """All calls in view, oldest first."""
        return (entry for entry in self.entries if isinstance(entry, Called))

    @property
    def is_cramped(self) -> bool:
        """Whether the view holds no end of an earlier turn.

        Then it may begin inside this one, and what is asked for now pushes out
        what was asked for before.
        """
        return not any(isinstance(entry, Said) for entry in self.entries)

    def calls_of_turn(self) -> list[Called]:
        """The calls of this turn."""
        return [entry for entry in self.turn if isinstance(entry, Called)]


def _turn_start(entries: Sequence[Entry]) -> int:
    """A turn begins with what was heard last, or after what was said last."""
    for index in range(len(entries) - 1, -1, -1):
        if isinstance(entries[index], Heard):
            return index
        if isinstance(entries[index], Said):
            return index + 1
    return 0


def split_state(text: str) -> tuple[str, str]:
    """A user-side text as (what was said, state block); either may be empty."""
    at = text.rfind(f"\n{STATE_TITLE}") + 1
    if at or text.startswith(STATE_TITLE):
        return text[:at].strip(), text[at:].strip()
    lines = text.rstrip().splitlines()
    if lines and lines[-1].strip() == NOT_LOGGED_IN:
        return "\n".join(lines[:-1]).strip(), NOT_LOGGED_IN
    return text.strip(), ""
