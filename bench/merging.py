"""What one more event costs an account that was told very many since it asked."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import growth
from bench.figures import Figure

STEPS = 3
PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.digesting"]


def measure(step: Callable[[str], None]) -> list[Figure]:
    """A figure for each number of events. Raises RuntimeError for none."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        return figures_of(json.loads(growth.last_line(PROGRAM, Path(folder), step)))


def figures_of(seconds: Mapping[str, float]) -> list[Figure]:
    """The figures of what was measured, the fewest events as the baseline."""
    fewest, *more = sorted(seconds, key=int)
    return [
        Figure(
            f"one event after {int(count):,} others: merge",
            seconds[count] * 1000,
            "ms",
            baseline=seconds[fewest] * 1000,
            baseline_is=f"after {fewest} others",
            note="7 snapshots made anew",
        )
        for count in more
    ]
