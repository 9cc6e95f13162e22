"""What the bench of the pages reckons; nothing here measures time."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents.consumers.dashboard import page_of
from agents.dashboard.live.pages import FleetPage
from bench.pages import part, scene
from bench.pages.lateness import Seen, Word, lateness
from bench.pages.visits import socket_of
from memory.models import HistorySummary, Memory


def found(**changed: Any) -> dict[str, Any]:
    """What the program that looks at pages would write."""
    return {
        "viewers": {
            "0": {"busy": 10.0, "sent": 0.0},
            "1": {"busy": 30.0, "sent": 4000.0},
            "10": {"busy": 75.0, "sent": 4000.0},
        },
        "weight": {"sent": 60_000, "requests": 12},
        "frame": 20_000,
        "answers": {"/": [50.0] * 95 + [200.0] * 5, "/healthz": [2.0] * 100},
        "painted": {"painted": [100.0] * 99 + [500.0], "lost": 0, "read": [10.0] * 9},
        "lengths": {"the page": {"100": 0.1, "100000": 0.12}},
    } | changed


def test_each_number_has_its_target():
    figures = {figure.name: figure for figure in part.figures_of(found())}
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
    names = [figure.name for figure in part.figures_of(found(painted=None))]
    assert not [name for name in names if "paint" in name]


def test_a_fleet_that_said_nothing_is_no_figure():
    silent = {"painted": [], "lost": 0, "read": []}
    with pytest.raises(RuntimeError, match="Nothing was said"):
        part.figures_of(found(painted=silent))


def test_a_word_is_painted_with_itself_or_with_a_newer_one():
    words = [
        Word(event=1, mysis=7, written=1000.7, told=1010.0),
        Word(event=2, mysis=7, written=1200.2, told=1210.0),
        Word(event=3, mysis=8, written=1300.0, told=1310.0),
        Word(event=4, mysis=7, written=1500.0, told=1510.0),
    ]
    seen = [Seen(7, 900, 1100), Seen(7, 1200, 1400), Seen(7, 1500, 1600)]
    assert lateness(words, seen) == [390, 190, None, 90]


@pytest.mark.django_db
def test_the_socket_is_asked_for_as_the_script_asks(admin_client: Client):
    scene.resting(2)
    address = socket_of(admin_client.get("/").content.decode())
    asked = page_of(address.partition("?")[2].encode())
    assert isinstance(asked, FleetPage)
    assert 'id="fleet-rows"' not in "".join(asked.snapshot(0))


@pytest.mark.django_db
def test_those_who_remember_differ_in_length_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scene, "UNCOVERED", 4)
    for count in (5, 12):
        mysis = scene.remembering(count)
        summary = HistorySummary.objects.get(mysis=mysis)
        rows = Memory.objects.filter(mysis=mysis)
        assert rows.count() == count
        assert rows.filter(pk__gt=summary.through_id).count() == 4
