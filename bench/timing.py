"""Medians of tasks that take turns, so that what else the machine does hits all."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter

REPEATS = 9
#: A sample is as many runs as take this long, for tasks of less than it.
SAMPLE_SECONDS = 0.02

Task = Callable[[], object]


def medians(tasks: Mapping[str, Task], repeats: int = REPEATS) -> dict[str, float]:
    """The median seconds of one run of each task; every task is warmed up once."""
    runs = {name: _runs(task) for name, task in tasks.items()}
    samples: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            samples[name].append(_sample(task, runs[name]))
    return {name: statistics.median(each) for name, each in samples.items()}


def _runs(task: Task) -> int:
    task()
    once = _sample(task, 1)
    return max(1, int(SAMPLE_SECONDS / max(once, 1e-6)))


def _sample(task: Task, runs: int) -> float:
    begun = perf_counter()
    for _ in range(runs):
        task()
    return (perf_counter() - begun) / runs
