"""Summaries and events of a real server, few of them; nothing here judges time."""

from __future__ import annotations

import pytest

from bench import surfaces
from bench.processes import Server
from zoea.auth import create_token


@pytest.mark.django_db(transaction=True)
def test_summaries_and_events_are_measured(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surfaces, "REQUESTS", 2)
    monkeypatch.setattr(surfaces, "EVENTS", 3)
    surfaces.prepare_mysis()
    token = create_token(name="bench", role="viewer")[1]
    found = surfaces.time_summaries(server, token)
    whole, known = surfaces.summary_figures(found)
    assert whole.value > 0 and known.value > 0 and known.ratio
    url = f"{server.socket}/ws/v1/events?token={token}&after={surfaces.read_newest_event()}"
    ours = surfaces.watch_events(url, 2, surfaces._append_event)
    assert (ours["clients"], ours["frames"], ours["lost"]) == (2, 6, 0)
    bare = surfaces.watch_bare(2)
    assert (bare["frames"], bare["lost"], bare["twice"]) == (6, 0, 0)


def test_events_are_held_against_a_bare_broadcast() -> None:
    got = {"lost": 1, "twice": 0, "disordered": 0, "median": 9.0, "p95": 60.0}
    median, late, lost = surfaces.socket_figures(200, got, got)
    assert (median.met, late.met, lost.met) == (None, False, False)
