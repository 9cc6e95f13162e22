"""What happens to a flying fleet when one thing fails, and when everything does at once.

Each fault ends with the fleet at rest and every turn, call, action and message accounted
for. ``chaos`` kills workers, web servers and PostgreSQL again and again, in a game and with
models that fail by themselves. The folder is a small file system of its own where mounting
is allowed, for a disk to be filled; elsewhere that fault is left out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.faults import chaos
from bench.faults.flight import Flight, fly
from bench.faults.operator import PATIENCE
from bench.faults.scenes import SCENES, Scene, Trial, play_scene
from bench.figures import Found, Step, Table

DISK = "400m"
CHAOS = "chaos"
CHAOS_OPTIONS = ("turns", "seconds", "seed", "era")
NAMES = [*(scene.name for scene in SCENES), CHAOS]
HEADINGS = ["fault", "what the user sees", "lost", "p50", "most"]


def add_options(parser: argparse.ArgumentParser) -> None:
    usual = chaos.Options()
    parser.add_argument(
        "scenes",
        nargs="*",
        type=_read_name,
        metavar="FAULT",
        help=f"of {', '.join(NAMES)}; else all but {CHAOS}",
    )
    parser.add_argument("--repeats", type=int, default=3, help="of each fault")
    parser.add_argument(
        "--myses", type=int, help=f"default 4; of {CHAOS} {usual.myses}"
    )
    for name in CHAOS_OPTIONS:
        default = getattr(usual, name)
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=f"of {CHAOS}"
        )


def _read_name(name: str) -> str:
    if name not in NAMES:
        raise argparse.ArgumentTypeError(
            f"no fault is called {name}: use {' or '.join(NAMES)}"
        )
    return name


def measure(options: argparse.Namespace, step: Step) -> Found:
    """Have all faults that were asked for, and chaos if it was."""
    found = Found([], document={})
    wanted = options.scenes or NAMES[:-1]
    if wanted != [CHAOS]:
        trials = try_scenes(wanted, options.repeats, options.myses or 4, step)
        found.tables.append(build_table(trials))
        found.faults += [
            t for each in trials.values() for one in each for t in one.lost
        ]
        found.document |= {
            scene.name: [asdict(trial) for trial in each]
            for scene, each in trials.items()
        }
    if CHAOS in wanted:
        given = {name: getattr(options, name) for name in CHAOS_OPTIONS}
        myses = options.myses or chaos.Options.myses
        report = chaos.play(chaos.Options(myses=myses, **given), step)
        found.tables.append(build_chaos_table(report))
        found.faults += report.faults
        found.document[CHAOS] = asdict(report)
    return found


def try_scenes(
    names: Sequence[str], repeats: int, myses: int, step: Step
) -> dict[Scene, list[Trial]]:
    """Have each of these faults so often, all of one fleet."""
    mountable = can_mount()
    chosen = [
        scene
        for scene in SCENES
        if scene.name in names and (mountable or scene.name != "disk")
    ]
    found: dict[Scene, list[Trial]] = {scene: [] for scene in chosen}
    with open_folder(own_disk=mountable) as folder, fly(folder, myses) as flight:
        for number, scene in enumerate(chosen * repeats, 1):
            step(f"{number} of {len(chosen) * repeats}: {scene.title}")
            found[scene].append(try_scene(scene, flight))
    return found


def try_scene(scene: Scene, flight: Flight) -> Trial:
    """Play a scene; a fleet that does not recover in time has lost that much."""
    try:
        return play_scene(scene, flight)
    except RuntimeError as error:
        return Trial(PATIENCE, lost=(str(error),))


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


def build_table(found: Mapping[Scene, list[Trial]]) -> Table:
    """A row for each fault: what was seen last, all that was lost, median and most."""
    table = Table("A fault, and the fleet", HEADINGS, mark="faults")
    for scene, trials in found.items():
        lost = "; ".join(text for trial in trials for text in trial.lost)
        seconds = sorted(trial.seconds for trial in trials)
        times = (f"{statistics.median(seconds):.1f} s", f"{seconds[-1]:.1f} s")
        table.rows.append([scene.title, trials[-1].seen, lost or "nothing", *times])
    return table


def build_chaos_table(report: chaos.Report) -> Table:
    """What the fleet went through, in lines."""
    total = sum(report.turns.values())
    rows = {
        "turns": f"{total} in {report.seconds:.0f} s: {_format_counts(report.turns)}",
        "killed or crashed": _format_counts(report.struck),
        "starts again": str(report.deaths),
        "answers of models": _format_counts(report.model),
        "faults of the game": _format_counts(report.game),
        "actions in the game": _format_counts(report.actions),
        "messages taken": str(report.messages),
        "not accounted for": str(len(report.faults)),
    }
    table = Table("Everything at once", ["what", "how often"], mark="faults chaos")
    table.rows = [list(row) for row in rows.items()]
    return table


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "-"
