"""The recorded calls that the lab is measured with, and what it is held against."""

from __future__ import annotations

import pytest

from agents.lab.policies import read_policies
from agents.lab.replay import replay_calls, select_calls, select_myses
from bench import lab
from bench.core.command import Run


@pytest.mark.django_db
def test_made_up_calls_come_out_as_they_were_recorded() -> None:
    lab.make_policies()
    mysis = lab.record_calls("Bench", 6)
    others = read_policies([name for name in lab.POLICIES if name != "own"])
    found = list(
        replay_calls(select_myses(mysis.pk, ""), select_calls(None, None), others)
    )
    assert [call.differs for call in found] == [""] * 6
    assert {*found[0].figures} == {*lab.POLICIES}
    assert all(one.cost for one in found[0].figures.values())


def test_time_and_memory_are_held_against_their_targets() -> None:
    time, peak = lab.replay_figures(Run(5, 100), Run(29, 109), 7.0)
    assert (time.met, peak.met) == (True, True)
    time, peak = lab.replay_figures(Run(5, 100), Run(31, 130), 7.0)
    assert (time.met, peak.met) == (False, False)
