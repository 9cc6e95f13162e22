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

from memory.redaction import hide_secrets_offline
from memory.secret_patterns import (
    HIDDEN,
    SHORTEST,
    KnownValues,
    is_secret_name,
    list_spellings,
    mask_patterns,
    names_secret,
)

# Made up, but as long in its lines as one is.
PEM = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEAx0123456789abcdefghijklmnopqrstuvwxyz+/ABCDEFGHI",
        "IBAAKlmnop0123456789",
        "-----END RSA PRIVATE KEY-----",
    ]
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
# Each takes a part of one.
PROCESSOR_SECONDS = 10.0
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
        ("pass\u200bword: hunter2", "hunter2"),
        ("p\u00ada\u2060s\ufeffs\u200dword is hunter2", "hunter2"),
        ('{"text": "to\\u200bken\\": \\"abcdef"}', "abcdef"),
        ("sk-proj-abcd\u200bEFGH1234567890ijkl", "EFGH1234567890ijkl"),
        ('the password "correct horse"', "correct horse"),
        ("Password is 'correct horse battery', keep it.", "correct horse"),
        ("passphrase \u201ccorrect horse\u201d", "correct horse"),
        ("pwd: \u00abcorrect horse\u00bb", "correct horse"),
        ('{"text": "password \\"correct horse\\" again"}', "correct horse"),
        ("the password &quot;correct horse&quot;", "correct horse"),
        ("Passwort: hunter2", "hunter2"),
        ('Das Kennwort lautet "ein altes Pferd".', "altes"),
        ("mot de passe\u00a0: hunter2", "hunter2"),
        ('{"mot_de_passe": "cheval"}', "cheval"),
        ("Mot de passe \u00ab cheval d\u2019or \u00bb", "cheval"),
        ("CONTRASEÑA: hunter2", "hunter2"),
        ("a senha é hunter2", "hunter2"),
        ("wachtwoord=hunter", "hunter"),
        ("Пароль: hunter2", "hunter2"),
        ("密码是hunter2\uff0c别忘了", "hunter2"),
        ("パスワード\uff1ahunter2", "hunter2"),
        ("비밀번호: hunter2", "hunter2"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "SyA1234567890"),
        ("hf_abcdefghijKLMNOPqrstuvwxyzABCDEFGH", "KLMNOP"),
        ("glpat-abcDEF-12345_67890z", "12345"),
        ("xai-abcdefGHIJKL0123456789", "GHIJKL"),
        ("gsk_abcdefGHIJKL0123456789", "GHIJKL"),
        ("sk_live_abcdefGHIJKL0123", "GHIJKL"),
        ("ya29.a0AfH6SMBx-abc_DEF0123456789", "AfH6SMB"),
        ("github_pat_11ABCDEFG0abcdefghij_KLMNOP", "KLMNOP"),
        ("one\\nhf_abcdefghijKLMNOPqrstuvwxyz", "KLMNOP"),
        ("https://x/y?v=%20glpat-abcDEF-1234567890", "1234567890"),
        (PEM, "MIIEow"),
        (PEM.replace("\n", "\\n"), "IBAAK"),
        (PEM.replace("RSA ", "").partition("-----END")[0], "IBAAK"),
        (PEM.replace("RSA ", "ENCRYPTED "), "IBAAK"),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF==\n-----END PGP PRIVATE "
            "KEY BLOCK-----",
            "lQOY",
        ),
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
        "Passwort: nötig", "mot de passe oublié ?", "el remoto 17", "motor: mk2",
        "la parola del giorno", "desenha: mapa123", "Пароль не нужен: 12 минут",
        "飞船驶向空间站\uff0c不需要密码。", "\u200bzero\u200bwidth\u200d signs 12",
        "\U0001f468\u200d\U0001f680 flies to Sol-9", "the password 'isn't asked for",
        'boarding pass "Sol Line"', "passwords \"a b\"", "hf_hub", "xai-1", "gsk_9",
        "npm_config_registry", "ASIA-PACIFIC", "whsec_", "AIza", "ya29.", "sk_live_",
        "-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEAx0123\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIEowIBAAKCAQEAx0123\n-----END PUBLIC KEY-----",
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
    text = "a" * 50_000
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
        'password "',
        "mot de passe ",
        "密码是",
        "pass\u200bword: ",
        "-----BEGIN PRIVATE KEY-----a",
        "-----BEGIN PRIVATE KEY-----a-b",
        "token_",
        'password":"',
        'token\\":\\"',
        "password" + " " * 50,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """In time that grew with its square, such a text would take minutes."""
    known = KnownValues(f"{number:032x}" for number in range(50))
    with limit_work(PROCESSOR_SECONDS):
        masked = known.mask(mask_patterns(text * 10_000))
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
    named = ["Password", "api-key", "SESSION_ID", "new_token", "pass\u200bword"]
    named += ["Passwort", "mot de passe", "motDePasse", "contraseña", "senha", "пароль"]
    assert all(map(is_secret_name, named))
    harmless = ["tokens", "secret_base", "key", 5, "passage", "desenha", "\u200bkey"]
    assert not any(map(is_secret_name, harmless))


def test_names_with_signs_that_nobody_sees_are_found_in_json() -> None:
    text = json.dumps({"pass\u200bword": "a b", "n": 1})
    for written in (text, json.dumps(json.loads(text), ensure_ascii=False)):
        assert names_secret(written)
        assert json.loads(hide_secrets_offline(written)) == {
            "pass\u200bword": HIDDEN,
            "n": 1,
        }


def test_signs_that_nobody_sees_stay_where_they_keep_nothing_from_being_found() -> None:
    text = "\U0001f468\u200d\U0001f680 says: password: hunter2"
    assert mask_patterns(text) == text.replace("hunter2", HIDDEN)
