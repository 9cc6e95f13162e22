"""Memory of a tree of processes, as the kernel shares it out (PSS).

The resident size of forked processes counts their common pages once each; the
proportional size divides them, so that a sum over processes is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """One process of a tree; ``pss`` in bytes."""

    pid: int
    name: str
    pss: int


def pss_of(rollup: str) -> int:
    """The proportional size in bytes that a ``smaps_rollup`` tells."""
    found = _PSS.search(rollup)
    if found is None:
        raise ValueError("this smaps_rollup has no Pss line")
    return int(found[1]) * 1024


def name_of(words: list[str]) -> str:
    """What a process of the fleet is, by its command line."""
    program = Path(words[0].split(":")[0]).name if words else ""
    if program == "postgres":
        return "PostgreSQL"
    for word, name in (("daphne", "web"), ("procrastinate", "worker")):
        if word in words:
            return name
    for name in ("sandbox", "up"):
        if name in words:
            return name
    return program


def tree_of(pid: int) -> list[psutil.Process]:
    """A process and all that came from it."""
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def footprint(pids: Iterable[int]) -> list[Process]:
    """The memory of these processes and of all their children, the largest first."""
    found = {process.pid: process for pid in pids for process in tree_of(pid)}
    measured = []
    for pid, process in found.items():
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            measured.append(Process(pid, name_of(process.cmdline()), pss_of(rollup)))
        except (ProcessLookupError, FileNotFoundError, psutil.NoSuchProcess):
            # It ended meanwhile, as database connections do.
            continue
    return sorted(measured, key=lambda process: -process.pss)


def by_name(processes: Iterable[Process]) -> dict[str, tuple[int, int]]:
    """How many processes of each name there are, and their bytes together."""
    sums: dict[str, tuple[int, int]] = {}
    for process in processes:
        count, total = sums.get(process.name, (0, 0))
        sums[process.name] = (count + 1, total + process.pss)
    return sums
