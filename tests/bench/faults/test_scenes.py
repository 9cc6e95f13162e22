"""Each fault once, to a small fleet of real programs; ``python -m bench.faults`` times them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.faults import scenes
from bench.faults.fleet import Fleet, fly_fleet
from bench.faults.scenes import Scene, Trial, play_scene

pytestmark = pytest.mark.real_time
MYSES = 3


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One fleet for all, which flies on after each fault."""
    with fly_fleet(tmp_path_factory.mktemp("faults"), MYSES) as found:
        yield found


def silence_impatiently(fleet: Fleet) -> Trial:
    """One worker believes in a death after 4 s without a heartbeat, or 14 with a lock."""
    words = ("-m", "bench.faults.worker", "0", "4")
    fleet.installation.begin_worker("near", *words)
    fleet.find_worker("near")
    trial = scenes.silence_host(fleet, *words)
    scenes.end_worker(fleet, "near")
    return trial


def play(fleet: Fleet, name: str) -> Trial:
    (scene,) = (scene for scene in scenes.SCENES if scene.name == name)
    return play_scene(scene, fleet)


def test_a_restart_of_the_database_ends_no_program_and_loses_nothing(fleet: Fleet):
    trial = play(fleet, "postgres")
    assert trial.lost == ()
    assert trial.seen == "503 The database is away for a moment. Try again in 5 s."


def test_who_listens_comes_back_and_has_missed_nothing(fleet: Fleet):
    trial = play(fleet, "listen")
    assert trial.lost == ()
    assert trial.seen == "web-1, worker-1, worker-2 cut; ready: 200 ready; socket: open"


def test_an_outage_of_ten_minutes_is_met_with_few_tries_and_ends_by_itself(
    fleet: Fleet,
):
    before = fleet.model.attempts + fleet.play.attempts
    trial = play(fleet, "outage")
    assert trial.lost == ()
    assert "waiting to try again, failed" in trial.seen
    assert trial.seconds < 330
    # Pauses double from 2 s to 300 s: nine of them are ten minutes.
    tries = float(trial.seen.rpartition("; ")[2].split()[0])
    assert 8 <= tries <= 11
    assert before > 0


def test_a_web_server_that_is_killed_costs_a_program_no_event(fleet: Fleet):
    trial = play(fleet, "web")
    assert trial.lost == ()
    assert trial.seen.startswith("ConnectionClosedError")


def test_the_turns_of_a_host_that_fell_silent_are_taken_up_and_none_twice(
    fleet: Fleet,
):
    scene = Scene("host", "", silence_impatiently)
    trial = play_scene(scene, fleet)
    assert trial.lost == ()
    assert "interrupted" in trial.seen
