"""What is a secret by its name, its shape or its value, and what only looks like one."""

from __future__ import annotations

import base64
import html
import json
import re
import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.secret_patterns import (
    HIDDEN,
    SHORTEST,
    KnownValues,
    is_secret_name,
    list_spellings,
    mask_patterns,
)

PAYLOADS = Path(__file__).parents[1] / "golden/gamestate/payloads"
NAMES = st.sampled_from(
    ["password", "passwd", "pwd", "secret", "api_key", "apikey", "token", "session_id"]
)
LOUD = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="[]"),
    min_size=6,
    max_size=60,
)
HEX = st.text("0123456789abcdef", min_size=16, max_size=64).map(lambda one: f"7a{one}")
# Each takes two or three.
PROCESSOR_SECONDS = 20.0
AROUND = st.text("abcxyz \n.,:;!?", max_size=30)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("pwd: hunter2", "hunter2"),
        ("Password is hunter2.", "hunter2"),
        ('{"api_key": "abc"}', "abc"),
        ('{"text": "{\\"password\\": \\"a b\\"}"}', "a b"),
        ("{'token': 'abcdef'}", "abcdef"),
        ("&quot;secret&quot;: &quot;abc def&quot;", "abc def"),
        ("Authorization: Bearer ab.cd-12", "ab.cd-12"),
        ("authorization: Basic dXNlcjpwdw==", "dXNlcjpwdw=="),
        ("curl -H 'X-Api-Key: abc123xyz'", "abc123xyz"),
        ("https://x/y?token=abcdef&page=2", "abcdef"),
        ("password=hunter&user=x", "hunter"),
        ("postgresql://zoea:pw1@host:5432/db", "pw1"),
        ("key sk-proj-abcdEFGH1234567890ijkl", "sk-proj-abcdEFGH1234567890ijkl"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdefghij"),
        ('{"session_id": 4711471147114711}', "4711471147114711"),
        ('{"password": "cut off her', "cut off her"),
        ('{"pass": "hunter2x"}', "hunter2x"),
        ("pass: hunter22", "hunter22"),
        ("PASS=hunter", "hunter"),
        ("amqp://user:p@ss@host/x", "ss"),
        ("amqp://user:pa/ss@host/x", "ss"),
        ("//user:hunter2@host", "hunter2"),
        ("connect to user:hunter2@host:5432 now", "hunter2"),
        ("csrfpassword: hunter2", "hunter2"),
        ("password: 'a b'", "a b"),
        ("Session ID: `0123456789abcdef`", "0123456789abcdef"),
    ],
)
def test_a_secret_is_hidden(text: str, secret: str) -> None:
    masked = mask_patterns(text)
    assert secret not in masked
    assert HIDDEN in masked
    assert mask_patterns(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 12", "max_tokens=8000", "token: 15000", "1,200 tokens left of 16000",
        "A secret base at X-17: rich in ore", "the secret is Sol-9",
        "password: needed | twice", '"session_id": null, "token": 5, "password": ""',
        "Error: session_required: You must provide a session_id.",
        "Passwords are random hex strings.", "task-force-of-many-ships-number-77",
        "https://example.org/a@b", "session 12 begins", "Key to Vega, 3 jumps",
        "boarding pass: aisle", "compass=northwest", "next_page_token=abcdef12",
        "the secret: 'cargo', and all the rest", "secret = hideout",
        "session_id (get_session_overview tells it)", "token: not_authenticated_yet",
        '"required": ["password", "registration_code"]', "10:30@base",
        '{"item": "trade_token", "market_average_price": 5}',
        "https://x:8443/a/@b", "mailto:bob7@example.org", "Authorization: Basic training",
        'placeholder="Password:" class="x"', '{"content": "Enter your password:", "a": 1}',
        'autocomplete="new-password" aria-describedby="id_new_password2_help"',
        """hx-headers='{"X-CSRFToken": "hZ3kdjsf8723hjkfdsAb3kdjsf8723hj"}'""",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_patterns(text) == text


TREES = st.recursive(
    st.integers() | st.text(max_size=20) | NAMES.map("say {}:".format) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner),
    max_leaves=12,
)


@given(TREES, st.sampled_from([None, 2]))
def test_json_stays_json(tree: Any, indent: int | None) -> None:
    assert isinstance(
        json.loads(mask_patterns(json.dumps(tree, indent=indent))), object
    )


def test_what_the_game_says_stays() -> None:
    """Recorded answers, letter for letter, but for what stands under a secret's name."""
    named = re.compile(
        r"""((?:password|session_id|registration_code)(\\*")\s*:\s*\2)[^"\\]+"""
    )
    for path in sorted(PAYLOADS.glob("*.json")):
        text = path.read_text()
        assert mask_patterns(text) == named.sub(rf"\1{HIDDEN}", text), path.stem


@given(NAMES, HEX, AROUND, AROUND)
def test_a_named_secret_never_comes_through(
    name: str, secret: str, before: str, after: str
) -> None:
    for text in (
        f"{before}\n{name}: {secret}\n{after}",
        f"{before}\n{name}={secret}\n{after}",
        before + json.dumps({name: secret}) + after,
        json.dumps({"text": json.dumps({name.upper(): secret})}),
        html.escape(json.dumps({name: secret})),
    ):
        assert secret not in mask_patterns(text)
        assert mask_patterns(mask_patterns(text)) == mask_patterns(text)


@given(LOUD, AROUND, AROUND, st.integers(0, 2))
def test_a_known_value_never_comes_through(
    value: str, before: str, after: str, shift: int
) -> None:
    known = KnownValues([value])
    raw = ("-" * shift + value + after).encode()
    spelled = [
        (value, value),
        (json.dumps(value), json.dumps(value)[1:-1]),
        (html.escape(value), html.escape(value)),
        (quote(value, safe=""), quote(value, safe="")),
    ]
    for text, secret in spelled:
        assert secret not in known.mask(before + text + after).replace(HIDDEN, "")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(raw).decode()
        for whole in (text, text.rstrip("=")):
            masked = known.mask(before + whole + after)
            left = len(masked.replace(HIDDEN, ""))
            hidden = len(before + whole + after) - left
            assert hidden >= len(value.encode()) * 4 / 3 - 4


@given(st.lists(LOUD, max_size=4), st.text("xyz \n", max_size=60))
def test_a_text_without_them_is_not_touched(values: list[str], text: str) -> None:
    kept = KnownValues(value + "0" for value in values).mask(text)
    assert kept == text


def test_values_that_overlap_are_hidden_together() -> None:
    assert KnownValues(["abcdef", "defghi"]).mask("1abcdefghi2") == f"1{HIDDEN}2"


@given(
    st.lists(st.text("ab+", min_size=5, max_size=9), max_size=6),
    st.text("ab+%2Bc", max_size=80),
)
def test_what_is_hidden_is_every_place_of_every_spelling(
    values: list[str], text: str
) -> None:
    assert KnownValues(values).mask(text) == hide_one_by_one(values, text)


def hide_one_by_one(values: list[str], text: str) -> str:
    """The plain way: look for each spelling at each place; what touches is one."""
    spellings = [
        spelling
        for value in values
        if len(value) >= SHORTEST
        for spelling in list_spellings(value)
    ]
    masked, end = "", 0
    for at in range(len(text) + 1):
        lengths = [len(one) for one in spellings if text.startswith(one, at)]
        touches = end == at and masked.endswith(HIDDEN)
        if lengths and at >= end and not touches:
            masked += HIDDEN
        if lengths:
            end = max(end, at + max(lengths))
        if at >= end:
            masked += text[at : at + 1]
    return masked


def test_a_value_that_overlaps_itself_is_one_place() -> None:
    text = "a" * 200_000
    known = KnownValues(["aaaaaa"])
    tracemalloc.start()
    try:
        assert known.mask(text) == HIDDEN
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(text)


def test_more_values_that_begin_alike_are_no_more_work() -> None:
    """As many signs of a text are looked at, whatever stands in it."""

    class Watched(str):
        seen = 0

        def find(self, *args: Any) -> int:
            Watched.seen += len(self)
            return super().find(*args)

        def __getitem__(self, key: Any) -> str:
            piece = super().__getitem__(key)
            Watched.seen += len(piece)
            return piece

    def count_seen(values: int) -> int:
        known = KnownValues(f"user{number:08d}" for number in range(values))
        Watched.seen = 0
        assert known.mask(Watched("user name, " * 1_000)).startswith("user name")
        return Watched.seen

    assert count_seen(1_000) == count_seen(10)


def test_short_values_are_looked_for_by_name_only() -> None:
    assert KnownValues(["abc12"]).mask("abc12") == "abc12"


@pytest.mark.parametrize(
    "text",
    [
        '"password": "',
        "password=",
        "://a:",
        "secret is ",
        'token":\\"',
        "\\",
        "sk-",
        "a1",
        """pwd:\\\\\\"'""",
        "secret: 'a",
        "//a:b@",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """In time that grew with its square, such a text would take minutes."""
    known = KnownValues(f"{number:032x}" for number in range(50))
    with limit_work(PROCESSOR_SECONDS):
        masked = known.mask(mask_patterns(text * 50_000))
    assert masked


@contextmanager
def limit_work(seconds: float) -> Iterator[None]:
    """End what takes more seconds of the processor, however little of it we get."""

    def end(_signal: int, _frame: object) -> None:
        raise AssertionError(f"more than {seconds} s of the processor")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_names() -> None:
    assert all(map(is_secret_name, ["Password", "api-key", "SESSION_ID", "new_token"]))
    assert not any(map(is_secret_name, ["tokens", "secret_base", "key", 5, "passage"]))
