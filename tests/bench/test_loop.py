"""The closed loop's own reckoning, and one short flight of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.loop import __main__
from bench.loop.arms import ARMS
from bench.loop.beliefs import wrong
from bench.loop.figures import Flown, Sent, cost, p95
from bench.loop.targets import TARGETS, verdict
from memory.gamestate.types import AccountState, Snapshot, Stale

NOW = datetime(2026, 2, 5, tzinfo=UTC)
SHIP = {"ship": {"hull": 90, "max_hull": 100, "fuel": 50, "max_fuel": 60}}


def state(content: object, stale: Stale | None = None) -> AccountState:
    snapshot = Snapshot("get_ship", {}, content, 100, NOW, stale)
    return AccountState("Ada", (snapshot,), 100, NOW)


def test_what_is_shown_as_good_and_true_is_right():
    assert wrong(state(SHIP), {"get_ship": SHIP}) == (2, [])


def test_a_value_that_is_not_true_any_more_is_wrong():
    now = {"ship": {**SHIP["ship"], "hull": 10}}
    good, (belief,) = wrong(state(SHIP), {"get_ship": now})
    assert good == 2
    assert belief == ("get_ship", "Hull", "90/100", "10/100")


def test_what_is_marked_is_no_belief():
    now = {"ship": {**SHIP["ship"], "hull": 10}}
    marked = Stale("attack", 100, ("ship.hull",))
    assert wrong(state(SHIP, marked), {"get_ship": now}) == (1, [])
    assert wrong(state(SHIP, Stale("attack", 100, ())), {"get_ship": now}) == (0, [])


def test_what_the_game_would_refuse_now_is_not_counted():
    error = {"error": {"code": "in_transit", "message": "You are flying."}}
    assert wrong(state(SHIP), {"get_ship": error}) == (0, [])
    gone = {"ship": {"hull": 90, "max_hull": 100}}
    _, (belief,) = wrong(state(SHIP), {"get_ship": gone})
    assert (belief.label, belief.true) == ("Fuel", "(not told)")
    assert wrong(state(SHIP), {}) == (0, [])


def test_a_cached_beginning_costs_less():
    alone = Sent(size=40_000, tokens=10_000, shared=0, output=100)
    shared = Sent(size=40_000, tokens=10_000, shared=36_000, output=100)
    tiny = Sent(size=4_000, tokens=1_000, shared=3_600, output=0)
    plain = Sent(size=4_000, tokens=1_000, shared=0, output=0)
    assert 0 < cost([shared]) < cost([alone])
    assert cost([tiny]) == cost([plain])


def test_an_arm_is_added_up():
    calls = [Sent(100 * n, 10 * n, 50, 1, state=n, good=2, wrong=1) for n in (1, 2, 3)]
    found = Flown(calls=calls, turns=2, gets=3, actions=6).measured()
    assert (found["bytes_mean"], found["tokens_mean"]) == (200, 20)
    assert (found["gets_per_action"], found["calls_per_action"]) == (0.5, 0.5)
    assert (found["prefix_reuse"], found["state_bytes_most"]) == (0.25, 3)
    assert (found["wrong_beliefs"], found["good_facts"]) == (3, 6)
    nothing = Flown().measured()
    assert nothing["gets_per_action"] is None
    assert p95([7]) == 7


@pytest.mark.parametrize(
    ("before", "after", "value", "met"),
    [(1.0, 0.04, -0.96, True), (1.0, 0.5, -0.5, False), (0, 0, None, False)],
)
def test_a_target_is_held_against_the_full_history(
    before: float, after: float, value: float | None, met: bool
):
    key = TARGETS[0].key
    found = verdict(TARGETS[0], {key: before}, {key: after})
    assert found == (pytest.approx(value) if value is not None else None, met)
    assert verdict(TARGETS[-1], None, {TARGETS[-1].key: 0}) == (0, True)


def test_wishes_that_cannot_be_met_are_refused(capsys: pytest.CaptureFixture[str]):
    for words in (["--arms", "xyz"], ["--ticks", "0"], ["--myses", "-1"]):
        with pytest.raises(SystemExit) as ended:
            __main__.main(words)
        assert ended.value.code == 2
        assert "must be" in (said := capsys.readouterr().err) or "name some" in said


def test_a_short_flight_gives_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """One Mysis, eight ticks, with the whole program but its web server."""
    file = tmp_path / "found.json"
    wanted = ["--ticks", "8", "--myses", "1", "--arms", "e", "--json", str(file)]
    assert __main__.main(wanted) == 0, capsys.readouterr()
    found = json.loads(file.read_text())["arms"]["e"]
    assert set(dict(__main__.ROWS)) <= set(found)
    assert found["actions"] >= 2
    assert found["model_calls"] >= 4
    assert found["good_facts"] > 10
    assert found["errored_turns"] == 0
    said = capsys.readouterr().out
    assert ARMS[-1].title in said
    assert "asks for a fact" in said
