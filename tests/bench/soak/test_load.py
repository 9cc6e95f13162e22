"""A fleet of a few Myses under load for seconds; ``make soak`` is large."""

from __future__ import annotations

from typing import Any

import psutil

from bench.soak import events, load, report
from bench.soak.watch import BUFFERS, POSTGRES


def test_a_small_fleet_is_measured_and_ended() -> None:
    before = {process.pid for process in psutil.process_iter()}
    steps: list[str] = []
    # Longer than a tick: each Mysis ends a turn in it.
    options = load.Options(myses=3, minutes=0.3, dashboards=2, sockets=3)
    found = load.measure(options, steps.append)
    assert sum(found["turns"].values()) > 0
    assert found["sockets"]["frames"]["sockets"] == 3
    assert found["sockets"]["pages"]["frames"] > 0
    assert (found["sockets"]["missing"], found["sockets"]["twice"]) == (0, 0)
    assert found["sockets"]["events"] > 0
    assert {"web", "worker", "worker 2", "sandbox", "up", POSTGRES, BUFFERS} <= {
        *found["memory"]
    }
    assert found["memory"][BUFFERS][-1][1] > 10
    assert found["shared_buffers"] == 256 * 1024**2
    assert {"Fleet page", "search, absent word"} <= {*found["times"]}
    assert found["failed"] == {}
    assert found["late"]["count"] > 0
    assert report.build_tables("load", found)
    left = [
        process
        for process in psutil.Process().children(recursive=True)
        if process.pid not in before
    ]
    assert left == []


def test_few_events_go_through_one_stream(transactional_db: Any) -> None:
    found = events.measure(lambda said: None, "250")
    for name in ("backlog", "live", "bare"):
        assert found[name]["frames"] == 250
        assert (found[name]["lost"], found[name]["twice"]) == (0, 0)
    assert min(found["memory"].values()) > 10**7
    assert report.build_tables("events", found)
