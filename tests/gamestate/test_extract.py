"""Reading tool results: content, tick, owner, refusal, queue, argument key."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.extract import (
    belongs_to,
    build_args_key,
    find_tick,
    find_username,
    read_result,
)
from memory.gamestate.values import MAX_DEPTH, is_deep, parse_text
from tests.gamestate.builders import payload

keys = st.text(max_size=8) | st.sampled_from(
    ["tick", "current_tick", "error", "player", "username", "data", "queued"]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=20,
)


def block(text):
    return [{"type": "text", "text": text}]


# -- content ---------------------------------------------------------------


def test_a_json_block_becomes_its_value():
    assert read_result(block('{"credits": 5}')).content == {"credits": 5}


def test_a_block_object_of_the_sdk_is_read_like_a_dictionary():
    blocks = [SimpleNamespace(type="text", text='{"credits": 5}')]
    assert read_result(blocks).content == {"credits": 5}


def test_text_that_is_no_json_is_kept():
    """A24: a text dashboard is an answer too."""
    assert read_result(block("No notifications.")).content == "No notifications."


def test_several_blocks_are_kept_one_by_one_and_the_first_tick_counts():
    result = read_result(
        [*block("Hint."), *block('{"tick": 7}'), *block('{"tick": 9}')]
    )
    assert result.content == ["Hint.", {"tick": 7}, {"tick": 9}]
    assert result.tick == 7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": NaN, "b": Infinity, "c": 1e999}', {"a": None, "b": None, "c": None}),
        ('{"a": "x\\u0000y"}', {"a": "xy"}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": "\\ud83d\\ude80"}', {"a": "\U0001f680"}),
        ('{"notifications": null}', {"notifications": None}),
        ("{broken", "{broken"),
        ("", ""),
    ],
)
def test_odd_json_is_made_storable(text, value):
    assert parse_text(text) == value


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 200_000])
def test_deep_nesting_stays_text(depth):
    text = "[" * depth + "]" * depth
    assert parse_text(text) == text


@given(st.binary(max_size=200) | st.text(st.characters(), max_size=200) | values)
def test_whatever_a_server_sends_is_read_and_can_be_stored(sent):
    result = read_result(sent)
    stored = json.dumps(result.content, allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in stored
    stored.encode("utf-8")
    assert not is_deep(result.content, MAX_DEPTH + 1)


@given(values)
def test_json_text_of_any_value_is_read(value):
    result = read_result(block(json.dumps(value)))
    json.dumps(result.content, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert result.tick is None or result.tick >= 0


# -- ticks -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"current_tick": 42337}, (42337, True)),
        ({"tick": 5, "data": {"current_tick": 9}}, (9, True)),
        ({"tick": 5, "x": [{"y": {"current_tick": 9}}]}, (9, True)),
        ({"data": {"current_tick": 1}, "current_tick": 2}, (2, True)),
        ({"result": {"current_tick": 3}, "data": {"current_tick": 4}}, (4, True)),
        ({"a": {"b": {"current_tick": 1}}, "c": {"current_tick": 2}}, (2, True)),
        ({"payload": {"tick": 109050}}, (109050, False)),
        ({"current_tick": "105"}, (105, True)),
        ({"current_tick": 105.0}, (105, True)),
        ({"current_tick": "soon", "tick": 3}, (3, False)),
        ({"current_tick": -4}, None),
        ({"current_tick": True}, None),
        ({"current_tick": math.nan}, None),
        ({"current_tick": 10**40}, None),
        ({"arrival_tick": 41708, "expire_tick": 91313}, None),
        ("tick 5", None),
    ],
)
def test_tick_order(value, found):
    assert find_tick(value) == found


def test_the_arrival_tick_is_read_apart():
    result = read_result(payload("travel.feb_queued"))
    assert result.tick is None
    assert result.arrival_tick == 41708
    assert result.queued


# -- whose -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "username"),
    [
        ("get_status", "Artisan 'Ace' Anderson"),
        ("get_nearby", None),
        ("get_notifications.with_events", None),
        ("get_system", None),
        ("scan", "TargetPlayer"),
    ],
)
def test_owner_of_recorded_answers(name, username):
    assert find_username(payload(name)) == username


def test_owner_of_a_text_dashboard():
    text = "Rockhopper Kess [nebula] | 2,720cr | Moonshadow\nShip: Prospect"
    assert find_username(text) == "Rockhopper Kess"
    assert find_username("Welcome back, Drift! Session ID: abc") == "Drift"
    assert find_username("No active missions.") is None


def test_a_result_belongs_to_the_account_it_names_or_to_the_active_one():
    """A22: nobody else is stored under the active account."""
    assert belongs_to(read_result({"player": {"username": "A"}}), "A")
    assert belongs_to(read_result({"systems": []}), "A")
    assert not belongs_to(read_result({"username": "B"}), "A")


# -- refused, queued -------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "code", "message", "wait"),
    [
        (
            "Error: no_resources: Nothing to mine here",
            "no_resources",
            "Nothing to mine here",
            None,
        ),
        ("Error: not_docked: not_docked: Not docked", "not_docked", "Not docked", None),
        ("Error: something broke", "", "something broke", None),
        (
            {"error": "rate_limited", "message": "Try again in 7 seconds"},
            "rate_limited",
            "Try again in 7 seconds",
            7.0,
        ),
        (
            {"error": {"code": "queue_full", "message": "Full", "wait_seconds": 3}},
            "queue_full",
            "Full",
            3.0,
        ),
        ({"throttled": True, "retry_after": 2}, "throttled", "throttled", 2.0),
        ({"error": {"code": 0, "message": "empty_entry"}}, "0", "empty_entry", None),
    ],
)
def test_refusals(sent, code, message, wait):
    result = read_result(block(sent) if isinstance(sent, str) else sent)
    assert result.is_error
    assert result.error is not None
    assert (result.error.code, result.error.message, result.error.wait_seconds) == (
        code,
        message,
        wait,
    )


def test_the_error_flag_alone_is_enough():
    result = read_result(block("down for maintenance"), is_error=True)
    assert result.error is not None
    assert result.error.message == "down for maintenance"


@pytest.mark.parametrize(
    "value", [{"error": None}, {"error": ""}, {"throttled": False}, {"result": {}}]
)
def test_answers_that_only_look_like_refusals(value):
    assert not read_result(value).is_error


def test_recorded_error_results():
    first = payload("_mcp_error_results")[0]["result"]
    result = read_result(first["content"], is_error=first["isError"])
    assert result.error is not None
    assert result.error.code == "no_resources"


@pytest.mark.parametrize(
    ("sent", "queued"),
    [
        (payload("mine.feb_queued"), True),
        (payload("undock.feb_queued"), True),
        ({"pending": True}, True),
        ({"result": {"queued": True}}, True),
        ("Action queued for the next tick.", True),
        (payload("travel"), False),
        ({"queued": False}, False),
        (payload("get_status"), False),
    ],
)
def test_queued(sent, queued):
    assert read_result(sent).queued is queued


# -- arguments -------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "key"),
    [
        (None, ""),
        ({}, ""),
        ({"session_id": "abc"}, ""),
        ({"b": 1, "a": "x"}, '{"a":"x","b":1}'),
        ({"page": 2.0}, '{"page":2}'),
        ({"name": "Zoë"}, '{"name":"Zoë"}'),
    ],
)
def test_args_key(args, key):
    assert build_args_key(args) == key


@given(st.dictionaries(keys, values, max_size=4))
def test_args_key_is_canonical(args):
    key = build_args_key(args)
    assert key == build_args_key(dict(reversed(args.items())))
    if not key:
        return
    again = json.loads(key)
    assert build_args_key(again) == key
    key.encode("utf-8")


@given(
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(), max_size=3),
)
def test_different_arguments_have_different_keys(one, other):
    one.pop("session_id", None)
    other.pop("session_id", None)
    cleaned = [
        json.dumps(json.loads(build_args_key(a) or "{}"), sort_keys=True)
        for a in (one, other)
    ]
    assert (build_args_key(one) == build_args_key(other)) == (cleaned[0] == cleaned[1])
