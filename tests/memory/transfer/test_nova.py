"""Kept tool calls are split where they were joined, whatever stands in them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.transfer.nova import PREFIX, NovaCall, split_calls, split_result

NASTY = st.text(alphabet='|:{}[]" \\\n,aé1', max_size=12)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NASTY,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NASTY, inner, max_size=3)
    ),
    max_leaves=6,
)
IDS = st.from_regex(r"[a-z_]{1,8}[0-9]{0,3}(:[a-z0-9_.]{1,6}){0,2}", fullmatch=True)
NAMES = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True)
CALLS = st.builds(
    NovaCall,
    IDS,
    NAMES,
    st.dictionaries(NASTY, JSON_VALUES, max_size=4).map(json.dumps),
)


@given(st.lists(CALLS, max_size=5))
def test_what_was_joined_is_split_again(calls: list[NovaCall]) -> None:
    records = (f"{call.id}:{call.name}:{call.arguments}" for call in calls)
    assert split_calls(PREFIX + "|".join(records)) == (calls, "")


@pytest.mark.parametrize(
    ("text", "calls", "rest"),
    [
        ("", [], ""),
        ("c1:get_ship:", [("c1", "get_ship", "{}")], ""),
        ("c1:get_ship", [("c1", "get_ship", "{}")], ""),
        (
            "c1:get_ship|c2:mine:{}",
            [("c1", "get_ship", "{}"), ("c2", "mine", "{}")],
            "",
        ),
        (
            'c1:say:{"text": "cut off|c2:get_ship:{}',
            [("c1", "say", '{"text": "cut off'), ("c2", "get_ship", "{}")],
            "",
        ),
        (
            'functions.say:0:say:{"a": "x|y:z:{}"} | c2:mine:{}',
            [("functions.say:0", "say", '{"a": "x|y:z:{}"}'), ("c2", "mine", "{}")],
            "",
        ),
        (
            'c1:say:{"a": 1}} oops|c2:mine:{}',
            [("c1", "say", '{"a": 1}} oops'), ("c2", "mine", "{}")],
            "",
        ),
        (
            "call_1:captains_log_add:note: a|b:c",
            [("call_1", "captains_log_add", "note: a|b:c")],
            "",
        ),
        ("functions.say:0:say:hm", [("functions.say:0", "say", "hm")], ""),
        ("c1:mine:null", [("c1", "mine", "null")], ""),
        ("nonsense|c2:mine:{}", [("c2", "mine", "{}")], "nonsense"),
        ("garbage", [], "garbage"),
        ('call 1:travel:{"to": "a|b:c:{}"}', [], 'call 1:travel:{"to": "a|b:c:{}"}'),
        (":travel:{}", [], ":travel:{}"),
        ("call_{x}:travel:{}|c2:mine:{}", [("c2", "mine", "{}")], "call_{x}:travel:{}"),
        ("a:b/c:{}|c2:mine:{}| d e", [("c2", "mine", "{}")], "a:b/c:{}| d e"),
        ("|||", [], ""),
    ],
)
def test_what_is_broken_costs_no_more_than_itself(
    text: str, calls: list[tuple[str, str, str]], rest: str
) -> None:
    expected = [NovaCall(*each) for each in calls]
    assert split_calls(PREFIX + text) == (expected, rest)


RECORDS = st.lists(
    st.tuples(
        st.one_of(IDS, NASTY), st.one_of(NAMES, NASTY), st.one_of(NASTY, st.just("{}"))
    ),
    max_size=4,
).map(lambda parts: "|".join(":".join(part) for part in parts))


@given(st.one_of(st.text(max_size=200), RECORDS))
def test_no_character_of_any_text_is_lost(text: str) -> None:
    """But blanks around records, and the signs between the parts of those found."""
    calls, rest = split_calls(PREFIX + text)
    for call in calls:
        assert call.id
        assert call.name
    parts = [rest, *(f"{c.id}:{c.name}:{c.arguments}" for c in calls)]
    before, after = (Counter("".join(each.split())) for each in (text, "|".join(parts)))
    lost = before - after
    # Empty records between delimiters hold nothing.
    assert set(lost) <= {"|"}, lost


@given(IDS, st.text(max_size=30))
def test_a_result_is_told_by_the_call_that_was_made(call_id: str, text: str) -> None:
    assert split_result(f"{call_id}:{text}", [call_id]) == (call_id, text)


def test_of_two_ids_that_fit_the_longer_is_meant() -> None:
    assert split_result("a:1:text", ["a", "a:1"]) == ("a:1", "text")
    assert split_result("b:x: y", ["a"]) == ("b", "x: y")
    assert split_result("Error: no", []) == ("Error", " no")
    assert split_result("no id here: x", []) == ("", "no id here: x")
