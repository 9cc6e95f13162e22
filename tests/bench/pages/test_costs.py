"""The figures of the pages; nothing here measures time."""

from __future__ import annotations

from typing import Any

import pytest

from bench.pages.costs import page_figures


def found(**changed: Any) -> dict[str, Any]:
    """What the program that looks at pages would write."""
    return {
        "viewers": {
            0: {"busy": 10.0, "sent": 0.0},
            1: {"busy": 30.0, "sent": 4000.0},
            10: {"busy": 75.0, "sent": 4000.0},
        },
        "weight": {"sent": 60_000, "requests": 12},
        "frame": 20_000,
        "answers": {"/": [50.0] * 95 + [200.0] * 5, "/healthz": [2.0] * 100},
        "painted": {"painted": [100.0] * 99 + [500.0], "lost": 0, "read": [10.0] * 9},
        "lengths": {"the page": {100: 0.1, 100_000: 0.12}},
    } | changed


def test_each_number_has_its_target():
    figures = {figure.name: figure for figure in page_figures(found())}
    met = {name: figure.met for name, figure in figures.items()}
    assert met == {
        "event to painted row, median": None,
        "event to painted row, p95": True,
        "words never painted": True,
        "a cold visit to the Fleet page, bytes sent": True,
        "the Fleet page from the server, median": None,
        "the Fleet page from the server, p95": False,
        "web process, nobody looks at the Fleet page": None,
        "the same with one viewer": None,
        "each further viewer, of 10": None,
        "the page of a Mysis with 100,000 memories (median)": True,
    }
    assert figures["a cold visit to the Fleet page, bytes sent"].value == 80_000
    assert figures["each further viewer, of 10"].value == pytest.approx(5)
    assert figures["each further viewer, of 10"].baseline == pytest.approx(20)


def test_without_a_browser_nothing_is_said_of_painting():
    names = [figure.name for figure in page_figures(found(painted=None))]
    assert not [name for name in names if "paint" in name]


def test_a_fleet_that_said_nothing_is_no_figure():
    silent = {"painted": [], "lost": 0, "read": []}
    with pytest.raises(RuntimeError, match="Nothing was said"):
        page_figures(found(painted=silent))
