"""A fleet to which everything bad happens at once, small; ``make chaos`` is large."""

from __future__ import annotations

from .play import Options, fly


def test_every_turn_call_action_and_message_is_accounted_for() -> None:
    report = fly(Options(myses=8, seconds=20, webs=1, worker=7, web=10, postgres=13))
    assert report.faults == []
    assert set(report.struck) == {"worker", "web", "postgres"}
    assert report.deaths >= sum(report.struck.values()) - 1
    assert report.actions["captains_log_add"] > 0
    assert report.messages > 0
    assert sum(report.turns.values()) >= 10
