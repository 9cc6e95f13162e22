"""Tables, verdicts and faults of a small soak."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.processes import ROOT
from bench.soak import __main__ as command
from bench.soak import report
from bench.soak.watch import BUFFERS
from bench.tables import markdown_table, rich_table

TIMES = {"p50": 4.0, "p95": 8.0, "p99": 9.0, "most": 9.5, "count": 60}
SIZES = {"table": 2_000_000, "indexes": 1_000_000, "live": 900, "dead": 10}


@pytest.fixture
def document() -> dict[str, Any]:
    stream = {"frames": 500, "seconds": 0.5, "lost": 0, "twice": 0, "disordered": 0}
    return {
        "at": "2026-02-05T10:00:00+00:00",
        "load": 0.25,
        "machine": {"cores": 2, "python": "3.11.7"},
        "commands": dict.fromkeys(command.PARTS, 'make soak ARGS="--only it"'),
        "parts": {
            "load": {
                "options": {"myses": 20, "minutes": 2.0},
                "seconds": 100.0,
                "turns": {"done": 150, "errored": 50},
                "late": TIMES,
                "events": TIMES,
                "times": {"Fleet page": TIMES, "search, rare word": {}},
                "failed": {},
                "sockets": {
                    "seconds": 100.0,
                    "events": 1_000,
                    "frames": {"sockets": 5, "frames": 5_000, "bytes": 10**6},
                    "pages": {"sockets": 2, "frames": 400, "bytes": 10**6},
                    "missing": 0,
                    "twice": 0,
                    "lost": {"streams": 0, "dashboards": 0},
                },
                "memory": {
                    "web": [[10.0 * n, 120.0] for n in range(12)],
                    "worker 2": [[10.0 * n, 100.0] for n in range(12)],
                },
                "shared_buffers": 256 * 1024**2,
                "connections": {"open": [20, 30, 25], "active": [1, 3, 2]},
                "tables": {"before": {}, "after": {"agents_event": SIZES}},
                "logs": {"errors": 0, "refused": 1, "warnings": 3, "lines": []},
            },
            "events": {
                "count": 500,
                "backlog": stream,
                "live": stream,
                "bare": stream,
                "memory": dict.fromkeys(("before", "backlog", "live", "after"), 10**8),
            },
            "large": {
                "asked": 300,
                "sizes": {
                    "small": make_size(20, TIMES, 1.0),
                    "large": make_size(200, {**TIMES, "p50": 6.0}, 4.0),
                },
            },
        },
    }


def make_size(rows: int, times: dict[str, float], seconds: float) -> dict[str, Any]:
    return {
        "rows": rows,
        "myses": 3,
        "times": dict.fromkeys(report.TARGETS, times) | {"something else": times},
        "tables": {"memory_memory": SIZES},
        "prune": {"seconds": seconds, "removed": {"turns": 10, "messages": 30}},
    }


def test_every_table_is_shown_on_a_terminal_and_on_the_page(
    document: dict[str, Any], tmp_path: Path
) -> None:
    console = Console(width=200, record=True, file=(tmp_path / "shown").open("w"))
    for part, found in document["parts"].items():
        for table in report.build_tables(part, found):
            assert {len(row) for row in table.rows} == {len(table.headings)}
            console.print(rich_table(table))
    shown = console.export_text()
    assert "2.0 a second: done 150, errored 50" in shown
    assert "median 25, most 30, at work at most 3" in shown
    assert "1,000" in shown, "events a second through one stream"
    assert report.list_faults(document) == []


def test_a_percentile_and_a_ratio_are_held_against_their_targets(
    document: dict[str, Any],
) -> None:
    [table] = report.build_tables("large", document["parts"]["large"])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["search, one Mysis: rare"][2:] == ["1.50", "p50 1.00 ms", "missed"]
    assert rows["search, fleet: rare"][3:] == ["p95 50.0 ms", "met"]
    assert rows["Mysis page"][2:] == ["1.50", "1.5 x", "missed"]
    assert rows["something else"][3:] == ["", ""]
    assert rows["prune of a day"][1] == "4.0 s, 40 rows"
    assert "asked for 300" in markdown_table(table)


def test_every_fault_is_told(document: dict[str, Any]) -> None:
    load, events = document["parts"]["load"], document["parts"]["events"]
    load["memory"]["web"] = [[10.0 * n, 100.0 + 10 * n] for n in range(12)]
    # What fills up to a size that is set is no fault.
    load["memory"][BUFFERS] = load["memory"]["web"]
    load["failed"] = {"Fleet page: refused": 2}
    load["logs"] |= {"errors": 2, "lines": ["2 x web: lost"]}
    load["sockets"] |= {"missing": 4, "lost": {"streams": 1, "dashboards": 0}}
    events["live"] = {**events["live"], "lost": 7}
    faults = report.list_faults(document)
    for part in (
        "1 streams were closed",
        "4 events never came",
        "2 requests failed: Fleet page",
        "2 errors in the logs: 2 x web: lost",
        "The memory of web grows",
        "(live) 7 were lost",
    ):
        assert any(part in fault for fault in faults), part
    assert len(faults) == 6
    [memory] = [
        table
        for table in report.build_tables("load", load)
        if table.title.startswith("Memory")
    ]
    assert [row[-1] for row in memory.rows] == ["set: 268 MB", "grows", "flat"]


@pytest.mark.parametrize(
    ("most", "faults"),
    [
        (332.0, []),
        (
            333.0,
            ["PostgreSQL's shared buffers took 333 MB, where 268 MB are set."],
        ),
    ],
)
def test_buffers_stay_within_the_size_that_is_set(
    document: dict[str, Any], most: float, faults: list[str]
) -> None:
    load = document["parts"]["load"]
    load["memory"][BUFFERS] = [[0.0, 20.0], [10.0, most], [20.0, 20.0]]
    assert report.list_faults(document) == faults


def test_an_earlier_measurement_does_not_tell_the_size_of_the_buffers(
    document: dict[str, Any],
) -> None:
    load = document["parts"]["load"]
    load["memory"][BUFFERS] = [[0.0, 20.0], [10.0, 900.0]]
    del load["shared_buffers"]
    assert report.list_faults(document) == []
    memory = list(report.build_tables("load", load))[2]
    assert memory.rows[0][-1] == "bounded"


def test_the_page_is_rewritten_by_parts(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """The page of the documents has a place for each part, and keeps the others."""
    page = tmp_path / report.PAGE
    page.write_text((ROOT / "docs" / report.PAGE).read_text())
    report.write_docs(document, tmp_path)
    whole = page.read_text()
    assert whole.count('make soak ARGS="--only it"') == 3
    only = copy.deepcopy(document)
    only["parts"] = {"events": only["parts"]["events"] | {"count": 123_456}}
    report.write_docs(only, tmp_path)
    assert page.read_text() == whole.replace(
        "500 events through", "123,456 events through"
    )


def test_the_named_command_measures_the_same_again() -> None:
    argv = ["--only", "load", "--myses", "20", "--minutes", "1.5"]
    options = command.parse_options(argv)
    said = command.write_command(options, command.LOAD)
    assert said.startswith('make soak ARGS="--only load --myses 20 --minutes 1.5 ')
    again = command.parse_options(said.split('"')[1].split())
    assert vars(again) == vars(options)
    whole = command.write_command(command.parse_options([]), command.LARGE)
    assert "--memories 3000000" in whole
    assert json.dumps(whole)


@pytest.mark.parametrize("given", ["--minutes=0", "--sockets=0", "--memories=10"])
def test_sizes_that_cannot_be_are_refused(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.parse_options([given])
    assert given.split("=")[0] in capsys.readouterr().err
