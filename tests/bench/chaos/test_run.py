"""A fleet to which everything bad happens at once, small; ``make chaos`` is large."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.chaos import run
from bench.chaos.run import Options, fly
from tests.long_run import few_or_many


def test_every_turn_call_action_and_message_is_accounted_for() -> None:
    """On two wires and in two eras of the game."""
    small = Options(myses=few_or_many(4, 8), seconds=8, webs=1, workers=2)
    report = fly(replace(small, worker=5, web=6, postgres=0, postmaster=3))
    assert report.faults == []
    assert set(report.struck) == {"worker", "web", "postmaster"}
    # The database is no child; the last that was killed may not have been started again.
    killed = report.struck["worker"] + report.struck["web"]
    assert report.deaths >= killed - 1
    assert report.actions["register"] > 0
    assert report.messages > 0
    assert sum(report.turns.values()) >= 10


def test_a_run_in_which_nobody_can_play_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "LEAST_CEILING", 1.0)
    idle = Options(myses=1, seconds=0.1, workers=0, webs=1)
    unharmed = replace(idle, worker=0, web=0, postgres=0, postmaster=0)
    [fault] = fly(unharmed).faults
    assert fault.startswith("the play was ended after ")
    assert fault.endswith(" s: 0 turns of 1 Myses, not struck yet: []")
