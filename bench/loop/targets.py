"""What the state cache must achieve (GAME_STATE.md section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """A figure with the seed's target and ours.

    A ``relative`` one is the change against the arm with the full history; ``limit``
    is the most that it may be.
    """

    key: str
    title: str
    seed: str
    ours: str
    limit: float
    relative: bool = False


TARGETS = (
    Target("gets_per_action", "get_* calls per action", "-80 %", "-95 %", -0.95, True),
    Target(
        "queries_per_action",
        "with the program's queries",
        "-80 %",
        "-95 %",
        -0.95,
        True,
    ),
    Target(
        "iteration_limit_endings",
        "iteration-limit endings",
        "-90 %",
        "-99 %",
        -0.99,
        True,
    ),
    Target("bytes_mean", "average context, bytes", "under 20 KB", "under 8 KB", 8_000),
    Target("state_bytes_most", "state per call, bytes", "2 KB", "at most 2 KB", 2_048),
    Target("state_bytes_median", "state per call, median", "-", "under 1.2 KB", 1_200),
    Target("calls_per_action", "model calls per action", "2 to 3", "at most 2", 2),
    Target("wrong_beliefs", "wrong beliefs", "-", "0", 0),
)


def verdict(
    target: Target, before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> tuple[float | None, bool]:
    """The figure that a target speaks of, None where there is none, and if it is met."""
    value = after[target.key]
    if value is None:
        return None, False
    if not target.relative:
        return value, value <= target.limit
    if before is None or not before[target.key]:
        return None, False
    change = value / before[target.key] - 1
    return change, change <= target.limit
