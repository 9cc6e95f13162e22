"""One seeded fleet under several ways of making contexts: what each costs and saves.

It is flown by two scripted captains through the program's own turn loop, database and
game client. Time is simulated, so the figures do not depend on how fast the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.figures import Found, Step, Table
from bench.loop.arms import ARMS, BASELINE, PRICED, RULES
from bench.loop.flight import fly_arm
from bench.processes import migrated_database
from sandbox.game.config import VERSIONS

BELIEFS = (
    "Beliefs: a fact of the curated sections counts as good where it is fresh or merged; "
    "it is wrong where the same tool would answer otherwise at that moment, or not tell it "
    "any more. Who else is near, the police and flights under way are left out, and so is "
    "what the game would refuse to tell now."
)
ROWS = {
    "model_calls": "model calls",
    "turns": "turns",
    "iteration_limit_endings": "of these ended at the limit of calls",
    "actions": "completed actions",
    "gets_per_action": "the models' `get_*` calls per action",
    "queries_per_action": "with the program's own queries",
    "calls_per_action": "model calls per action",
    "whole_mean": "request with tools, mean bytes",
    "tools_mean": "of these tools and their list",
    "bytes_mean": "messages, mean bytes",
    "bytes_p95": "messages, p95 bytes",
    "tokens_mean": "messages, mean tokens",
    "tokens_p95": "messages, p95 tokens",
    "state_bytes_median": "state block, median bytes",
    "state_bytes_most": "state block, most bytes",
    "prefix_reuse": "share of bytes shared with the call before",
    "cost": f"cost, US$ at list prices of {PRICED}",
    "cost_per_action": "cost per action, US$",
    "good_facts_per_call": "good facts a call",
    "wrong_beliefs": "wrong facts among them",
    "summaries": "summaries made",
    "credits": "credits at the end",
    "went_idle": "endings in idleness",
    "errored_turns": "errored turns",
}
#: Its full history comes to a million tokens within some ten turns.
SHARES = {"pilot": 1.0, "forgetful": 0.2}

#: The figures of each arm by its letter.
Flown = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """The most that a figure may be, in words and as a number.

    A ``relative`` one is the change against the arm with the full history.
    """

    key: str
    words: str
    limit: float
    relative: bool = False


#: What the state cache must achieve (GAME_STATE.md section 5).
TARGETS = (
    Target("gets_per_action", "-95 %", -0.95, True),
    Target("queries_per_action", "-95 %", -0.95, True),
    Target("iteration_limit_endings", "-99 %", -0.99, True),
    Target("bytes_mean", "under 8 KB", 8_000),
    Target("state_bytes_most", "at most 2 KB", 2_048),
    Target("state_bytes_median", "under 1.2 KB", 1_200),
    Target("calls_per_action", "at most 2", 2),
    Target("wrong_beliefs", "0", 0),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    letters = "".join(arm.letter for arm in ARMS)
    parser.add_argument(
        "--ticks", type=_read_count, default=150, help="forgetful: a fifth"
    )
    parser.add_argument("--myses", type=_read_count, default=4)
    parser.add_argument("--seed", type=int, default=7, help="of the game")
    parser.add_argument("--era", choices=VERSIONS, default="A", help="of the game")
    parser.add_argument("--faults", default="", help="as manage.py sandbox --faults")
    parser.add_argument(
        "--raids", type=float, default=0.01, help="chance of one a tick"
    )
    parser.add_argument("--arms", type=_read_arms, default=letters, help=letters)
    parser.add_argument("--captain", choices=SHARES, help="fly with this one only")


def _read_count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("give a whole number from 1 on")
    return int(text)


def _read_arms(text: str) -> str:
    if not text or set(text) - {arm.letter for arm in ARMS}:
        raise argparse.ArgumentTypeError("name some arms by their letters")
    return text


def measure(options: argparse.Namespace, step: Step) -> Found:
    """Fly the arms with each captain against one database."""
    found = Found([], document={})
    with migrated_database(step):
        for captain, share in SHARES.items():
            if options.captain in (None, captain):
                ticks = max(1, round(options.ticks * share))
                flown = fly_arms(captain, ticks, options, step)
                found.document[captain] = flown
                found.tables += build_tables(captain, flown)
    return found


def fly_arms(
    captain: str, ticks: int, options: argparse.Namespace, step: Step
) -> Flown:
    game = {"era": options.era, "faults": options.faults, "raid_chance": options.raids}
    game |= {"seed": options.seed, "systems": 505}
    return {
        arm.letter: asyncio.run(
            fly_arm(arm, captain, ticks, options.myses, game, step)
        ).document()
        for arm in ARMS
        if arm.letter in options.arms
    }


# --- Tables


def build_tables(captain: str, flown: Flown) -> list[Table]:
    figures = Table(
        f"One fleet, several contexts: {captain}",
        ["", *(f"({letter})" for letter in flown)],
        [
            [words, *(format_value(arm[key]) for arm in flown.values())]
            for key, words in ROWS.items()
        ],
        [*list_details(flown), BELIEFS, RULES[captain]],
        mark=f"loop {captain}",
    )
    before = flown.get(BASELINE.letter)
    others = {letter: arm for letter, arm in flown.items() if arm is not before}
    targets = Table(
        f"Targets: {captain}",
        ["", "target", *(f"({letter})" for letter in others)],
        [
            [
                ROWS[target.key],
                target.words,
                *(_judge_cell(target, before, arm) for arm in others.values()),
            ]
            for target in TARGETS
        ],
        mark=f"loop targets {captain}",
    )
    return [figures, targets]


def list_details(flown: Flown) -> Iterator[str]:
    """What the arms are, their calls by tool, and their wrong beliefs, a line each."""
    titles = {arm.letter: arm.title for arm in ARMS}
    for letter, arm in flown.items():
        asked = ", ".join(f"{tool} {count}" for tool, count in arm["queries"].items())
        yield f"({letter}) {titles[letter]}; calls of tools: {asked}."
        for line in arm["wrong"]:
            yield f"({letter}) wrong: {line}"


def _judge_cell(target: Target, before: Mapping[str, Any] | None, after: Any) -> str:
    value, met = judge_target(target, before, after)
    if value is None:
        return "-"
    words = f"{value:+.0%}" if target.relative else format_value(value)
    return words if met else f"{words}: missed"


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


def format_value(value: float | None) -> str:
    """A figure, short enough for a table."""
    if value is None:
        return "-"
    if isinstance(value, int) or value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
