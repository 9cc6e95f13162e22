"""import_history: every format, nothing twice, nothing by halves, no secret."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command

from agents.history_import import Arrival
from agents.models import Mysis
from bench.processes import database_url
from memory.models import Memory
from memory.transfer import in_out
from memory.transfer.formats import open_history
from memory.transfer.line import TransferError, parse_moment
from tests.factories import make_call, make_memory, make_mysis
from tests.memory.transfer.nova_base import PASSWORD, make_base

pytestmark = pytest.mark.django_db

SAY = '{"text": "sell|buy: iron:{\\"a\\":1}|c9:mine:{}", "to": "Bob:1"}'
HISTORY = [
    ("system", "system", f"You fly. Account AdaPilot, password {PASSWORD}."),
    ("user", "direct", "Mine | sell: now"),
    ("assistant", "llm", f"[TOOL_CALLS]c1:say:{SAY}|functions.get_ship:0:get_ship:{{}}", "hm"),
    ("tool", "tool", 'functions.get_ship:0:{"ship": {"name": "a:b|c"}}'),
    ("tool", "tool", "c1:Error: nobody|there: x"),
    ("user", "broadcast", "All to Sol: now"),
    ("user", "system", "Turn complete. What is your next move?"),
    ("assistant", "llm", "Going.", None),
    ("assistant", "llm", '[TOOL_CALLS]c2:login:{"username": "AdaPilot", "password": "hunter2"}'),
    ("tool", "tool", 'c2:{"session_id": "0123456789abcdef0123"}'),
]  # fmt: skip


def run(path: Path, mysis: Mysis, **options: Any) -> str:
    out = StringIO()
    call_command("import_history", str(path), mysis=mysis.name, stdout=out, **options)
    return out.getvalue()


def refused(path: Path, mysis: Mysis, **options: Any) -> str:
    with pytest.raises(CommandError) as error:
        run(path, mysis, **options)
    assert error.value.returncode == 2
    assert "\n" not in str(error.value)
    return str(error.value)


def rows(mysis: Mysis) -> list[Memory]:
    return list(mysis.memories.order_by("pk"))


def test_a_zoea_nova_database(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    bobs = [("user", "direct", "Bob's own")]
    base = make_base(tmp_path / "zoea.db", {"Ada": HISTORY, "Bob": bobs})
    assert "10 messages imported into Ada" in run(base, ada)
    got = rows(ada)
    assert [(row.role, row.origin) for row in got] == [
        ("system", "prompt"),
        ("user", "human"),
        ("assistant", "agent"),
        ("tool", "tool"),
        ("tool", "tool"),
        ("user", "broadcast"),
        ("user", "nudge"),
        ("assistant", "agent"),
        ("assistant", "agent"),
        ("tool", "tool"),
    ]
    assert got[1].content == "Mine | sell: now"
    assert got[2].content == ""
    assert got[2].reasoning == "hm"
    assert got[2].tool_calls == [
        make_call("say", SAY, call_id="c1"),
        make_call("get_ship", call_id="functions.get_ship:0"),
    ]
    ship, said = got[3], got[4]
    assert (ship.tool_call_id, ship.tool_name) == ("functions.get_ship:0", "get_ship")
    assert json.loads(ship.content) == {"ship": {"name": "a:b|c"}}
    assert (said.tool_name, said.content) == ("say", "Error: nobody|there: x")
    assert (said.is_error, ship.is_error, said.args) == (True, False, json.loads(SAY))
    assert got[5].sender == "mysis:Ada"
    assert [row.created_at.isoformat() for row in got[:2]] == [
        "2026-02-05T01:00:00.123456+00:00",
        "2026-02-05T01:00:01.123456+00:00",
    ]


def test_what_is_no_call_of_an_answer_stays_what_it_said(tmp_path: Path) -> None:
    said = "[TOOL_CALLS]a note: x|c1:mine:{}|call 2:travel:{}"
    ada = make_mysis(name="Ada")
    run(make_base(tmp_path / "zoea.db", {"Ada": [("assistant", "llm", said)]}), ada)
    (row,) = rows(ada)
    assert row.content == "a note: x|call 2:travel:{}"
    assert [call["id"] for call in row.tool_calls] == ["c1"]


def test_passwords_and_sessions_stay_behind(tmp_path: Path) -> None:
    """A11, I27."""
    ada = make_mysis(name="Ada")
    run(make_base(tmp_path / "zoea.db", {"Ada": HISTORY}), ada)
    kept = json.dumps(list(ada.memories.values("content", "tool_calls", "args")))
    assert PASSWORD not in kept
    assert "0123456789abcdef" not in kept
    assert "AdaPilot" in kept


def test_which_mysis_of_a_database(tmp_path: Path) -> None:
    nova = make_mysis(name="Nova")
    one = make_base(tmp_path / "one.db", {"Ada": [("user", "direct", "of Ada")]})
    two = make_base(
        tmp_path / "two.db",
        {"Ada": [("user", "direct", "1")], "Bob": [("user", "direct", "of Bob")]},
    )
    assert "--from" in refused(two, nova)
    assert "Ada, Bob" in refused(two, nova, source="Eve")
    run(two, nova, source="bob")
    run(one, nova)
    assert [row.content for row in rows(nova)] == ["of Bob", "of Ada"]


def test_nothing_is_imported_twice(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    again = [("user", "direct", "again")] * 3
    base = make_base(tmp_path / "zoea.db", {"Ada": [*HISTORY, *again]})
    run(base, ada)
    before = [row.pk for row in rows(ada)]
    assert "0 messages imported into Ada, 13 were there" in run(base, ada)
    assert [row.pk for row in rows(ada)] == before


def test_an_import_that_was_broken_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_out, "BATCH", 3)
    ada = make_mysis(name="Ada")
    same = [("user", "direct", "go")] * 8
    base = make_base(tmp_path / "zoea.db", {"Ada": [*HISTORY, *same]})
    lines = list(open_history(base, name="Ada").read_lines())

    def broken() -> Any:
        yield from lines[:9]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_out.store_lines(ada.pk, broken(), hooks=Arrival(ada))
    partly = rows(ada)
    # A batch ends before a call, never between it and its results.
    assert 0 < len(partly) < 9
    assert partly[-1].role != "assistant" or not partly[-1].tool_calls
    run(base, ada)
    assert [row.content for row in rows(ada)] == [line.content for line in lines]


def test_a_file_that_has_grown_brings_what_is_new(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    path = tmp_path / "chat.jsonl"
    lines = [json.dumps({"role": "user", "content": text}) for text in ("a", "b", "a")]
    path.write_text("\n".join(lines[:2]))
    run(path, ada)
    path.write_text("\n".join(lines))
    assert "1 messages imported" in run(path, ada)
    assert [row.content for row in rows(ada)] == ["a", "b", "a"]


CHAT: list[dict[str, Any]] = [
    {"role": "developer", "content": "You fly."},
    {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url"}], "name": "ann"},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
        make_call("get_ship", '{"a": 1}', call_id="x")]},
    {"role": "tool", "tool_call_id": "x", "content": "{}\u2028|"},
    {"role": "assistant", "content": None, "function_call": {"name": "mine", "arguments": "{}"}},
    {"role": "function", "name": "mine", "content": "done"},
    {"role": "assistant", "content": None, "refusal": "No."},
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CHAT),
        json.dumps({"messages": CHAT, "model": "x"}),
        json.dumps({"messages": CHAT}, indent=2),
        "\n".join(json.dumps(line, ensure_ascii=False) for line in CHAT) + "\n\n",
        "\ufeff" + json.dumps(CHAT),
        json.dumps({"messages": CHAT[:4]}) + "\n" + json.dumps({"messages": CHAT[4:]}),
    ],
)
def test_chats_in_openai_s_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(text, encoding="utf-8")
    ada = make_mysis(name="Ada")
    run(path, ada)
    got = rows(ada)
    assert [row.role for row in got] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert (got[1].content, got[1].sender) == ("Look\n[image_url, not imported]", "ann")
    assert got[2].reasoning == "hm"
    assert (got[3].tool_name, got[3].args) == ("get_ship", {"a": 1})
    assert got[3].content == "{}\u2028|"
    assert got[5].tool_call_id == got[4].tool_calls[0]["id"]
    assert (got[5].tool_name, got[6].content) == ("mine", "No.")
    assert "0 messages imported" in run(path, ada)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"[]", "holds no message"),
        (b"hello", "not JSON"),
        (b'{"role": "user"}\n{"role": "king"}', "line 2: role 'king' is not one of"),
        (b'{"role": "user"}\n{', "line 2: not JSON"),
        (b'[{"role": "user"}, 3]', "message 2: a message must be"),
        (b'[{"role": "user", "content": 3}]', "content must be a text"),
        (b'[{"role": "assistant", "tool_calls": [{}]}]', "function with a name"),
        (b'[{"role": "user", "origin": "x"}]', "origin 'x' is not one of"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"SQLite format 3\x00 broken", "cannot be read as SQLite"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_bad_files_are_one_line_and_store_nothing(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    ada = make_mysis(name="Ada")
    assert says in refused(path, ada)
    assert not Memory.objects.exists()


def test_other_things_that_cannot_be(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada", state="running")
    path = tmp_path / "x.jsonl"
    path.write_text('{"role": "user", "content": "go"}')
    assert "stop it first" in refused(path, ada)
    assert "No such file" in refused(tmp_path / "none", make_mysis())
    with pytest.raises(CommandError, match="no Mysis 'Nobody'"):
        call_command("import_history", str(path), mysis="Nobody")
    assert "--from" in refused(path, make_mysis(), source="Ada")


def test_odd_characters_become_storable(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('[{"role": "user", "content": "a\\u0000b\\ud800c"}]')
    ada = make_mysis(name="Ada")
    run(path, ada)
    assert rows(ada)[0].content == "ab\ufffdc"


def test_two_imports_at_once_are_refused(
    transactional_db: None, tmp_path: Path
) -> None:
    ada = make_mysis(name="Ada")
    with psycopg.connect(database_url()) as other:
        other.execute(in_out.LOCK.encode(), [ada.pk])
        with pytest.raises(TransferError, match="another import"):
            in_out.store_lines(ada.pk, [])
        other.execute(in_out.UNLOCK.encode(), [ada.pk])
        in_out.store_lines(ada.pk, [])


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-02-05 00:00:00 +0000 UTC", "2026-02-05T00:00:00+00:00"),
        ("2026-02-05 01:02:03.123456789 +0100 CET m=+0.1", "2026-02-05T01:02:03.123456+01:00"),
        ("2026-02-05T01:02:03Z", "2026-02-05T01:02:03+00:00"),
        ("2026-02-05 01:02:03.5", "2026-02-05T01:02:03.500000+00:00"),
        (1770249600, "2026-02-05T00:00:00+00:00"),
        ("yesterday", None),
        ("2026-13-45 00:00:00", None),
        (10**30, None),
        (True, None),
    ],
)  # fmt: skip
def test_moments(text: object, iso: str | None) -> None:
    found = parse_moment(text)
    assert (found.isoformat() if found else None) == iso


def test_the_log_of_others_is_left_alone(tmp_path: Path) -> None:
    bob = make_mysis(name="Bob")
    make_memory(bob, content="go")
    ada = make_mysis(name="Ada")
    path = tmp_path / "x.jsonl"
    path.write_text('{"role": "user", "content": "go"}')
    run(path, ada)
    assert [row.content for row in rows(ada)] == ["go"]
    assert bob.memories.count() == 1
