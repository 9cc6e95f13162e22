"""``manage.py assemble`` as a process: its peak of memory, its time, its start."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.figures import Figure, Step, measure_medians
from bench.logs import Log, make_log, message_document
from bench.processes import ROOT

COUNT = 100_000
STRATEGIES = ("snapshot-window", "tiered")
REPEATS = 3
STARTS = 11
START_TARGET = 500.0
STEPS = REPEATS + 2
PEAK = str(Path(__file__).with_name("peak.py"))
MANAGE = str(ROOT / "manage.py")
TINY = '{"messages": [{"role": "user", "content": "Go."}]}'


@dataclass(frozen=True)
class Run:
    """One process: seconds of wall time, and bytes at its largest."""

    seconds: float
    peak: int


def measure(step: Step) -> list[Figure]:
    """Memory and time for large documents, and the start for a tiny one."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        step(f"Writing documents of {COUNT:,} messages")
        figures = _measure_large(Path(folder), step)
        step("Starting manage.py assemble")
        return [*figures, _measure_start(Path(folder))]


def _measure_large(folder: Path, step: Step) -> list[Figure]:
    log = make_log(COUNT)
    files = {name: folder / f"{name}.json" for name in STRATEGIES}
    for strategy, file in files.items():
        write_document(log, strategy, file)
    plain: list[Run] = []
    runs: dict[str, list[Run]] = {name: [] for name in STRATEGIES}
    for number in range(1, REPEATS + 1):
        step(f"Assembling {COUNT:,} messages, {number} of {REPEATS}")
        plain.append(measure_run(["json", str(files[STRATEGIES[0]])], folder))
        for strategy, file in files.items():
            runs[strategy].append(measure_run([MANAGE, "assemble", str(file)], folder))
    return [
        figure
        for strategy, found in runs.items()
        for figure in command_figures(strategy, found, plain)
    ]


def command_figures(strategy: str, found: list[Run], plain: list[Run]) -> list[Figure]:
    """The median memory and time of some runs, beside those of plain parsing."""
    alone = "a Python that only parses the document"
    note = f"manage.py assemble, {COUNT:,} messages"
    return [
        Figure(
            f"peak memory: {strategy}",
            statistics.median(run.peak for run in found),
            "bytes",
            baseline=statistics.median(run.peak for run in plain),
            baseline_is=alone,
            note=note,
        ),
        Figure(
            f"time: {strategy}",
            statistics.median(run.seconds for run in found),
            "s",
            baseline=statistics.median(run.seconds for run in plain),
            baseline_is=alone,
            note=note,
        ),
    ]


def _measure_start(folder: Path) -> Figure:
    file = folder / "tiny.json"
    file.write_text(TINY)
    seconds = measure_medians(
        {
            "tiny": partial(_run_python, [MANAGE, "assemble", str(file)]),
            "bare": partial(_run_python, ["-c", "pass"]),
        },
        STARTS,
    )
    return Figure(
        "start",
        seconds["tiny"] * 1000,
        "ms",
        baseline=seconds["bare"] * 1000,
        baseline_is="a Python that does nothing",
        target=START_TARGET,
        note="manage.py assemble, one message",
    )


def write_document(log: Log, strategy: str, file: Path) -> None:
    """Write the document of a log, message by message."""
    with file.open("w") as target:
        target.write(f'{{"strategy": {json.dumps(strategy)}, "messages": [')
        for message in log:
            comma = ", " if message is not log[0] else ""
            target.write(comma + json.dumps(message_document(message)))
        target.write("]}")


def measure_run(program: Sequence[str], folder: Path) -> Run:
    """Run a Python program to its end and measure it."""
    peak = folder / "peak"
    begun = perf_counter()
    _run_python([PEAK, str(peak), *program])
    return Run(perf_counter() - begun, int(peak.read_text()))


def _run_python(words: Sequence[str]) -> None:
    subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=300,
    )
