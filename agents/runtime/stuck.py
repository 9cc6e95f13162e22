"""Loops and standstill: told, shown as a badge, never a reason to end anything.

Two signs: the same call with the same result again and again, and turns in a row that
brought nothing. An action that the game carried out is progress, and so is an answer
that is new; an error is not, nor is an answer that the same call brought before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

WINDOW = 4
"""How many times as many results are looked back over as make a loop."""
REMEDY = "Send it a message, or look at its prompt and at its context."


@dataclass(frozen=True, slots=True)
class Tried:
    """One call and what it brought, as digests; ``acted`` for an action that worked."""

    name: str
    call: str
    result: str
    is_error: bool
    acted: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """After how many equal results, and how many empty turns, somebody is told."""

    repeats: int
    turns: int


@dataclass(frozen=True, slots=True)
class Trail:
    """What is remembered of former turns: results as "call:result", and empty turns."""

    results: tuple[str, ...] = ()
    empty_turns: int = 0


def tried(
    name: str, arguments: str, text: str, *, is_error: bool, read_only: bool
) -> Tried:
    """A call and its result, as far as they are compared."""
    acted = not is_error and not read_only
    return Tried(name, _digest(f"{name} {arguments}"), _digest(text), is_error, acted)


def follow(
    trail: Trail, calls: Sequence[Tried], limits: Limits, *, whole: bool
) -> tuple[Trail, str]:
    """The trail after one more turn, and why the Mysis seems stuck, or nothing.

    ``whole`` is a turn that ended by itself: others say nothing about progress.
    """
    results = list(trail.results)
    progress = False
    for one in calls:
        progress = progress or one.acted or _is_new(one, results)
        results = [] if one.acted else [*results, f"{one.call}:{one.result}"]
    kept = tuple(results[-limits.repeats * WINDOW :])
    empty = 0 if progress else trail.empty_turns + whole
    return Trail(kept, empty), _reason(kept, calls, empty, limits)


def _is_new(one: Tried, results: Iterable[str]) -> bool:
    return not one.is_error and f"{one.call}:{one.result}" not in results


def _reason(
    kept: Sequence[str], calls: Sequence[Tried], empty: int, limits: Limits
) -> str:
    if kept and calls and kept.count(kept[-1]) >= limits.repeats:
        times = kept.count(kept[-1])
        name = calls[-1].name
        return f"{name} brought the same result {times} times. {REMEDY}"
    if empty >= limits.turns:
        return f"{empty} turns in a row brought nothing new. {REMEDY}"
    return ""


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=5).hexdigest()
