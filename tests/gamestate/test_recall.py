"""Handles of the state: whole contents, by tool and arguments."""

from __future__ import annotations

import json

import pytest

from memory.gamestate.rows import recall_content
from tests.gamestate.builders import snapshot

ROWS = (
    snapshot("get_map", {"systems": ["old"]}, args={"system_id": "sol"}, age=9),
    snapshot(
        "get_map", {"systems": ["new"]}, args={"system_id": "x y", "page": 2}, age=1
    ),
    snapshot("get_ship", {"hull": 1}, shown={"hull": 2}, field_ticks={"hull": 106}),
    snapshot("get_text", "as it came\n"),
)


@pytest.mark.parametrize(
    ("handle", "content"),
    [
        ("state://get_ship", {"hull": 2}),
        ("state://get_ship#raw", {"hull": 1}),
        (" state://get_map ", {"systems": ["new"]}),
        ("state://get_map?system_id=sol", {"systems": ["old"]}),
        ("state://get_map?system_id=x%20y&page=2", {"systems": ["new"]}),
        ('state://get_map?{"page": 2, "system_id": "x y"}', {"systems": ["new"]}),
    ],
)
def test_a_handle_names_one_content(handle, content):
    assert json.loads(recall_content(ROWS, handle)) == content


def test_a_text_comes_back_as_it_was():
    assert recall_content(ROWS, "state://get_text") == "as it came\n"


@pytest.mark.parametrize(
    "handle", ["", "ctx://1/2", "state://", "state://a?{", "state://?a=b"]
)
def test_another_form_is_refused_with_the_right_one(handle):
    with pytest.raises(ValueError, match="state://get_ship"):
        recall_content(ROWS, handle)


def test_what_is_not_kept_is_said():
    with pytest.raises(LookupError, match="Kept are: get_map, get_ship, get_text"):
        recall_content(ROWS, "state://get_base")
    with pytest.raises(LookupError, match="Nothing is kept yet"):
        recall_content((), "state://get_map?system_id=sirius")
