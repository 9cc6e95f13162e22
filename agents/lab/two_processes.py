"""A replay by two processes: each takes half of the policies through all calls.

Policies depend on each other in nothing but the calls, so that a long replay takes little
more than half of the time where a second processor is free. The second process writes a
line of JSON for each call, waits where nobody reads it, and ends with the first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import IO, Any, cast

from django.conf import settings

from agents.lab.call_figures import SURVIVING, CallFigures
from agents.lab.policies import OWN, Policy
from agents.lab.replay import (
    ReplayedCall,
    replay_calls,
    select_calls,
    select_myses,
)

# Calls times policies from which a second process is worth its start.
WORTH_TWO = 500
_END = "end"


class SecondProcessError(Exception):
    """The second process ended before its last line; its log says why, if anything does."""


@dataclass(frozen=True, slots=True)
class ReplayQuestion:
    """Which calls are replayed, and under which policies."""

    mysis_id: int | None
    label: str
    since: datetime | None
    until: datetime | None
    policies: list[Policy]

    @classmethod
    def from_json(cls, text: str) -> ReplayQuestion:
        """What `to_json` wrote."""
        given = json.loads(text)
        for name in ("since", "until"):
            given[name] = given[name] and datetime.fromisoformat(given[name])
        policies = [Policy(**one) for one in given.pop("policies")]
        return cls(**given, policies=policies)

    def to_json(self) -> str:
        """All of it as one line, its moments to the microsecond."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    def replay(self) -> Iterator[ReplayedCall]:
        """The calls under the policies, one after another."""
        return replay_calls(
            select_myses(self.mysis_id, self.label),
            select_calls(self.since, self.until),
            self.policies,
        )


def replay_question(question: ReplayQuestion, total: int) -> Iterator[ReplayedCall]:
    """About ``total`` calls, half of the policies in a second process if that is worth it.

    Raises SecondProcessError where that one is lost.
    """
    policies = question.policies
    if len(policies) < 2 or total * len(policies) < WORTH_TWO:
        yield from question.replay()
        return
    here = replace(question, policies=policies[::2])
    there = replace(question, policies=policies[1::2])
    names = [OWN, *(policy.name for policy in policies)]
    with _start_second_process(there) as lines:
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
def _start_second_process(question: ReplayQuestion) -> Iterator[Iterator[list[Any]]]:
    """What a second process finds, line by line; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "agents.lab"],
        cwd=settings.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for this process alone, which ends the other.
        process_group=0,
    ) as process:
        stdin = cast("IO[str]", process.stdin)
        try:
            # One that is gone already is missed where it is read.
            with suppress(BrokenPipeError):
                stdin.write(f"{question.to_json()}\n")
                stdin.flush()
            yield _read_lines(cast("IO[str]", process.stdout))
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                stdin.close()


def _read_lines(lines: Iterable[str]) -> Iterator[list[Any]]:
    for line in lines:
        # What a killed process wrote last may be no whole line.
        if line.endswith("\n"):
            yield json.loads(line)
    raise SecondProcessError(
        "The process that worked on half of the policies ended too early: look into the "
        "log for why, then try again."
    )


# --- The second process


def answer_question() -> None:
    """Read a question from standard input, and write the figures of each call."""
    # It ends without a word where nobody reads on.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    question = ReplayQuestion.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_first_process, daemon=True).start()
    for call in question.replay():
        figures = {
            name: asdict(one) for name, one in call.figures.items() if name != OWN
        }
        _write([[call.sent.mysis_id, call.sent.pk], figures])
    _write([_END, {}])


def _end_with_first_process() -> None:
    """End where standard input does, which the first process holds open while it lives."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _write(line: list[Any]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
