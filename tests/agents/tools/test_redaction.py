"""No secret passes, and nothing else is changed."""

from __future__ import annotations

import gc
import html
import json
import weakref
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_django import Settings

from agents.tools.chain import mask_arguments
from memory import redaction
from memory.redaction import (
    HIDDEN,
    SealedValues,
    drop_secrets,
    hide_secrets,
    hide_secrets_in_page,
    hide_secrets_in_value,
)
from memory.secret_patterns import KnownValues

KEYS = ["password", "registration_code", "session_id", "token"]
HEX = st.text("0123456789abcdef", min_size=32, max_size=64)
WORDS = st.text("abcdefg \n\"'{}:,", max_size=40)
TREE = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(HEX, WORDS, WORDS)
def test_a_known_secret_never_comes_through(
    secret: str, before: str, after: str
) -> None:
    assert secret not in hide_secrets(before + secret + after, {secret})
    assert secret not in json.dumps(
        hide_secrets_in_value({before: [secret + after]}, {secret})
    )
    assert secret not in json.dumps(
        mask_arguments(json.dumps({"a": before + secret}), {secret})
    )


ELEMENTS = st.lists(
    st.tuples(st.sampled_from(["div", "li", "td", "p", "b"]), WORDS, WORDS), max_size=6
)


@example("0" * 32, "registration_code: ", [("li", "", "")])
@given(HEX, st.sampled_from(["", *(f"{key}: " for key in KEYS)]), ELEMENTS)
def test_no_element_of_a_page_shows_a_secret_and_all_are_left(
    secret: str, name: str, elements: list[tuple[str, str, str]]
) -> None:
    known = KnownValues([] if name else [secret + "1"])
    page = "".join(
        f"<{tag} title='{html.escape(before)}'>{name}{secret}1{html.escape(after)}</{tag}>"
        for tag, before, after in elements
    )
    with patch.object(SealedValues, "read", lambda _: known):
        shown = hide_secrets_in_page(page)
    assert secret not in shown
    assert shown.count(HIDDEN) == len(elements)
    assert shown.count("<") == page.count("<")


@given(HEX, st.sampled_from(KEYS), TREE, st.sampled_from([None, 2]))
def test_a_secret_under_its_key_is_dropped_wherever_it_stands(
    secret: str, key: str, tree: Any, indent: int | None
) -> None:
    value = {"outer": [{key: secret, "kept": tree}], key.upper(): secret}
    cleaned = json.loads(drop_secrets(json.dumps(value, indent=indent)))
    assert secret not in json.dumps(cleaned)
    assert cleaned == {"outer": [{"kept": tree}]}


@given(TREE)
def test_a_text_without_secrets_is_not_touched(tree: Any) -> None:
    for text in (json.dumps(tree), json.dumps(tree, indent=2), str(tree)):
        if not any(key in text.lower() for key in KEYS):
            assert hide_secrets(text, {"0123456789abcdef"}) == text


@pytest.mark.parametrize(
    "text",
    [
        "Welcome back, Ada! Session ID: 0123456789abcdef0123456789abcdef\nNews",
        "Your password is 0123456789abcdef0123456789abcdef.",
        'broken json {"password": "0123456789abcdef0123456789abcdef"',
        "token=0123456789abcdef0123456789abcdef",
    ],
)
def test_a_secret_named_in_a_text_is_hidden(text: str) -> None:
    cleaned = hide_secrets(text)
    assert "0123456789abcdef" not in cleaned
    assert HIDDEN in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "Error: session_invalid: Session not found or expired. Call login() again to "
        "get a new session_id.",
        "Error: session_required: You must provide a session_id. Get one by calling "
        "login() or register() first.",
        "Error: auth_failed: Invalid username or password. Passwords are random hex "
        "strings.",
        '{"cargo": {"token": 5}, "session_id": null}',
    ],
)
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    assert hide_secrets(text) == text


def test_the_registration_code_is_hidden_too(db: None, settings: Settings) -> None:
    settings.SPACEMOLT_REGISTRATION_CODE = "code-4711"
    assert hide_secrets("the code is code-4711") == f"the code is {HIDDEN}"


def test_arguments_in_events_are_masked_and_bounded() -> None:
    shown = mask_arguments(
        '{"username": "Ada", "password": "x", "n": "' + "y" * 900 + '"}', set()
    )
    assert shown["username"] == "Ada"
    assert shown["password"] == HIDDEN
    assert len(shown["n"]) == 501
    assert mask_arguments("not json", set()) == "not json"
    assert mask_arguments("", set()) == {}
    many = json.dumps({str(number): "z" * 400 for number in range(50)})
    assert len(mask_arguments(many, set())) == 500


@pytest.mark.django_db
def test_nothing_holds_on_to_the_secrets_of_before() -> None:
    found, versions = SealedValues(), count()
    found.connect(lambda: next(versions), lambda: ["0123456789abcdef"])
    hidden = []
    for _ in range(3):
        found.expire()
        known = found.read()
        redaction._mask("a text", known, frozenset())
        redaction._remember_item("an item", known)
        hidden.append(weakref.ref(known))
    del known
    gc.collect()
    assert [one() is None for one in hidden] == [True, True, False]
