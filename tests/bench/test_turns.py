"""Turns of the pilot, few of them, and the figures of measured ones."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings

from agents.game.sessions import get_pool
from agents.models import Mysis
from bench import turns
from bench.flying import delete_myses, lengthen, start_myses
from memory.models import HistorySummary, Memory
from sandbox.game.testing import SandboxServer


def found(**changed: Any) -> dict[str, Any]:
    """What the program that takes turns would write."""
    turn = {
        "whole": 0.1,
        "model": 0.03,
        "game": 0.05,
        "database": 0.015,
        "database times": 10.0,
        "model times": 2.0,
        "game times": 1.0,
        "statements": 44.0,
        "transactions": 8.0,
    }
    given = {"turns": [turn] * 9, "crossing": 0.001, "per_second": 20.0, "busy": 0.8}
    given["lengths"] = {"100": [turn] * 5, "1000000": [turn] * 5}
    return given | {"late": [0.1] * 94 + [0.5] * 6} | changed


def test_what_is_beside_model_and_game_is_the_overhead():
    beside = turns.turn_figures(found())[0]
    assert beside.value == pytest.approx(20)
    assert beside.baseline == pytest.approx(10)
    assert beside.met
    assert "2 model calls" in beside.note


def test_what_a_turn_asks_of_the_database_is_counted():
    counts = {each.name: each for each in turns.turn_figures(found())[4:6]}
    assert counts["statements of a turn (median)"].met
    of_turn = counts["transactions of a turn (median)"]
    assert (of_turn.value, of_turn.goal, of_turn.met) == (8, "at most 8", True)


def test_a_turn_that_called_no_tool_waited_for_no_game():
    assert turns.measure_overhead({"whole": 0.1, "model": 0.04}) == pytest.approx(0.06)


def test_throughput_and_lateness_have_a_baseline_of_the_same_run():
    *_, carried, late = turns.turn_figures(found())
    assert carried.ratio == pytest.approx(2)
    assert (late.value, late.met) == (500, True)
    assert not turns.turn_figures(found(late=[2.0] * 20))[-1].met


def test_a_fleet_that_did_not_fly_is_no_figure():
    with pytest.raises(RuntimeError, match="whole fleet"):
        turns.turn_figures(found(late=[]))


@pytest.mark.django_db(transaction=True)
async def test_a_turn_is_taken_at_once_and_timed(settings: LazySettings):
    with SandboxServer(tick=0.2) as sandbox:
        settings.SPACEMOLT_MCP_URL = sandbox.url
        settings.ZOEA_SECONDS_PER_TICK = 0.2
        [mysis] = await sync_to_async(start_myses)(1, "Alone")
        first = await turns.time_turn(mysis)
        await sync_to_async(lengthen)(mysis, 100)
        second = await turns.time_turn(mysis)
        await get_pool().close()
    assert first["whole"] > 0 and second["whole"] > 0
    assert await Memory.objects.filter(content__contains="of a long history").aexists()
    assert await HistorySummary.objects.acount() == 1
    await sync_to_async(delete_myses)()
    assert not await Mysis.objects.filter(state="running").aexists()
