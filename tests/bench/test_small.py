"""Each benchmark once, as small as it goes; nothing here judges time."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from agents.game.sessions import get_pool
from agents.models import Mysis
from bench import core, surfaces, turns, visitor
from bench.__main__ import BENCHES, main, parse_options, read_names, report
from bench.figures import Found, Table
from bench.fleet import delete_myses, start_myses
from bench.load import play, run
from bench.load.watch import BUFFERS, POSTGRES
from bench.pages import browser, costs
from bench.processes import ROOT
from sandbox.game.testing import SandboxServer


def ignore(said: str) -> None:
    """Of steps."""


def choose(line: str) -> argparse.Namespace:
    return parse_options(line.split())


def test_a_benchmark_is_named_and_takes_its_own_options(
    capsys: pytest.CaptureFixture[str],
):
    assert read_names(["core", "turns", "--docs"]) == (["core", "turns"], ["--docs"])
    assert choose("core turns").names == ["core", "turns"]
    assert "load" not in choose("").names
    assert choose("faults clock behind --repeats 1").scenes == ["clock", "behind"]
    assert choose("peers --lengths 1_000,100").lengths == [100, 1_000]
    for wrong in ("nothing", "faults clocks", "loop --arms xyz", "peers --lengths 7"):
        with pytest.raises(SystemExit):
            choose(wrong)
    told = capsys.readouterr().err
    assert "no fault is called clocks: use postgres or " in told
    assert all(name in told for name in BENCHES)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("core turns --repeats 1", "--repeats 1"),
        ("turns pages --json found.json", "--json found.json"),
        ("core turns pgaes", "nothing is called pgaes: use loop or "),
        ("core --docs", "no page of docs/ has a mark of core\n"),
        ("turns core --docs", "no page of docs/ has a mark of core\n"),
        ("--docs", "no page of docs/ has a mark of core\n"),
    ],
)
def test_what_would_be_dropped_is_refused(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        choose(line)
    assert said in capsys.readouterr().err


def test_tables_that_no_page_takes_are_told(capsys: pytest.CaptureFixture[str]):
    """As those of ``faults chaos``, beside the mark of the other faults."""
    options = choose("faults chaos --docs")
    report(Found([Table("T", ["", ""], mark="faults chaos")]), options, "a test")
    assert "No page of docs/ has a mark of these tables." in capsys.readouterr().out


def test_docs_is_passed_on_to_each(monkeypatch: pytest.MonkeyPatch):
    started: list[list[str]] = []

    def start(words: list[str], check: bool) -> subprocess.CompletedProcess[bytes]:
        started.append(words[2:])
        return subprocess.CompletedProcess(words, len(started))

    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert main(["turns", "pages", "--docs"]) == 2
    assert started == [["bench", "turns", "--docs"], ["bench", "pages", "--docs"]]


def test_a_short_flight_gives_every_figure(tmp_path: Path):
    """As the Makefile starts it: it replaces the clock of its process."""
    file = tmp_path / "found.json"
    words = f"loop --ticks 8 --myses 1 --arms e --json {file}"
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    captains = json.loads(file.read_text())["found"]
    assert list(captains) == ["pilot", "forgetful"]
    for found in (captain["e"] for captain in captains.values()):
        assert found["actions"] >= 2
        assert found["model_calls"] >= 4
        assert found["good_facts_per_call"] > 2
        assert (found["wrong_beliefs"], found["errored_turns"]) == (0, 0)
    assert "Targets: pilot" in done.stdout
    assert "asks for its whole state" in done.stdout


def test_the_core_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(core, "TIME_TARGETS", {20: 1.0})
    [table] = core.measure(choose("core"), ignore).tables
    names = [row[0] for row in table.rows]
    assert "assemble 20 messages: tiered" in names


@pytest.mark.django_db(transaction=True)
async def test_a_turn_is_taken_at_once_and_timed(settings: LazySettings):
    with SandboxServer(tick=0.2) as sandbox:
        settings.SPACEMOLT_MCP_URL = sandbox.url
        settings.ZOEA_SECONDS_PER_TICK = 0.2
        [mysis] = await sync_to_async(start_myses)(1, "Alone")
        first = await turns.time_turn(mysis)
        second = await turns.time_turn(mysis)
        await get_pool().close()
    assert first["whole"] > 0 and second["whole"] > 0
    await sync_to_async(delete_myses)()
    assert not await Mysis.objects.filter(state="running").aexists()


def test_what_is_beside_model_and_game_is_the_overhead_of_a_turn():
    turn = {"whole": 0.1, "model": 0.03, "game": 0.05, "database times": 10.0}
    turn |= {"model times": 2.0, "game times": 2.0}
    turn |= {"statements": 44.0, "transactions": 8.0}
    found = {"turns": [turn] * 9, "crossing": 0.001, "per_second": 20.0, "busy": 0.8}
    found |= {"late": [0.1] * 94 + [0.5] * 6}
    figures = {each.name: each for each in turns.turn_figures(found, 200)}
    beside = figures["a turn beside model and game (median)"]
    assert beside.value == pytest.approx(20)
    assert beside.baseline == pytest.approx(10)
    assert figures["transactions of a turn (median)"].met
    assert figures["begin of a turn after it was due (p95)"].value == 500
    with pytest.raises(RuntimeError, match="whole fleet"):
        turns.turn_figures(found | {"late": []}, 200)


@pytest.mark.django_db(transaction=True)
def test_summaries_and_events_are_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(surfaces, "REQUESTS", 2)
    monkeypatch.setattr(surfaces, "RATE", 50)
    options = choose("surfaces --clients 2 --seconds 1")
    [table] = surfaces.measure(options, ignore).tables
    found = {row[0]: row[1] for row in table.rows}
    assert found["events to 2 clients, lost or twice"] == "0"
    assert "events to 2 clients, p95" in found


@pytest.mark.django_db(transaction=True)
def test_the_pages_are_measured(
    monkeypatch: pytest.MonkeyPatch, settings: LazySettings
):
    # Given back after the test: the fleet leads them to its own game.
    settings.SPACEMOLT_MCP_URL, settings.ZOEA_SECONDS_PER_TICK = "", 0.5
    settings.ZOEA_GAME_OPENINGS = 25
    monkeypatch.setattr(costs, "TICK", 0.5)
    monkeypatch.setattr(costs, "WATCHED_SECONDS", 0.2)
    monkeypatch.setattr(visitor, "VISITS", 2)
    monkeypatch.setattr(browser, "GRACE", 1.0)
    line = "pages --myses 3 --flying 1 --seconds 4"
    [table] = costs.measure(choose(line), ignore).tables
    assert settings.ZOEA_GAME_OPENINGS == 0, "what holds back a fleet in the real game"
    (settings.ZOEA_DATA / "sandbox.json").unlink()
    found = {row[0].partition(" (")[0]: row[1] for row in table.rows}
    assert found["words never painted"] == "0"
    assert float(found["a cold visit to the Fleet page, all that is sent"][:-3]) > 20


def test_a_small_fleet_is_loaded_and_ended():
    before = {process.pid for process in psutil.process_iter()}
    # Longer than a tick: each Mysis ends a turn in it.
    line = "load --only load --myses 3 --minutes 0.3 --dashboards 2 --sockets 3"
    options = choose(line)
    found = play.measure(options, ignore)
    assert sum(found["turns"].values()) > 0
    assert found["sockets"]["frames"]["sockets"] == 3
    assert found["sockets"]["pages"]["frames"] > 0
    assert (found["sockets"]["missing"], found["sockets"]["twice"]) == (0, 0)
    assert found["sockets"]["events"] > 0
    programs = {"web", "worker", "worker 2", "sandbox", "up", POSTGRES, BUFFERS}
    assert programs <= {*found["memory"]}
    assert found["shared_buffers"] == 256 * 1024**2
    assert {"Fleet page", "search, absent word"} <= {*found["times"]}
    assert found["failed"] == {}
    assert found["late"]["count"] > 0
    assert len(run.build_load_tables(found, options)) == 3
    left = psutil.Process().children(recursive=True)
    assert [process for process in left if process.pid not in before] == []
