"""A replay by two processes: each takes half of the policies through all calls.

Policies depend on each other in nothing but the calls, so that a long replay takes little
more than half of the time where a second processor is free. The other process writes a
line of JSON for each call, and waits where nobody reads it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import IO, Any, cast

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.dateparse import parse_datetime

from agents.lab.policies import OWN, Policy
from agents.lab.replay import (
    ReplayedCall,
    replay_calls,
    select_calls,
    select_myses,
)
from agents.lab.report import SURVIVING, CallFigures

# Calls times policies from which a second process is worth its start.
WORTH_TWO = 500
_END = "end"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which calls are replayed, and under which policies."""

    mysis_id: int | None
    label: str
    since: datetime | None
    until: datetime | None
    policies: list[Policy]

    @classmethod
    def parse(cls, text: str) -> Asked:
        """What `write` wrote."""
        given = json.loads(text)
        span = {
            name: given[name] and parse_datetime(given[name])
            for name in ("since", "until")
        }
        policies = [Policy(**one) for one in given["policies"]]
        return cls(**{**given, **span, "policies": policies})

    def write(self) -> str:
        """All of it as one line."""
        return json.dumps(asdict(self), cls=DjangoJSONEncoder)

    def replay(self) -> Iterator[ReplayedCall]:
        """The calls under the policies, one after another."""
        return replay_calls(
            select_myses(self.mysis_id, self.label),
            select_calls(self.since, self.until),
            self.policies,
        )


def replay_asked(asked: Asked, total: int) -> Iterator[ReplayedCall]:
    """About ``total`` calls under policies, half of these elsewhere if that is worth it."""
    policies = asked.policies
    if len(policies) < 2 or total * len(policies) < WORTH_TWO:
        yield from asked.replay()
        return
    here = replace(asked, policies=policies[::2])
    there = replace(asked, policies=policies[1::2])
    names = [OWN, *(policy.name for policy in policies)]
    with _start(there) as lines:
        for call, figures in _join(here.replay(), lines):
            both = call.figures | figures
            yield replace(call, figures={name: both[name] for name in names})


def _join(
    calls: Iterable[ReplayedCall], lines: Iterator[list[Any]]
) -> Iterator[tuple[ReplayedCall, dict[str, CallFigures]]]:
    """Each call with its figures of the other process; both come in one order.

    Calls that were deleted before one of the two came to them are left out.
    """
    place, figures = next(lines)
    for call in calls:
        own = [call.sent.mysis_id, call.sent.pk]
        while place != _END and place < own:
            place, figures = next(lines)
        if place == own:
            yield call, {name: _read_figures(one) for name, one in figures.items()}


def _read_figures(given: dict[str, Any]) -> CallFigures:
    return CallFigures(**given | {name: tuple(given[name]) for name in SURVIVING})


@contextmanager
def _start(asked: Asked) -> Iterator[Iterator[list[Any]]]:
    """What another process finds, line by line; it ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agents.lab"],
        cwd=settings.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with cast("IO[str]", process.stdin) as questions:
            questions.write(asked.write())
        yield _read_lines(cast("IO[str]", process.stdout))
    finally:
        process.kill()
        process.wait()


def _read_lines(lines: Iterable[str]) -> Iterator[list[Any]]:
    for line in lines:
        yield json.loads(line)
    raise RuntimeError("The process with the other policies ended too early.")


def write_half() -> None:
    """The other process: reads what is asked, and writes the figures of each call."""
    # It ends without a word where nobody reads on.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    asked = Asked.parse(sys.stdin.read())
    for call in asked.replay():
        figures = {
            name: asdict(one) for name, one in call.figures.items() if name != OWN
        }
        _write([[call.sent.mysis_id, call.sent.pk], figures])
    _write([_END, {}])


def _write(line: list[Any]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
