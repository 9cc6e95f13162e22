"""The targets of ``make bench-fleet``, and one short flight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.loop import __main__
from bench.loop.__main__ import TARGETS, judge_target
from bench.loop.arms import ARMS


@pytest.mark.parametrize(
    ("before", "after", "value", "met"),
    [(1.0, 0.04, -0.96, True), (1.0, 0.5, -0.5, False), (0, 0, None, False)],
)
def test_a_target_is_held_against_the_full_history(
    before: float, after: float, value: float | None, met: bool
):
    key = TARGETS[0].key
    found = judge_target(TARGETS[0], {key: before}, {key: after})
    assert found == (pytest.approx(value) if value is not None else None, met)
    assert judge_target(TARGETS[-1], None, {TARGETS[-1].key: 0}) == (0, True)


def test_wishes_that_cannot_be_met_are_refused(capsys: pytest.CaptureFixture[str]):
    for words in (["--arms", "xyz"], ["--ticks", "0"], ["--myses", "-1"]):
        with pytest.raises(SystemExit) as ended:
            __main__.main(words)
        assert ended.value.code == 2
        assert "must be" in (said := capsys.readouterr().err) or "name some" in said


def test_a_short_flight_gives_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """One Mysis, eight ticks, two captains, with the whole program but its web server."""
    file = tmp_path / "found.json"
    wanted = ["--ticks", "8", "--myses", "1", "--arms", "e", "--json", str(file)]
    assert __main__.main(wanted) == 0, capsys.readouterr()
    captains = json.loads(file.read_text())["captains"]
    assert list(captains) == ["pilot", "forgetful"]
    for found in (captain["e"] for captain in captains.values()):
        assert set(dict(__main__.ROWS)) <= set(found)
        assert found["actions"] >= 2
        assert found["model_calls"] >= 4
        assert found["good_facts"] > 10
        assert found["wrong_beliefs"] == 0
        assert found["errored_turns"] == 0
    said = capsys.readouterr().out
    [flown] = [arm for arm in ARMS if arm.letter == "e"]
    assert flown.title in said
    assert all(f"Targets: {captain}" in said for captain in captains)
    assert "asks for a fact" in said
    assert "asks for its whole state" in said
