"""Texts that can be sent, and cuts that split nothing (I29)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.text import clean_text, count_shortest, find_safe_cut, shorten_text
from memory.context.tokens import estimate_tokens
from memory.context.tool_calls import (
    canonicalize_arguments,
    normalize_arguments,
    parse_arguments,
    redact_arguments,
)

HANDLE = "ctx://self/1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\x00b", "ab"),
        ("a\ud800b", "a\ufffdb"),
        ("🚀", "🚀"),
        ("\udc00\x00", "\ufffd"),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean_text(text) == expected


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301",
        "👩‍🚀",
        "👍🏽",
        "🇩🇪",
        "각",
        "각",
        "\r\n",
        "\\n",
        "\\u00e9",
        '\\"',
        "❤️",
        "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    ],
)
def test_a_cut_never_splits(cluster: str) -> None:
    text = "ab" + cluster + "cd"
    inside = range(3, 2 + len(cluster))
    assert [find_safe_cut(text, index) for index in inside] == [2] * len(inside)
    assert find_safe_cut(text, 2 + len(cluster)) == 2 + len(cluster)


def test_flags_are_cut_between_pairs() -> None:
    text = "🇩🇪🇫🇷🇯🇵"
    assert [find_safe_cut(text, index) for index in range(7)] == [0, 0, 2, 2, 4, 4, 6]


def test_an_escaped_backslash_is_no_escape_of_what_follows() -> None:
    text = "a\\\\nb"
    assert find_safe_cut(text, 3) == 3
    assert find_safe_cut(text, 2) == 1


@given(
    st.text(alphabet="ab \n,{}\\u0301\u0301👩‍🇩🇪漢", max_size=300),
    st.integers(0, 300),
    st.sampled_from([len, estimate_tokens]),
)
def test_shorten_keeps_its_limit(text: str, limit: int, count: object) -> None:
    counter = len if count is len else estimate_tokens
    short = shorten_text(text, limit, counter, HANDLE)
    if counter(text) <= limit:
        assert short == text
    elif short is not None:
        assert counter(short) <= limit
        assert counter(short) < counter(text)
        assert HANDLE in short
    else:
        assert count_shortest(text, counter, HANDLE) > limit or counter(text) <= limit


def test_shorten_says_exactly_how_much_is_missing() -> None:
    text = "\n".join(f"line {number}" for number in range(1_000))
    short = shorten_text(text, 500, len, HANDLE)
    assert short is not None
    head, rest = short.split("\n[... ")
    number, tail = rest.split(f" characters omitted, see {HANDLE}]\n")
    head = head + "\n" if text.startswith(head + "\n") else head
    assert text.startswith(head)
    assert text.endswith(tail)
    assert abs(len(head) + int(number) + len(tail) - len(text)) <= 1
    assert head.endswith("\n")
    assert tail.startswith("line ")


def test_as_object_keeps_what_is_an_object() -> None:
    assert normalize_arguments('{"a": 1.50}') == ('{"a": 1.50}', True)
    assert normalize_arguments("") == ("{}", True)
    assert normalize_arguments("7") == ("{}", False)
    assert normalize_arguments('{"a\x00": 1}') == ('{"a": 1}', True)


def test_canonical_is_one_spelling() -> None:
    assert canonicalize_arguments('{"b":1, "a":2}') == canonicalize_arguments(
        '{ "a": 2, "b": 1 }'
    )
    assert (
        canonicalize_arguments("{}")
        == canonicalize_arguments("")
        == canonicalize_arguments("null")
        == ""
    )
    assert canonicalize_arguments('{"a":1}') != canonicalize_arguments('{"a":"1"}')
    assert canonicalize_arguments("broken") == "broken"


def test_redacted_keeps_the_names_only() -> None:
    assert json.loads(redact_arguments('{"password": "x", "n": {"deep": 1}}')) == {
        "password": "[redacted]",
        "n": "[redacted]",
    }
    assert redact_arguments("broken") == "{}"


def test_load_object_can_be_sent() -> None:
    text, _ = normalize_arguments('{"a": ["\\ud800", 1e999, 1.5]}')
    assert parse_arguments(text) == {"a": ["\ufffd", "inf", 1.5]}
