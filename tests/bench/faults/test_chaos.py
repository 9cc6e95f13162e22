"""A fleet to which everything bad happens at once, small; ``make chaos`` is large."""

from __future__ import annotations

import pytest

from bench.faults import chaos
from bench.faults.chaos import Options, play
from bench.faults.run import build_chaos_table
from tests.long_run import few_or_many


def test_every_turn_call_action_and_message_is_accounted_for() -> None:
    """On two wires."""
    every = {"worker": 5.0, "web": 6.0, "postmaster": 3.0}
    myses = few_or_many(4, 8)
    small = Options(myses=myses, seconds=8, webs=1, workers=2, every=every)
    report = play(small, lambda said: None)
    assert report.faults == []
    assert set(report.struck) == {"worker", "web", "postmaster"}
    # The database is no child; the last that was killed may not have been started again.
    killed = report.struck["worker"] + report.struck["web"]
    assert report.deaths >= killed - 1
    assert report.actions["register"] > 0
    assert report.messages > 0
    assert sum(report.turns.values()) >= 10
    assert build_chaos_table(report).rows[-1] == ["not accounted for", "0"]


def test_a_run_in_which_nobody_can_play_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chaos, "LEAST_CEILING", 1.0)
    idle = Options(myses=1, seconds=0.1, workers=0, webs=1, every={})
    [fault] = play(idle, lambda said: None).faults
    assert fault.startswith("the play was ended after ")
    assert fault.endswith(" s: 0 turns of 1 Myses, not struck yet: []")
