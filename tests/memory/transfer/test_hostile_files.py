"""Histories made to do harm: each is one line that says why, after a bounded effort."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from django.core.management import CommandError, call_command

from memory.models import Memory
from memory.transfer import formats, line, nova
from memory.transfer.line import parse_moment
from memory.transfer.nova import PREFIX, split_calls
from tests.factories import make_mysis
from tests.memory.transfer.nova_base import make_base

MILLION = 1_000_000
ROWS = [("user", "direct", f"order {n}") for n in range(5)]


# --- Long texts: each of these took hours where time grew with the square of the length


def test_other_long_values_are_read_in_time() -> None:
    assert parse_moment("2026-02-05 01:00:00" + " " * MILLION + "!") is None
    calls, rest = split_calls(PREFIX + "|".join(["x" * 1000] * 1000))
    assert (calls, len(rest)) == ([], 1_000_999)
    name = "a:" * (MILLION // 2)
    assert split_calls(f"{PREFIX}{name}|c2:mine:{{}}")[0][-1].name == "mine"


@pytest.mark.django_db
def test_a_line_of_a_megabyte_is_imported(tmp_path: Path) -> None:
    ada = make_mysis(name="Ada")
    text = "iron, copper " * (MILLION // 13) + ' {"password": "hunter2"}'
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"role": "assistant", "content": text}))
    call_command("import_history", str(file), mysis="Ada")
    stored = Memory.objects.get(mysis=ada).content
    assert len(stored) > MILLION - 13
    assert "hunter2" not in stored


# --- Databases


def refusal(path: Path) -> str:
    """The line with which an import is refused; nothing is stored."""
    make_mysis(name="Ada")
    with pytest.raises(CommandError) as caught:
        call_command("import_history", str(path), mysis="Ada")
    assert not Memory.objects.exists()
    [text] = str(caught.value).splitlines()
    return text.removeprefix(f"{path}: ")


def change(path: Path, script: str) -> Path:
    """A sound database, then changed."""
    make_base(path, {"Ada": ROWS})
    with sqlite3.connect(path) as base:
        base.executescript(script)
    base.close()
    return path


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "script",
    [
        f"DROP TABLE memories; CREATE VIEW memories AS {ENDLESS} x AS id, 'm0' AS "
        "mysis_id, 'user' AS role, 'direct' AS source, '' AS sender_id, "
        "printf('%d', x) AS content, '' AS reasoning, '' AS created_at FROM n;",
        "DROP TABLE memories; CREATE VIRTUAL TABLE memories USING fts5(id, mysis_id, "
        "role, source, sender_id, content, reasoning, created_at);",
        "ALTER TABLE memories ADD COLUMN more TEXT AS (hex(zeroblob(id * 1000000)));",
        "DROP TABLE accounts; CREATE VIEW accounts AS SELECT name AS username, "
        "'x' AS password FROM myses;",
        "DROP TABLE game_state_snapshots; CREATE VIEW game_state_snapshots AS SELECT 1;",
    ],
    ids=["endless view", "virtual", "computed", "view of accounts", "view of states"],
)
def test_only_plain_tables_are_read(tmp_path: Path, script: str) -> None:
    said = refusal(change(tmp_path / "zoea.db", script))
    assert said.endswith("is no plain table: nothing else is read")


@pytest.mark.django_db
def test_triggers_and_other_tables_do_nothing(tmp_path: Path) -> None:
    view = f"CREATE VIEW other AS {ENDLESS} x FROM n;"
    trigger = "CREATE TRIGGER t AFTER INSERT ON memories BEGIN DELETE FROM myses; END;"
    path = change(tmp_path / "zoea.db", view + trigger)
    make_mysis(name="Ada")
    before = path.read_bytes()
    call_command("import_history", str(path), mysis="Ada")
    assert Memory.objects.count() == len(ROWS)
    assert path.read_bytes() == before


def test_a_statement_may_read_known_tables_and_nothing_else(tmp_path: Path) -> None:
    base = nova.NovaDatabase(make_base(tmp_path / "zoea.db", {"Ada": ROWS}))
    for statement in (
        "SELECT randomblob(9)",
        "SELECT * FROM sqlite_sequence",
        "DELETE FROM memories",
        "ATTACH ':memory:' AS other",
        "PRAGMA writable_schema = ON",
    ):
        with pytest.raises(line.TransferError, match=r"not authorized|prohibited"):
            list(base._ask(statement))
    assert list(base._base.execute("SELECT name FROM myses")) == [("Ada",)]
    base.close()


MANY_ROWS = """
CREATE TABLE n AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n
  LIMIT 40) SELECT x, printf('%.400c', 'x') AS text FROM n;
INSERT INTO memories (mysis_id, role, source, content, created_at)
  SELECT 'm0', 'user', 'direct', text, '' FROM n;
INSERT INTO myses SELECT 'k' || x, text, '', '', 0, '', '' FROM n;
"""


def repeat_first_leaf(path: Path, table: str, times: int) -> None:
    """Let the root of a table's tree name its first leaf again and again."""
    with closing(sqlite3.connect(path)) as base:
        [size] = base.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        [root] = base.execute(query, [table]).fetchone()
    data = bytearray(path.read_bytes())
    page = (root - 1) * size
    assert data[page] == 5, "the root is no inner page"
    [first] = struct.unpack_from(">H", data, page + 12)
    leaf = data[page + first : page + first + 4]
    cells = [size - 5 * (number + 1) for number in range(times)]
    struct.pack_into(">BHHHB4s", data, page, 5, 0, times, cells[-1], 0, leaf)
    for number, cell in enumerate(cells):
        struct.pack_into(">H", data, page + 12 + 2 * number, cell)
        data[page + cell : page + cell + 5] = leaf + b"\x01"
    path.write_bytes(data)


@pytest.mark.django_db
@pytest.mark.parametrize("table", ["memories", "myses"])
def test_a_page_that_is_named_many_times_is_not_read_so_often(
    tmp_path: Path, table: str
) -> None:
    path = change(tmp_path / "zoea.db", MANY_ROWS)
    repeat_first_leaf(path, table, times=500)
    assert f"{table} holds more than the file is large" in refusal(path)


@pytest.mark.django_db
def test_what_defines_the_tables_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nova, "_STEPS_AT_ONCE", 10)
    tables = "".join(f"CREATE TABLE t{number} (x);" for number in range(100))
    path = change(tmp_path / "zoea.db", tables)
    monkeypatch.setattr(nova, "MOST_SCHEMA_STEPS", 100)
    assert "takes more than 100 steps to read" in refusal(path)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MOST_STEPS", 0, "takes more than 0 steps to read"),
        ("LONGEST_TEXT", 1_000, "too big"),
        ("MOST_ROWS", nova.MOST_ROWS | {"memories": 4}, "memories has more than 4"),
        ("MOST_ROWS", nova.MOST_ROWS | {"myses": 0}, "myses has more than 0 rows"),
    ],
)
def test_a_database_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object, said: str
) -> None:
    monkeypatch.setattr(nova, name, value)
    monkeypatch.setattr(nova, "_STEPS_AT_ONCE", 10)
    path = make_base(
        tmp_path / "zoea.db", {"Ada": [*ROWS, ("user", "direct", "x" * 2000)]}
    )
    assert said in refusal(path)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LONGEST_LINE", 60, "line 2: longer than 60 bytes"),
        ("MOST_LINES", 2, "has more than 2 lines"),
    ],
)
def test_a_file_of_lines_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int, said: str
) -> None:
    monkeypatch.setattr(formats, name, value)
    file = tmp_path / "chat.jsonl"
    texts = ("one", "two" * 20, "three")
    file.write_text(
        "\n".join(json.dumps({"role": "user", "content": text}) for text in texts)
    )
    assert said in refusal(file)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("before", "place"), [("", ""), ('{"role": "user", "content": "a"}\n', "line 2: ")]
)
def test_a_chat_has_so_many_messages_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, place: str
) -> None:
    monkeypatch.setattr(formats, "MOST_LINES", 2)
    file = tmp_path / "chat"
    file.write_text(before + json.dumps([{"role": "user", "content": "b"}] * 3))
    assert refusal(file) == f"{place}has more than 2 messages: split it"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "before", "after", "place"),
    [
        ("chat.json", b"[", b"{}]", "the file"),
        ("chat.jsonl", b'{"role": "user", "content": "a"}\n[', b"{}]", "line 2"),
    ],
)
def test_json_is_parsed_up_to_a_bound(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    before: bytes,
    after: bytes,
    place: str,
) -> None:
    """Short as they are written, parsed they would take a hundred times as much."""
    bounds = replace(formats.BOUNDS, containers=30_000)
    monkeypatch.setattr(formats, "BOUNDS", bounds)
    file = tmp_path / name
    file.write_bytes(before + b"{}," * 30_000 + after)
    said = f"{place}: holds more than 30,000 lists and objects: split it"
    assert refusal(file) == said


@pytest.mark.django_db
def test_a_file_without_room_in_memory_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text("[\n")
    os.truncate(file, formats.LARGEST_DOCUMENT)
    used = psutil.Process().memory_info().vms
    _, most = limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + formats.LARGEST_DOCUMENT // 2, most))
    try:
        said = refusal(file)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert said == "too large for the memory of this machine"


@pytest.mark.django_db
def test_a_message_has_so_many_calls_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nova, "MOST_CALLS", 2)
    calls = PREFIX + "|".join(f"c{n}:mine:{{}}" for n in range(3))
    path = make_base(tmp_path / "zoea.db", {"Ada": [("assistant", "direct", calls)]})
    assert "more than 2 calls" in refusal(path)
