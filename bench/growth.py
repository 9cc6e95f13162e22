"""Whether a context costs more the longer the stored history is (DESIGN: flat)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.figures import Aim, Figure
from bench.surroundings import ROOT, environment

TARGET = 1.5
STEPS = 4
PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.growing"]


def measure(step: Callable[[str], None]) -> list[Figure]:
    """A figure for each strategy. Raises RuntimeError where it cannot be had."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        return figures_of(json.loads(last_line(PROGRAM, Path(folder), step)))


def figures_of(found: Mapping[str, Mapping[str, Any]]) -> list[Figure]:
    """The figures of what was measured, the shorter history as the baseline."""
    figures = []
    for strategy, measured in found.items():
        few, many = sorted(measured["seconds"], key=int)
        figures.append(
            Figure(
                f"context of {int(many):,} rows: {strategy}",
                measured["seconds"][many] * 1000,
                "ms",
                baseline=measured["seconds"][few] * 1000,
                baseline_is=f"the newest {int(few):,} of them alone",
                target=TARGET,
                aim=Aim.RATIO_BELOW,
                note=f"{measured['rows'][many]} rows read",
            )
        )
    return figures


def last_line(program: list[str], data: Path, step: Callable[[str], None]) -> str:
    """Run a program; each line but the last is told as a step."""
    process = subprocess.Popen(
        program, cwd=ROOT, env=environment(data), stdout=subprocess.PIPE, text=True
    )
    last = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if last:
                step(last)
            last = line.strip()
    finally:
        # It lets go of its database when it is asked to end.
        process.terminate()
        status = process.wait(timeout=60)
    if status and not last.startswith("{"):
        raise RuntimeError(f"{program[-1]} could not measure (status {status}).")
    return last
