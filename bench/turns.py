"""What a turn costs beside model and game, and how many a worker carries."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Aim, Figure
from bench.growth import last_line

STEPS = 9
PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.turning"]
OVERHEAD_TARGET = 0.025
LATE_TARGET = 1.0


def measure(step: Callable[[str], None]) -> list[Figure]:
    """Take turns in a program of its own. Raises RuntimeError where it fails."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        return figures_of(json.loads(last_line(PROGRAM, Path(folder), step)))


def figures_of(found: Mapping[str, Any]) -> list[Figure]:
    """The figures of what was measured."""
    return [
        *_turn(found["turns"], found["crossing"]),
        *_growth(found["lengths"]),
        Figure(
            "turns of one worker process",
            found["per_second"],
            "/s",
            baseline=1 / statistics.median(turn["whole"] for turn in found["turns"]),
            baseline_is="one Mysis alone, turn after turn",
            note=f"16 at once, {found['busy']:.0%} of one core",
        ),
        *_late(found["late"]),
    ]


def overhead(turn: Mapping[str, float]) -> float:
    """The seconds of a turn in which neither model nor game was waited for."""
    return turn["whole"] - turn.get("model", 0.0) - turn.get("game", 0.0)


def _turn(turns: Sequence[Mapping[str, float]], crossing: float) -> list[Figure]:
    def middle(part: str) -> float:
        return statistics.median(turn.get(part, 0.0) for turn in turns)

    beside = _middle(turns)
    ways = middle("database times")
    calls = middle("model times")
    return [
        Figure(
            "a turn beside model and game (median)",
            beside * 1000,
            "ms",
            baseline=ways * crossing * 1000,
            baseline_is=f"as many empty ways into the database ({ways:.0f})",
            target=OVERHEAD_TARGET * 1000,
            note=f"{calls:.0f} model calls, {middle('game times'):.0f} game calls",
        ),
        *(
            Figure(
                f"a turn: {said} (median)",
                middle(part) * 1000,
                "ms",
                baseline=middle("whole") * 1000,
                baseline_is="the whole turn",
            )
            for part, said in (
                ("database", "database"),
                ("model", "the pilot"),
                ("game", "the local game"),
            )
        ),
    ]


def _growth(lengths: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Figure]:
    """What turns cost after long histories, beside a short one."""
    costs = {int(rows): _middle(turns) for rows, turns in lengths.items()}
    short = min(costs)
    return [
        Figure(
            f"a turn after {rows:,} memories (median)",
            cost * 1000,
            "ms",
            baseline=costs[short] * 1000,
            baseline_is=f"after {short:,}",
            note="beside model and game",
        )
        for rows, cost in sorted(costs.items())
        if rows != short
    ]


def _middle(turns: Sequence[Mapping[str, float]]) -> float:
    return statistics.median(map(overhead, turns))


def _late(late: Sequence[float]) -> list[Figure]:
    if not late:
        raise RuntimeError("No turn of the whole fleet began.")
    middle = statistics.median(late)
    return [
        Figure(
            "begin of a turn after it was due (p95)",
            late[int(len(late) * 0.95)] * 1000,
            "ms",
            baseline=middle * 1000,
            baseline_is="the median of the same run",
            target=LATE_TARGET * 1000,
            aim=Aim.BELOW,
            note=f"200 Myses, 10 s ticks, two workers, {len(late)} turns",
        )
    ]
