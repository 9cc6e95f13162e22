"""``manage.py assemble`` as a process: its peak of memory, its time, its start."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

from bench.figures import Figure
from bench.logs import Log, document_of, played
from bench.surroundings import ROOT
from bench.timing import medians

COUNT = 100_000
STRATEGIES = ("snapshot-window", "tiered")
REPEATS = 3
STARTS = 11
START_TARGET = 500.0
STEPS = REPEATS + 2
HERE = Path(__file__).resolve().parent
MANAGE = str(ROOT / "manage.py")
TINY = '{"messages": [{"role": "user", "content": "Go."}]}'


@dataclass(frozen=True)
class Run:
    """What one process took: seconds of wall time and bytes at its largest."""

    seconds: float
    peak: int


def measure(step: Callable[[str], None]) -> list[Figure]:
    """The figures of large documents, then that of a tiny one."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        step(f"Writing documents of {COUNT:,} messages")
        figures = _large(Path(folder), step)
        step("Starting manage.py assemble")
        return [*figures, _start(Path(folder))]


def _large(folder: Path, step: Callable[[str], None]) -> list[Figure]:
    log = played(COUNT)
    files = {name: folder / f"{name}.json" for name in STRATEGIES}
    for strategy, file in files.items():
        write(log, strategy, file)
    plain: list[Run] = []
    runs: dict[str, list[Run]] = {name: [] for name in STRATEGIES}
    for number in range(1, REPEATS + 1):
        step(f"Assembling {COUNT:,} messages, {number} of {REPEATS}")
        parsing = [str(HERE / "parsing.py"), str(files[STRATEGIES[0]])]
        plain.append(run_of(parsing, folder))
        for strategy, file in files.items():
            runs[strategy].append(run_of([MANAGE, "assemble", str(file)], folder))
    return [
        figure
        for strategy, found in runs.items()
        for figure in figures_of(strategy, found, plain)
    ]


def figures_of(strategy: str, found: list[Run], plain: list[Run]) -> list[Figure]:
    """Memory and time of some runs, the medians of both kinds."""
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


def _start(folder: Path) -> Figure:
    file = folder / "tiny.json"
    file.write_text(TINY)
    seconds = medians(
        {
            "tiny": partial(_run, [MANAGE, "assemble", str(file)]),
            "bare": partial(_run, ["-c", "pass"]),
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


def write(log: Log, strategy: str, file: Path) -> None:
    """Write the document of a log, message by message."""
    with file.open("w") as target:
        target.write(f'{{"strategy": {json.dumps(strategy)}, "messages": [')
        for message in log:
            comma = ", " if message is not log[0] else ""
            target.write(comma + json.dumps(document_of(message)))
        target.write("]}")


def run_of(program: Sequence[str], folder: Path) -> Run:
    """Run a Python program to its end and measure it."""
    told = folder / "peak"
    begun = perf_counter()
    _run([str(HERE / "peak.py"), str(told), *program])
    return Run(perf_counter() - begun, int(told.read_text()))


def _run(words: Sequence[str]) -> None:
    subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=300,
    )
