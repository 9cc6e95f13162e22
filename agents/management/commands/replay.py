"""``manage.py replay``: a Mysis's recorded calls under other policies, in a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from rich.console import Console
from rich.table import Table

from agents.lab import kept_replays, replay_job, table
from agents.lab.policies import OWN, Policy, read_policies
from agents.lab.replay import ReplayedCall, select_calls
from agents.lab.report import SUMMARIES, ReportBuilder
from agents.lab.two_processes import (
    ReplayQuestion,
    SecondProcessError,
    replay_question,
)
from memory.audit import record
from memory.management.terminal import (
    ActingCommand,
    make_command_error,
    require_owner,
    show_bar,
)
from memory.problems import Problem

WIDE = 200
# A column of the table: its heading, and a cell out of the figures of a policy.
COLUMNS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("policy", lambda one: str(one["name"])),
    ("requests", lambda one: f"{one['requests']:,}"),
    ("messages", lambda one: f"{one['messages']:,.0f}"),
    ("bytes", lambda one: f"{one['bytes']:,}"),
    ("tokens", lambda one: f"{one['tokens']['mean']:,}"),
    ("p95", lambda one: f"{one['tokens']['p95']:,}"),
    ("most", lambda one: f"{one['tokens']['most']:,}"),
    ("shared", lambda one: f"{one['shared']:.0%}"),
    ("cost", lambda one: _format_cost(one["cost"])),
    ("cached", lambda one: _format_cost(one["cached_cost"])),
    ("summaries", lambda one: f"{one['compactions']:,}"),
    ("invalid", lambda one: f"{one['invalid']:,}"),
    ("over budget", lambda one: f"{one['over_budget']:,}"),
    ("lost", lambda one: _format_losses(one)),
)


class Command(ActingCommand):
    """Prints the figures of each policy, stores none, and calls no model."""

    help = (
        "Assemble every recorded call of a Mysis anew under other context policies, "
        "without a model: what each would have sent, cost and lost."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mysis", help="Its number or name.")
        parser.add_argument(
            "--policies",
            default="",
            metavar="A,B",
            help="Stored policies, by number or name.",
        )
        parser.add_argument(
            "--strategies",
            default="",
            metavar="A,B",
            help="Strategies with their default options; budget and tools are each call's.",
        )
        parser.add_argument(
            "--since", metavar="WHEN", help="A moment, or so long ago: 90m, 6h, 7d."
        )
        parser.add_argument("--until", metavar="WHEN", help="The same; now without it.")
        parser.add_argument("--json", action="store_true", help="As a JSON object.")
        parser.add_argument(
            "--csv", metavar="FILE", help="Write a line for each call and policy there."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Replay, with a bar on standard error."""
        owner = require_owner(options["mysis"])
        try:
            policies = _read_policies(options["policies"], options["strategies"])
            span = [
                kept_replays.read_moment(name, options[name])
                for name in ("since", "until")
            ]
        except Problem as error:
            raise make_command_error(error.detail) from error
        report = ReportBuilder()
        try:
            with _open_table(options["csv"], owner.name) as write:
                if options["csv"]:
                    record("replay.download", f"mysis:{owner.name}")
                _replay(owner, policies, span, report, write)
        except OSError as error:
            place = options["csv"]
            raise make_command_error(f"{place}: {error.strerror or error}") from error
        except SecondProcessError as error:
            raise make_command_error(str(error)) from error
        found = report.describe([OWN, *(policy.name for policy in policies)])
        if options["json"]:
            self.stdout.write(json.dumps({"mysis": owner.name, **found}))
        else:
            self._print(found)

    def _print(self, found: dict[str, Any]) -> None:
        shown = Table(*(heading for heading, _ in COLUMNS), box=None)
        for column in shown.columns[1:]:
            column.justify = "right"
        for one in found["policies"]:
            shown.add_row(*(write(one) for _, write in COLUMNS))
        # Of a file or a pipe nobody says how wide it is.
        console = Console(width=None if self.stdout.isatty() else WIDE)
        with console.capture() as printed:
            console.print(shown)
        self.stdout.write(printed.get())
        self.stdout.write(
            f"{found['equal']:,} of {found['calls']:,} calls came out under their own "
            "policy as they were sent, byte for byte."
        )
        self.stdout.write(SUMMARIES)
        for why, count in found["differing"].items():
            self.stdout.write(f"{count:,} did not: {why}")
        for why, count in found["unknown"].items():
            self.stdout.write(f"Of {count:,}: {why}")


def _read_policies(policies: str, strategies: str) -> list[Policy]:
    """Both lists, split at their commas; raises a Problem."""
    stored = [name.strip() for name in policies.split(",") if name.strip()]
    plain = [name.strip() for name in strategies.split(",") if name.strip()]
    return read_policies([*stored, *({"strategy": name} for name in plain)])


def _replay(
    owner: Any,
    policies: list[Policy],
    span: list[datetime | None],
    report: ReportBuilder,
    write: Callable[..., object],
) -> None:
    """Put each call into the report and the table."""
    # The calls are read more than once, also by two processes: up to one moment.
    since, until = span[0], span[1] or timezone.now()
    total = select_calls(since, until).filter(mysis_id=owner.pk).count()
    question = ReplayQuestion(owner.pk, "", since, until, policies)
    with show_bar(f"Replaying {owner.name}", total) as advance:
        for call in replay_question(question, total):
            report.add(call.figures, call.differs, call.unknown)
            write(call, report.calls)
            advance(1)
    report.note_missing(total)


@contextmanager
def _open_table(path: str | None, name: str) -> Iterator[Callable[..., object]]:
    """What writes a call into a CSV file, if one is named."""
    if not path:
        yield lambda call, place: None
        return
    with Path(path).open("w", encoding="utf-8", newline="") as file:

        def write(call: ReplayedCall, place: int) -> None:
            row = replay_job.build_row(call, place)
            file.write(table.write_lines(table.list_lines(row, name)))

        file.write(table.write_lines([table.COLUMNS]))
        yield write


def _format_cost(cost: float | None) -> str:
    return "-" if cost is None else f"${cost:,.4f}"


def _format_losses(one: dict[str, Any]) -> str:
    """What was lost of each kind, in words; a dash where nothing was."""
    kinds = {
        "pins": "pins",
        "orders": "orders",
        "notes": "notes",
        "state_values": "values",
    }
    found = [
        f"{one[name]['of'] - one[name]['kept']:,} {word}"
        for name, word in kinds.items()
        if one[name]["of"] > one[name]["kept"]
    ]
    if one["facts_lost"]:
        found.append(
            f"{one['facts_lost']:,} results, {one['facts_with_handle']:,} with handle"
        )
    return ", ".join(found) or "-"
