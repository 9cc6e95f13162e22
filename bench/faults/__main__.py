"""``python -m bench.faults``: one fault after another to a flying fleet, and what it cost.

Each ends with the fleet at rest and every turn, call, action and message accounted for.
The folder is a small file system of its own where mounting is allowed, for a disk to be
filled; elsewhere that fault is left out.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.faults.fleet import PATIENCE, Fleet, fly_fleet
from bench.faults.scenes import SCENES, Scene, Trial, play_scene
from bench.figures import describe_moment, show_steps
from bench.processes import ROOT
from bench.tables import TableData, markdown_table, replace_between, rich_table

DISK = "400m"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
HEADINGS = ["fault", "what the user sees", "lost", "p50", "most"]


@contextmanager
def open_folder(*, own_disk: bool) -> Iterator[Path]:
    """A folder for a run, on a small disk of its own if need be."""
    with tempfile.TemporaryDirectory(prefix="zoea-faults-") as name:
        if own_disk:
            size = f"size={DISK},mode=755"
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", size, "none", name], check=True
            )
        try:
            yield Path(name)
        finally:
            if own_disk:
                subprocess.run(["umount", "--lazy", name], check=True)


def can_mount() -> bool:
    """Whether this process may have a disk of its own to fill."""
    try:
        with open_folder(own_disk=True):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def try_scene(scene: Scene, fleet: Fleet) -> Trial:
    """Play a scene; a fleet that does not recover in time has lost that much."""
    try:
        return play_scene(scene, fleet)
    except RuntimeError as error:
        return Trial(PATIENCE, lost=(str(error),))


def build_table(found: dict[Scene, list[Trial]]) -> TableData:
    """A row for each fault: what was seen last, all that was lost, median and most."""
    table = TableData("A fault, and the fleet", HEADINGS)
    for scene, trials in found.items():
        lost = "; ".join(text for trial in trials for text in trial.lost)
        seconds = sorted(trial.seconds for trial in trials)
        times = (f"{statistics.median(seconds):.1f} s", f"{seconds[-1]:.1f} s")
        table.rows.append([scene.title, trials[-1].seen, lost or "nothing", *times])
    return table


def write_docs(table: TableData, repeats: int) -> None:
    """Rewrite what docs/benchmarks.md tells of faults."""
    often = "once" if repeats == 1 else f"{repeats} times"
    text = f"{describe_moment()}, {often} each.\n\n{markdown_table(table)}"
    replace_between(PAGE, BEGIN, END, text)


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """What is to happen, and how often."""
    parser = argparse.ArgumentParser(prog="bench.faults", description=__doc__)
    names = [scene.name for scene in SCENES]
    parser.add_argument(
        "scenes", nargs="*", metavar="FAULT", help=f"of {', '.join(names)}; else all"
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--myses", type=int, default=4, metavar="N")
    parser.add_argument(
        "--docs", action="store_true", help="write the table into docs/benchmarks.md"
    )
    options = parser.parse_args(argv)
    unknown = [name for name in options.scenes if name not in names]
    if unknown:
        parser.error(f"no fault is called {unknown[0]}: use {' or '.join(names)}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Have them all, and print; 1 where anything was lost."""
    options, console = parse_options(argv), Console()
    # Ends by an exception, so that programs and the disk are let go of too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    mountable = can_mount()
    chosen = [
        scene
        for scene in SCENES
        if scene.name in (options.scenes or [scene.name])
        and (mountable or scene.name != "disk")
    ]
    found: dict[Scene, list[Trial]] = {scene: [] for scene in chosen}
    plays = chosen * options.repeats
    with (
        show_steps(Console(stderr=True)) as step,
        open_folder(own_disk=mountable) as folder,
        fly_fleet(folder, options.myses) as fleet,
    ):
        for number, scene in enumerate(plays, 1):
            step(f"{number} of {len(plays)}: {scene.title}")
            found[scene].append(try_scene(scene, fleet))
    table = build_table(found)
    console.print(rich_table(table))
    if options.docs:
        write_docs(table, options.repeats)
    return int(any(trial.lost for trials in found.values() for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
