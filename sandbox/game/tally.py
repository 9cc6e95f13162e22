"""Counts what each account asked of the game, for measurements."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_NOTED = 10_000


@dataclass(frozen=True, slots=True)
class Write:
    """A call that was taken in and changes something, as it was asked for."""

    tick: int
    tool: str
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class Tally:
    """Counts of one account, by tool; a refusal is counted by its error code.

    `writes` are the newest calls that change something, the oldest first.
    `accepted` actions were taken in, `executed` ones had their effect, `failed` ones
    became impossible before their tick.
    """

    queries: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    executed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    writes: deque[Write] = field(default_factory=lambda: deque(maxlen=MOST_NOTED))
    first_tick: int = 0
    last_tick: int = 0

    def seen_at(self, tick: int) -> None:
        self.first_tick = self.first_tick or tick
        self.last_tick = tick

    def view(self) -> dict[str, Any]:
        """The counts with their sums, as JSON."""
        gets = {n: c for n, c in self.queries.items() if n.startswith("get_")}
        return {
            "mutations_executed": self.executed.total(),
            "mutations_accepted": self.accepted.total(),
            "mutations_failed": self.failed.total(),
            "get_calls": sum(gets.values()),
            "queries": self.queries.total(),
            "refusals": self.refused.total(),
            "first_tick": self.first_tick,
            "last_tick": self.last_tick,
            "by_tool": {
                "queries": dict(sorted(self.queries.items())),
                "accepted": dict(sorted(self.accepted.items())),
                "executed": dict(sorted(self.executed.items())),
                "failed": dict(sorted(self.failed.items())),
            },
            "refused": dict(sorted(self.refused.items())),
            "faults": dict(sorted(self.faults.items())),
        }


class Tallies:
    """The counts of all accounts by name; "" is who is not logged in."""

    def __init__(self) -> None:
        self._by_name: dict[str, Tally] = {}

    def of(self, username: str) -> Tally:
        return self._by_name.setdefault(username, Tally())

    def view(self) -> dict[str, Any]:
        return {name: tally.view() for name, tally in self._by_name.items()}

    def writes(self) -> dict[str, list[Write]]:
        return {name: list(tally.writes) for name, tally in self._by_name.items()}

    def clear(self) -> None:
        """Begin to count anew."""
        self._by_name.clear()
