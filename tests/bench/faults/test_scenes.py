"""Each fault once, to a small fleet of real programs; ``python -m bench faults`` times them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.faults import scenes
from bench.faults.flight import Flight, fly
from bench.faults.run import build_table
from bench.faults.scenes import Scene, Trial, play_scene

MYSES = 3


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flight]:
    """One fleet for all, which flies on after each fault."""
    with fly(tmp_path_factory.mktemp("faults"), MYSES) as found:
        yield found


def silence_impatiently(flight: Flight) -> Trial:
    """One worker believes in a death after 4 s without a heartbeat, or 14 with a lock."""
    words = ("-m", "bench.faults.worker", "0", "4")
    scenes.begin_worker(flight, "near", *words)
    flight.find_worker("near")
    trial = scenes.silence_host(flight, *words)
    flight.fleet.end("near")
    return trial


def play(flight: Flight, name: str) -> Trial:
    (scene,) = (scene for scene in scenes.SCENES if scene.name == name)
    return play_scene(scene, flight)


def test_a_restart_of_the_database_ends_no_program_and_loses_nothing(flight: Flight):
    trial = play(flight, "postgres")
    assert trial.lost == ()
    assert trial.seen == "503 The database is away for a moment. Try again in 5 s."


def test_who_listens_comes_back_and_has_missed_nothing(flight: Flight):
    trial = play(flight, "listen")
    assert trial.lost == ()
    assert trial.seen == "web-1, worker-1, worker-2 cut; ready: 200 ready; socket: open"


def test_an_outage_of_ten_minutes_is_met_with_few_tries_and_ends_by_itself(
    flight: Flight,
):
    before = flight.model.attempts + flight.play.attempts
    trial = play(flight, "outage")
    assert trial.lost == ()
    assert "waiting to try again, failed" in trial.seen
    assert trial.seconds < 330
    # Pauses double from 2 s to 300 s: nine of them are ten minutes.
    tries = float(trial.seen.rpartition("; ")[2].split()[0])
    assert 8 <= tries <= 11
    assert before > 0


def test_a_web_server_that_is_killed_costs_a_program_no_event(flight: Flight):
    trial = play(flight, "web")
    assert trial.lost == ()
    assert trial.seen.startswith("ConnectionClosedError")


def test_the_turns_of_a_host_that_fell_silent_are_taken_up_and_none_twice(
    flight: Flight,
):
    scene = Scene("host", "", silence_impatiently)
    trial = play_scene(scene, flight)
    assert trial.lost == ()
    assert "interrupted" in trial.seen


def test_a_row_tells_what_was_seen_last_all_that_was_lost_and_the_times():
    calm, costly = scenes.SCENES[:2]
    found = {
        calm: [Trial(seconds, f"seen {seconds:g}") for seconds in (9.0, 1.0, 2.0)],
        costly: [Trial(4.0, "503", ("a turn",)), Trial(6.0, lost=("an event",))],
    }
    assert build_table(found).rows == [
        [calm.title, "seen 2", "nothing", "2.0 s", "9.0 s"],
        [costly.title, "", "a turn; an event", "5.0 s", "6.0 s"],
    ]
