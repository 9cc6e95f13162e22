"""``make bench-fleet``: what the state block and the strategies save, and at what price.

One seeded fleet is flown by the scripted pilot once under each way of making contexts,
through the program's own turn loop, database and game client. Everything is in
temporary folders and on the loopback address. Time is simulated, so the figures do not
depend on how fast the machine is.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table

from bench.loop.arms import ARMS, BASELINE, RULE
from bench.loop.figures import PRICED
from bench.loop.targets import TARGETS, Target, verdict
from bench.surroundings import ROOT, environment

PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.loop.flying"]
BELIEFS = (
    "a fact of the curated sections counts as good where it is fresh or merged; it is "
    "wrong where the same tool would answer otherwise at that moment, or not tell it any "
    "more. Who else is near, the police and flights under way are left out, and so is "
    "what the game would refuse to tell now."
)
ROWS: tuple[tuple[str, str], ...] = (
    ("model_calls", "model calls"),
    ("actions", "completed actions"),
    ("gets_per_action", "get_* calls per action"),
    ("fetched_by_code", "queries made by the program"),
    ("queries_per_action", "both kinds per action"),
    ("calls_per_action", "model calls per action"),
    ("iteration_limit_endings", "iteration-limit endings"),
    ("bytes_mean", "context, mean bytes"),
    ("bytes_p95", "context, p95 bytes"),
    ("tokens_mean", "context, mean tokens"),
    ("tokens_p95", "context, p95 tokens"),
    ("state_bytes_median", "state block, median bytes"),
    ("state_bytes_most", "state block, most bytes"),
    ("prefix_reuse", "bytes shared with the call before"),
    ("cost", f"cost at {PRICED} prices, US$"),
    ("cost_per_action", "cost per action, US$"),
    ("good_facts", "facts shown as good"),
    ("wrong_beliefs", "wrong beliefs"),
    ("summaries", "summaries made"),
    ("credits", "credits at the end"),
    ("went_idle", "endings in idleness"),
    ("errored_turns", "errored turns"),
)


def fly(wanted: dict[str, Any], progress: Progress) -> dict[str, dict[str, Any]]:
    """The figures of every wanted arm. Raises RuntimeError where flying fails."""
    task = progress.add_task("Starting", total=wanted["ticks"] * len(wanted["arms"]))
    found: dict[str, dict[str, Any]] = {}
    for line in _lines(wanted):
        if "flown" in line:
            found[line["arm"]] = line["flown"]
        else:
            said = f"Arm {line['arm']}, tick {line['tick']}"
            done = wanted["arms"].index(line["arm"]) * wanted["ticks"] + line["tick"]
            progress.update(task, completed=done, description=said)
    if set(found) != set(wanted["arms"]):
        raise RuntimeError("The fleet could not be flown to its end; see above.")
    return found


def _lines(wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        process = subprocess.Popen(
            [*PROGRAM, json.dumps(wanted)],
            cwd=ROOT,
            env=environment(Path(folder)),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        finally:
            # It lets go of its database when it is asked to end.
            process.terminate()
            process.communicate(timeout=60)


def table_of(found: dict[str, dict[str, Any]]) -> Table:
    """The arms side by side."""
    table = Table(title="One fleet, several contexts", title_justify="left")
    table.add_column("what")
    for arm in ARMS:
        if arm.letter in found:
            table.add_column(f"({arm.letter})", justify="right", no_wrap=True)
    for key, words in ROWS:
        values = (found[arm.letter][key] for arm in ARMS if arm.letter in found)
        table.add_row(words, *map(shown, values))
    return table


def targets_of(found: dict[str, dict[str, Any]]) -> Table:
    """What is to be achieved, against the arm without cache and without cuts."""
    table = Table(title="Targets", title_justify="left")
    table.add_column("what")
    table.add_column("seed's target", justify="right")
    table.add_column("ours", justify="right")
    arms = [arm for arm in ARMS if arm.letter in found and arm is not BASELINE]
    for arm in arms:
        table.add_column(f"({arm.letter})", justify="right")
    before = found.get(BASELINE.letter)
    for target in TARGETS:
        cells = [_cell(target, before, found[arm.letter]) for arm in arms]
        table.add_row(target.title, target.seed, target.ours, *cells)
    return table


def _cell(target: Target, before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    value, met = verdict(target, before, after)
    if value is None:
        return "-"
    colour = "green" if met else "red"
    words = f"{value:+.0%}" if target.relative else shown(value)
    return f"[{colour}]{words}[/{colour}]"


def shown(value: float | None) -> str:
    """A figure, short enough for a table."""
    if value is None:
        return "-"
    if isinstance(value, int) or value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def wishes_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """How long, how many, which."""
    parser = argparse.ArgumentParser(prog="make bench-fleet", description=__doc__)
    parser.add_argument("--ticks", type=int, default=150, help="default 150")
    parser.add_argument("--myses", type=int, default=4, help="default 4")
    parser.add_argument("--seed", type=int, default=7, help="of the game; default 7")
    parser.add_argument("--era", choices="AC", default="A", help="of the game")
    parser.add_argument("--faults", default="", help="as manage.py sandbox --faults")
    parser.add_argument(
        "--raids", type=float, default=0.01, help="chance of a raider a tick"
    )
    letters = "".join(arm.letter for arm in ARMS)
    parser.add_argument("--arms", default=letters, help=f"default {letters}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    wishes = parser.parse_args(argv)
    if not wishes.arms or set(wishes.arms) - set(letters):
        parser.error(f"--arms: name some of {letters}")
    if wishes.ticks < 1 or wishes.myses < 1:
        parser.error("--ticks and --myses must be at least 1")
    return wishes


def main(argv: Sequence[str] | None = None) -> int:
    """Fly, and print; status 1 where it could not be flown."""
    wishes = wishes_of(argv)
    wanted = {
        "arms": [arm.letter for arm in ARMS if arm.letter in wishes.arms],
        "ticks": wishes.ticks,
        "myses": wishes.myses,
        "seed": wishes.seed,
        "game": {
            "era": wishes.era,
            "faults": wishes.faults,
            "raid_chance": wishes.raids,
        },
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        Elapsed(),
    )
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            found = fly(wanted, bar)
    except (OSError, RuntimeError, ValueError) as error:
        console.print(f"bench-fleet: {error}", style="red", highlight=False)
        return 1
    console.print(table_of(found), targets_of(found), sep="\n")
    for arm in ARMS:
        if arm.letter in found:
            console.print(f"({arm.letter}) {arm.title}", highlight=False)
    console.print(f"Beliefs: {BELIEFS}", highlight=False)
    console.print(f"The pilot's rule for asking again: {RULE}", highlight=False)
    for letter, flown in found.items():
        asked = ", ".join(f"{tool} {n}" for tool, n in flown["queries"].items())
        console.print(f"({letter}) calls of tools: {asked}", highlight=False)
        for line in flown["wrong"]:
            console.print(f"({letter}) wrong: {line}", highlight=False, markup=False)
    if wishes.json:
        document = {"wanted": wanted, "rule": RULE, "arms": found}
        wishes.json.write_text(f"{json.dumps(document, indent=2)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
