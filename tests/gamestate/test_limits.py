"""Age limits as an operator writes them, and names learnt from any answer."""

from __future__ import annotations

import pytest

from memory.gamestate.confidence import NORMAL, Confidence, judge_confidence
from memory.gamestate.facts import learn_names, learn_sizes
from memory.gamestate.render import render_block
from memory.gamestate.types import Thresholds, read_limits
from tests.gamestate.builders import snapshot, state
from tests.gamestate.scenarios import STATUS


def test_limits_are_read_by_tool():
    found = read_limits("get_nearby=2:9, get_map = 1/3\n*=4:8;")
    assert found == {
        "get_nearby": Thresholds(2, 9),
        "get_map": Thresholds(1, 3),
        "*": Thresholds(4, 8),
    }
    assert read_limits("") == {}


@pytest.mark.parametrize(
    "text", ["get_map", "get_map=5", "get_map=9:3", "get_map=-1:3", "=1:2", "a=1:1e9"]
)
def test_what_is_no_limit_is_refused_by_name(text):
    with pytest.raises(ValueError, match=text.split("=")[0] or "="):
        read_limits(text)


def test_own_limits_go_before_the_table_and_any_before_the_normal():
    rows = snapshot("get_nearby", age=3), snapshot("get_status", age=3)
    moment = state(*rows, thresholds=read_limits("get_nearby=3:4,*=1:2")).moment
    assert judge_confidence(rows[0], moment) is Confidence.FRESH
    assert judge_confidence(rows[1], moment) is Confidence.STALE
    assert judge_confidence(rows[1], state(*rows).moment) is Confidence.FRESH
    assert NORMAL.fresh >= 3


def test_names_come_from_actions_routes_and_events():
    told = {
        "destination": "Main Belt",
        "destination_id": "sol_belt",
        "route": [{"system_id": "sirius", "name": "Sirius", "jumps": 1}],
        "notifications": [{"data": {"poi_id": "mars", "poi_name": "Mars"}}],
        "base": "Sol Central",
        "base_id": "sol_base",
        "poi": {"id": "x", "name": "X"},
        "item_id": "same",
        "item": "same",
    }
    assert learn_names(told) == {
        "sol_belt": "Main Belt", "sirius": "Sirius", "mars": "Mars",
        "sol_base": "Sol Central", "x": "X",
    }  # fmt: skip


def test_sizes_come_from_wherever_an_item_is_told_with_its_own():
    gems = [{"item_id": "gem", "size": 10}, {"item_id": "x", "size": -1}, {"size": 2}]
    assert learn_sizes({"items": gems, "n": [{"item_id": "y", "size": "3"}]}) == {
        "gem": 10
    }


def test_a_name_learnt_earlier_is_shown_and_a_newer_one_wins():
    names = {"sol_belt": "Old Belt", "sol": "Sol"}
    text = render_block(state(snapshot("get_status", STATUS), names=names)).text
    assert "- Location: Sol > Old Belt\n" in text
    here = snapshot("get_poi", {"poi": {"id": "sol_belt", "name": "New Belt"}})
    text = render_block(state(snapshot("get_status", STATUS), here, names=names)).text
    assert "- Location: Sol > New Belt\n" in text
