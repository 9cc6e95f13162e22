"""``make bench-fleet``: what the state block and the strategies save, and at what price.

One seeded fleet is flown by two scripted captains under each way of making contexts,
through the program's own turn loop, database and game client. Everything is in
temporary folders and on the loopback address. Time is simulated, so the figures do not
depend on how fast the machine is.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.table import Table

from bench.loop.arms import ARMS, BASELINE, PRICED, RULES
from bench.processes import run_function
from sandbox.game.config import VERSIONS

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
    ("whole_mean", "request with tools, mean bytes"),
    ("tools_mean", "tools and their list, mean bytes"),
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
    ("good_facts_per_call", "good facts a call"),
    ("wrong_beliefs", "wrong beliefs"),
    ("summaries", "summaries made"),
    ("credits", "credits at the end"),
    ("went_idle", "endings in idleness"),
    ("errored_turns", "errored turns"),
)


#: The figures of each arm by its letter, for each captain.
Flown = dict[str, dict[str, dict[str, Any]]]
WIDTH = 190
#: Its full history comes to a million tokens within some ten turns.
SHARES = {"pilot": 1.0, "forgetful": 0.2}


@dataclass(frozen=True, slots=True)
class Target:
    """A figure with the seed's target and ours.

    A ``relative`` one is the change against the arm with the full history; ``limit``
    is the most that it may be.
    """

    key: str
    title: str
    seed: str
    ours: str
    limit: float
    relative: bool = False


#: What the state cache must achieve (GAME_STATE.md section 5).
TARGETS = (
    Target("gets_per_action", "get_* calls per action", "-80 %", "-95 %", -0.95, True),
    Target(
        "queries_per_action",
        "with the program's queries",
        "-80 %",
        "-95 %",
        -0.95,
        True,
    ),
    Target(
        "iteration_limit_endings",
        "iteration-limit endings",
        "-90 %",
        "-99 %",
        -0.99,
        True,
    ),
    Target("bytes_mean", "average context, bytes", "under 20 KB", "under 8 KB", 8_000),
    Target("state_bytes_most", "state per call, bytes", "2 KB", "at most 2 KB", 2_048),
    Target("state_bytes_median", "state per call, median", "-", "under 1.2 KB", 1_200),
    Target("calls_per_action", "model calls per action", "2 to 3", "at most 2", 2),
    Target("wrong_beliefs", "wrong beliefs", "-", "0", 0),
)


def judge_target(
    target: Target, before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> tuple[float | None, bool]:
    """The figure of a target, None where there is none, and whether it is met."""
    value = after[target.key]
    if value is None:
        return None, False
    if not target.relative:
        return value, value <= target.limit
    if before is None or not before[target.key]:
        return None, False
    change = value / before[target.key] - 1
    return change, change <= target.limit


def fly_arms(wanted: dict[str, Any], progress: Progress) -> Flown:
    """The figures by captain and arm. Raises RuntimeError where flying fails."""
    total = len(wanted["arms"]) * sum(wanted["captains"].values())
    task = progress.add_task("Starting", total=total + 1)
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        found: Flown = run_function(
            "bench.loop.flight:fly_arms",
            Path(folder),
            lambda said: progress.update(task, advance=1, description=said),
            json.dumps(wanted),
        )
    return found


def figure_table(captain: str, found: dict[str, dict[str, Any]]) -> Table:
    """The arms side by side."""
    table = Table(title=f"One fleet, several contexts: {captain}", title_justify="left")
    table.add_column("what", min_width=24)
    for arm in ARMS:
        if arm.letter in found:
            table.add_column(f"({arm.letter})", justify="right", no_wrap=True)
    for key, words in ROWS:
        values = (found[arm.letter][key] for arm in ARMS if arm.letter in found)
        table.add_row(words, *map(format_value, values))
    return table


def target_table(captain: str, found: dict[str, dict[str, Any]]) -> Table:
    """The targets, against the arm without cache and without cuts."""
    table = Table(title=f"Targets: {captain}", title_justify="left")
    table.add_column("what", min_width=24)
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


def list_details(captain: str, found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The calls by tool and the wrong beliefs of each arm, a line each."""
    for letter, flown in found.items():
        asked = ", ".join(f"{tool} {n}" for tool, n in flown["queries"].items())
        yield f"({letter}) {captain}, calls of tools: {asked}"
        for line in flown["wrong"]:
            yield f"({letter}) {captain}, wrong: {line}"


def _cell(target: Target, before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    value, met = judge_target(target, before, after)
    if value is None:
        return "-"
    colour = "green" if met else "red"
    words = f"{value:+.0%}" if target.relative else format_value(value)
    return f"[{colour}]{words}[/{colour}]"


def format_value(value: float | None) -> str:
    """A figure, short enough for a table."""
    if value is None:
        return "-"
    if isinstance(value, int) or value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Which arms fly, how long, and in what game."""
    parser = argparse.ArgumentParser(prog="make bench-fleet", description=__doc__)
    parser.add_argument(
        "--ticks", type=int, default=150, help="default 150; forgetful: a fifth"
    )
    parser.add_argument("--myses", type=int, default=4, help="default 4")
    parser.add_argument("--seed", type=int, default=7, help="of the game; default 7")
    parser.add_argument("--era", choices=VERSIONS, default="A", help="of the game")
    parser.add_argument("--faults", default="", help="as manage.py sandbox --faults")
    parser.add_argument(
        "--raids", type=float, default=0.01, help="chance of a raider a tick"
    )
    letters = "".join(arm.letter for arm in ARMS)
    parser.add_argument("--arms", default=letters, help=f"default {letters}")
    parser.add_argument(
        "--captain", choices=SHARES, help="fly with one only; default both"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it there too")
    options = parser.parse_args(argv)
    if not options.arms or set(options.arms) - set(letters):
        parser.error(f"--arms: name some of {letters}")
    if options.ticks < 1 or options.myses < 1:
        parser.error("--ticks and --myses must be at least 1")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Fly, and print; status 1 where it could not be flown."""
    options = parse_options(argv)
    wanted = {
        "arms": [arm.letter for arm in ARMS if arm.letter in options.arms],
        "captains": {
            captain: max(1, round(options.ticks * share))
            for captain, share in SHARES.items()
            if options.captain in (None, captain)
        },
        "myses": options.myses,
        "seed": options.seed,
        "game": {
            "era": options.era,
            "faults": options.faults,
            "raid_chance": options.raids,
        },
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # In a file all arms stand side by side; a terminal has the width that it has.
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        Elapsed(),
    )
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            found = fly_arms(wanted, bar)
    except (OSError, RuntimeError, ValueError) as error:
        console.print(f"bench-fleet: {error}", style="red", highlight=False)
        return 1
    for captain, arms in found.items():
        tables = figure_table(captain, arms), target_table(captain, arms)
        console.print(*tables, sep="\n")
        for line in list_details(captain, arms):
            console.print(line, highlight=False, markup=False)
    for arm in ARMS:
        if arm.letter in options.arms:
            console.print(f"({arm.letter}) {arm.title}", highlight=False)
    for line in (f"Beliefs: {BELIEFS}", *(RULES[name] for name in found)):
        console.print(line, highlight=False)
    if options.json:
        document = {"wanted": wanted, "rules": RULES, "captains": found}
        options.json.write_text(f"{json.dumps(document, indent=2)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
