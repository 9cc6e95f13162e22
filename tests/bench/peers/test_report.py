"""Tables and the chart of a small run."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from bench.peers import __main__ as command
from bench.peers import report
from bench.peers.environments import PLAIN
from bench.processes import ROOT
from bench.tables import markdown_table, rich_table

REASON = "ValueError: too long | [bold]"


@pytest.fixture
def document() -> dict[str, Any]:
    def cell(peer: str, length: int, name: str, ms: float, **more: Any) -> Any:
        known = {"peer": peer, "length": length, "cell": name, "ms": ms}
        return known | {"repeats": 40} | more

    failed = {"peer": "agno", "length": 1_000, "cell": "append", "error": REASON}
    return {
        "at": "2026-02-05T10:00:00+00:00",
        "machine": {
            "cores": 4,
            "load": [0.5, 0.5, 0.5],
            "python": "3.11.7",
            "system": "Linux-6.1",
        },
        "postgresql": "16.2",
        "lengths": [100, 1_000],
        "seconds": 10.0,
        "peers": [
            {
                "name": PLAIN,
                "title": "raw psycopg",
                "context": "`SELECT`",
                "search": "`ILIKE`",
                "versions": {"psycopg": "3"},
            },
            {
                "name": "agno",
                "title": "agno <PostgresDb>",
                "context": "`get_session`",
                "search": "",
                "versions": {},
                "failed": REASON,
            },
        ],
        "cells": [
            cell(PLAIN, 100, "append", 2.0),
            cell(PLAIN, 1_000, "append", 2.0),
            cell("agno", 100, "append", 25.0, repeats=1),
            failed,
            cell(PLAIN, 100, "context", 1.0, messages=50),
            cell(PLAIN, 1_000, "context", 1.0, messages=50),
            cell("agno", 100, "context", 3.0, messages=100),
            cell("agno", 1_000, "context", 30.0, messages=1_000),
            cell(PLAIN, 1_000, "rare", 0.5, messages=1),
        ],
    }


def test_each_cell_is_held_against_raw_psycopg_of_the_same_run(
    document: dict[str, Any],
) -> None:
    tables = {table.title: table for table in report.build_tables(document)}
    append, context = tables["Append a turn"], tables["Fetch the next context"]
    assert append.headings == ["", "100", "1,000"]
    assert append.rows[1][1:] == ["12 x, 25.0 ms, once", "failed [1]"]
    assert append.notes == [f"agno <PostgresDb>: {REASON}"]
    assert context.rows[1] == [
        "agno <PostgresDb> (`get_session`)",
        "3.0 x, 3.00 ms, 100",
        "30 x, 30.0 ms, 1,000",
    ]
    rare = tables["Search a rare word"]
    assert rare.headings == ["", "1,000"]
    assert [row[1] for row in rare.rows] == ["1.0 x, 0.50 ms, 1", "none"]
    # What was never measured is not left out either.
    assert tables["Search a medium word"].rows[0][1] == "failed [1]"


def test_a_table_is_shown_and_written(document: dict[str, Any]) -> None:
    table = report.build_tables(document)[0]
    written = markdown_table(table)
    assert "| --- | ---: | ---: |" in written
    assert written.endswith(f"[1] agno <PostgresDb>: {REASON}")
    console = Console(width=100)
    with console.capture() as shown:
        console.print(rich_table(table))
    assert "failed [1]" in shown.get()
    assert table.notes[0].startswith("[1] ")


def test_the_chart_is_valid_and_has_a_line_for_each_peer(
    document: dict[str, Any],
) -> None:
    chart = ElementTree.fromstring(report.draw_chart(document))  # noqa: S314 (our own)
    name = "{http://www.w3.org/2000/svg}"
    assert len(chart.findall(f"{name}polyline")) == 4
    texts = [each.text for each in chart.findall(f"{name}text")]
    assert texts.count("agno <PostgresDb>") == 2
    assert {"100", "1,000", "10"} <= {*texts}
    document["cells"] = []
    ElementTree.fromstring(report.draw_chart(document))  # noqa: S314 (our own)


def test_no_label_stands_upon_another() -> None:
    ends = {"a": 100.0, "b": 101.0, "c": 99.0, "d": 340.0, "e": 340.0}
    placed = report.spread_labels(ends, 50, 340)
    heights = sorted(placed.values())
    gaps = [after - before for before, after in pairwise(heights)]
    assert min(gaps) >= report.LABEL_STEP
    assert heights[-1] <= 340
    assert placed["c"] < placed["a"] < placed["b"]


def test_the_page_is_rewritten_between_its_marks(
    document: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / report.PAGE
    page.write_text((ROOT / "docs" / report.PAGE).read_text())
    before = page.read_text().partition(report.BEGIN)[0]
    source = tmp_path / "run.json"
    source.write_text(json.dumps(document))
    monkeypatch.setattr(command, "DOCS", tmp_path)
    for _ in range(2):
        assert command.main(["--from", str(source), "--docs"]) == 1
    assert f"bench-peers: {REASON}" in capsys.readouterr().err
    written = page.read_text()
    assert written.startswith(before)
    assert written.count("### Append a turn") == 1
    assert "PostgreSQL 16.2" in written and "psycopg 3" in written
    assert written.endswith(
        (ROOT / "docs" / report.PAGE).read_text().partition(report.END)[2]
    )
    assert (tmp_path / report.CHART).read_text().startswith("<svg")


def test_a_page_without_marks_is_left_as_it_is(
    document: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / report.PAGE).write_text("# Mine\n")
    with pytest.raises(ValueError, match="to write between"):
        report.write_docs(document, tmp_path)
