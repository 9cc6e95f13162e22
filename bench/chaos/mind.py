"""What the whole fleet wants, and how its provider fails, whatever wire it speaks.

A Mysis is known by the name of its model, and has its own chance: so plays can be
told apart afterwards.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

WINDOW = 32_000
"""Tokens that a request may have, at four bytes each."""

BUSY, BROKEN, FULL = 0.02, 0.02, 0.005
ENDING = 0.6
NOBODY = "Not logged in. Use register or login."


@dataclass(frozen=True)
class Wish:
    """A tool that is called, and how its arguments are made."""

    tool: str
    arguments: Callable[[random.Random, str], Json] = lambda chance, word: {}


def _to(poi: str) -> Wish:
    return Wish("travel", lambda chance, word: {"target_poi": poi})


def _some(tool: str) -> Wish:
    return Wish(
        tool,
        lambda chance, word: {"item_id": "ore_iron", "quantity": chance.randint(1, 4)},
    )


MENU = (
    *[Wish("mine")] * 5,
    Wish("undock"),
    Wish("dock"),
    _to("sol_belt"),
    _to("sol_station"),
    *[_some("sell")] * 2,
    _some("jettison"),
    _some("deposit_items"),
    _some("buy"),
    Wish("refuel"),
    *[Wish("captains_log_add", lambda chance, word: {"entry": word})] * 3,
    *[Wish(name) for name in ("get_status", "get_cargo", "get_nearby", "get_system")],
    Wish("no_such_tool"),
)


@dataclass(frozen=True)
class Seen:
    """What a request shows: its size, whether tools spoke last, whether it has a name.

    ``tokens`` are counted at four bytes each.
    """

    tokens: int
    acted: bool
    nobody: bool


@dataclass(frozen=True)
class Called:
    """One call of a tool; ``word`` is its own in the whole run."""

    tool: str
    arguments: Json
    word: str


@dataclass(frozen=True)
class Decision:
    """What a request is answered: a failure by its name, or text and calls."""

    kind: str
    text: str = ""
    calls: tuple[Called, ...] = ()
    tokens: int = 0


class Mind:
    """Decides for every Mysis; ``done`` counts what it came to."""

    def __init__(self, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._seed = seed
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()

    def decide(self, name: str, seen: Seen) -> Decision:
        """A failure, or what this Mysis wants to do next."""
        with self._lock:
            self._asked[name] += 1
            number = self._asked[name]
        chance = random.Random(f"{self._seed}:{name}:{number}")  # noqa: S311
        failure = self._failure(chance, seen)
        found = failure or self._answer(chance, f"{name}.{number}", seen)
        with self._lock:
            self.done[found.kind] += 1
        return found

    def _failure(self, chance: random.Random, seen: Seen) -> Decision | None:
        roll = chance.random()
        if roll < BUSY:
            return Decision("429")
        if roll < BUSY + BROKEN:
            return Decision("502")
        if seen.tokens > WINDOW or roll < BUSY + BROKEN + FULL:
            return Decision("overflow", tokens=max(seen.tokens, WINDOW + 1))
        return None

    def _answer(self, chance: random.Random, word: str, seen: Seen) -> Decision:
        if seen.nobody:
            given = {"username": f"Cap {word}", "empire": "solarian"}
            return Decision("answer", calls=(Called("register", given, word),))
        if seen.acted and chance.random() < ENDING:
            return Decision("answer", f"Enough for now ({word}).")
        calls = []
        for place in range(chance.choice((1, 1, 2, 3))):
            wish, each = chance.choice(MENU), f"{word}.{place}"
            calls.append(Called(wish.tool, wish.arguments(chance, each), each))
        return Decision("answer", "Going on.", tuple(calls))


class Anybody:
    """All models there are."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith("cap")
