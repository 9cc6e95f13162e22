"""The database of the original program, Zoea Nova (SQLite), one Mysis of it at a time.

It kept tool calls as ``[TOOL_CALLS]id:name:args`` joined by ``|``, and a result as
``id:text``. The arguments are JSON and may hold both signs, and so may ids: nothing is
split blindly.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from memory.context.types import ROLES
from memory.gamestate.values import repair_text
from memory.transfer.line import (
    TransferError,
    TransferMessage,
    find_default_origin,
    make_call,
    parse_moment,
    parse_object,
    parse_tick,
)

PREFIX = "[TOOL_CALLS]"
LONGEST_ID = 200
MAGIC = b"SQLite format 3\x00"
# The program first called them agents.
TABLES = (("myses", "mysis_id"), ("agents", "agent_id"))
ORIGINS = {
    ("user", "direct"): "human",
    ("user", "broadcast"): "broadcast",
    ("user", "system"): "nudge",
    ("system", "system"): "prompt",
}
# So many calls are remembered for results that come late.
REMEMBERED = 500
# The file may be anybody's. What it may hold, by table: the rows of one Mysis in the
# first.
MOST_ROWS = {
    "memories": 1_000_000,
    "game_state_snapshots": 100_000,
    "accounts": 10_000,
    "myses": 10_000,
    "agents": 10_000,
}
# Bytes of a text or row, calls of a message, and steps of SQLite's machine, of which a
# row takes some ten.
LONGEST_TEXT = 16 * 1024 * 1024
MOST_CALLS = 1_000
MOST_STEPS = 500_000_000
# The same for what defines the tables, of which the program had a handful.
MOST_SCHEMA_STEPS = 100_000
_STEPS_AT_ONCE = 10_000
# Bytes that a row takes of the file beside its texts.
SMALLEST_ROW = 4
# What reading plain tables asks of SQLite.
_PRAGMAS = frozenset({"table_list", "table_xinfo", "trusted_schema"})
_READABLE = frozenset(MOST_ROWS) | {"sqlite_master"}


@dataclass(frozen=True, slots=True)
class NovaAccount:
    """A game account as that program stored it, with its password in clear."""

    username: str
    password: str = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True)
class NovaSnapshot:
    """An answer of a state tool as that program stored it."""

    username: str
    tool: str
    content: str
    tick: int | None
    captured_at: datetime


class NovaDatabase:
    """An open database of the original program."""

    def __init__(self, path: Path) -> None:
        self._steps_left = self._most_steps = MOST_SCHEMA_STEPS
        self._size = _measure(path)
        self._base = self._open(path)
        self._steps_left = self._most_steps = MOST_STEPS
        try:
            tables = self._read_columns()
            known = [each for each in TABLES if each[0] in tables]
            if not known or "memories" not in tables:
                raise TransferError("is an SQLite database, but not one of Zoea Nova")
        except TransferError:
            self.close()
            raise
        self._owners, self._owner = known[0]
        self._columns = tables["memories"]
        self._tables = tables

    def close(self) -> None:
        self._base.close()

    def _open(self, path: Path) -> sqlite3.Connection:
        # A log of pending writes beside the file can be read only where it may be
        # written; then what the file itself holds has to do.
        address = path.resolve().as_uri()
        for options in ("mode=ro", "mode=ro&immutable=1"):
            base = sqlite3.connect(f"{address}?{options}", uri=True)
            base.text_factory = lambda raw: raw.decode("utf-8", "replace")
            base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)
            # Before anything is read: the first statement reads all that defines tables.
            base.set_authorizer(_authorize)
            base.set_progress_handler(self._count_steps, _STEPS_AT_ONCE)
            try:
                # Functions in what the file defines are not to be trusted.
                base.execute("PRAGMA trusted_schema = OFF")
                base.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            except sqlite3.Error as error:
                base.close()
                failure = error
            else:
                return base
        raise self._explain(failure) from None

    def _read_columns(self) -> dict[str, set[str]]:
        """The columns of the tables that are known; raises TransferError for others.

        A view, a virtual table or a computed column is a program of whoever made the
        file, which would run when it is read.
        """
        found: dict[str, set[str]] = {}
        for _, name, kind, *_ in self._ask("PRAGMA table_list"):
            table = str(name)
            if table not in MOST_ROWS:
                continue
            plain = kind == "table"
            columns = list(self._ask(f"PRAGMA table_xinfo({table})")) if plain else []
            if not plain or any(hidden for *_, hidden in columns):
                raise TransferError(f"{table} is no plain table: nothing else is read")
            found[table] = {str(column[1]) for column in columns}
        return found

    def _count_steps(self) -> bool:
        """Called by SQLite; true ends the statement."""
        self._steps_left -= _STEPS_AT_ONCE
        return self._steps_left < 0

    def read_names(self) -> dict[str, str]:
        """The names of its Myses by their ids."""
        query = f"SELECT id, name, created_at FROM {self._owners}"  # noqa: S608 (one of two known names)
        # Not by SQLite, which would sort all that there is before the first is counted.
        rows = sorted(self._ask_rows(self._owners, query), key=lambda row: str(row[2]))
        return {str(row[0]): str(row[1]) for row in rows}

    def read_passwords(self) -> frozenset[str]:
        """The passwords of its game accounts, which must not come along."""
        return frozenset(each.password for each in self.read_accounts()) - {""}

    def read_accounts(self) -> list[NovaAccount]:
        """Its game accounts; ``owner`` is a Mysis's id or name there, or empty."""
        if "accounts" not in self._tables:
            return []
        owner = "assigned_to" if "assigned_to" in self._tables["accounts"] else "NULL"
        query = f"SELECT username, password, {owner} FROM accounts"  # noqa: S608
        rows = self._ask_rows("accounts", query)
        return [
            NovaAccount(*(repair_text(str(value or "")) for value in row))
            for row in rows
        ]

    def read_snapshots(self) -> Iterator[NovaSnapshot]:
        """Its game states, the oldest first; those without a name are left out."""
        if "game_state_snapshots" not in self._tables:
            return
        rows = self._ask_rows(
            "game_state_snapshots",
            "SELECT username, tool_name, content, game_tick, captured_at "
            "FROM game_state_snapshots ORDER BY rowid",
        )
        for username, tool, content, tick, captured in rows:
            at = parse_moment(captured)
            names = repair_text(str(username or "")), repair_text(str(tool or ""))
            if all(names) and at is not None:
                text = repair_text(str(content or ""))
                yield NovaSnapshot(*names, text, parse_tick(tick), at)

    def read_lines(self, owner: str) -> Iterator[TransferMessage]:
        """The messages of one Mysis, in the order in which they were written."""
        wanted = ("role", "content", "created_at", "source", "sender_id", "reasoning")
        columns = ", ".join(
            name if name in self._columns else "NULL" for name in wanted
        )
        query = f"SELECT {columns} FROM memories WHERE {self._owner} = ? ORDER BY rowid"  # noqa: S608
        log = _Log(self.read_names())
        for row in self._ask_rows("memories", query, [owner]):
            yield log.read_line(["" if value is None else value for value in row])

    def _ask(
        self, query: str, values: Sequence[object] = ()
    ) -> Iterator[tuple[object, ...]]:
        try:
            with closing(self._base.execute(query, tuple(values))) as cursor:
                yield from cursor
        except sqlite3.Error as error:
            raise self._explain(error) from error

    def _explain(self, error: sqlite3.Error) -> TransferError:
        if self._steps_left < 0:
            return TransferError(
                f"takes more than {self._most_steps:,} steps to read: it is damaged, or "
                "made to take long"
            )
        return TransferError(f"cannot be read as SQLite: {error}")

    def _ask_rows(
        self, table: str, query: str, values: Sequence[object] = ()
    ) -> Iterator[tuple[object, ...]]:
        """The rows of a query; raises TransferError where they are too many or too large.

        Pages that are named more than once hold more than the file has bytes.
        """
        most, left = MOST_ROWS[table], self._size
        for number, row in enumerate(self._ask(query, values)):
            if number == most:
                raise TransferError(f"{table} has more than {most:,} rows to import")
            left -= SMALLEST_ROW + sum(
                len(value) for value in row if isinstance(value, str | bytes)
            )
            if left < 0:
                raise TransferError(
                    f"{table} holds more than the file is large: it is damaged, or made "
                    "to take much memory"
                )
            yield row


def _authorize(
    action: int, what: str | None, detail: str | None, base: str | None, by: str | None
) -> int:
    """What SQLite may do for a statement: read known tables, not by a view or trigger."""
    allowed = {
        sqlite3.SQLITE_SELECT: True,
        sqlite3.SQLITE_READ: what in _READABLE and by is None,
        sqlite3.SQLITE_PRAGMA: what in _PRAGMAS,
    }
    return sqlite3.SQLITE_OK if allowed.get(action) else sqlite3.SQLITE_DENY


def _measure(path: Path) -> int:
    """The bytes of a database, with those of a log of pending writes beside it."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.is_file() else 0)


class _Log:
    """Reads rows in their order; results find the call that they belong to."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._calls: dict[str, tuple[str, str]] = {}

    def read_line(self, row: Sequence[object]) -> TransferMessage:
        role, content, made, source, sender, reasoning = row
        role, content = str(role), repair_text(str(content))
        if role not in ROLES:
            raise TransferError(f"role {role!r} is not one of {', '.join(ROLES)}")
        if role == "tool":
            return self._read_result(content, made)
        calls: list[dict[str, object]] = []
        if role == "assistant" and content.startswith(PREFIX):
            calls, content = self._read_calls(content)
        name = self._names.get(str(sender))
        return TransferMessage(
            role=role,
            origin=ORIGINS.get((role, str(source)), find_default_origin(role)),
            content=content,
            sender=f"mysis:{name}" if name else repair_text(str(sender))[:LONGEST_ID],
            reasoning=repair_text(str(reasoning)),
            tool_calls=calls,
            created_at=parse_moment(made),
        )

    def _read_calls(self, content: str) -> tuple[list[dict[str, object]], str]:
        calls, rest = split_calls(content)
        for call in calls:
            self._calls.pop(call.id, None)
            self._calls[call.id] = (call.name, call.arguments)
        while len(self._calls) > REMEMBERED:
            del self._calls[next(iter(self._calls))]
        return [make_call(each.id, each.name, each.arguments) for each in calls], rest

    def _read_result(self, content: str, made: object) -> TransferMessage:
        call_id, text = split_result(content, self._calls)
        name, arguments = self._calls.get(call_id, ("", "{}"))
        return TransferMessage(
            role="tool",
            origin="tool",
            content=text,
            tool_call_id=call_id[:LONGEST_ID],
            tool_name=name[:LONGEST_ID],
            args=parse_object(arguments),
            is_error=text.lstrip()[:5].lower() == "error",
            created_at=parse_moment(made),
        )


# --- Calls and results as texts

_JSON = json.JSONDecoder()
_ID_SIGN = r'[^\s|{}"\[\]]'
_NAME = r"[A-Za-z_][\w.-]{0,199}"
# What stands before arguments that are JSON: the id, which may hold colons, and the name.
_HEAD = re.compile(rf"\s*({_ID_SIGN}{{1,200}}):({_NAME}):(?=\s*\{{)")
# Before arguments that are no JSON, or none: they may hold colons as well as an id may,
# so the id is the shortest that leaves a name.
_BROKEN_HEAD = re.compile(rf"\s*({_ID_SIGN}{{1,200}}?):({_NAME})(?::|(?=\||$))")
# Where a record begins, seen from inside of arguments that are no JSON.
_NEXT = re.compile(rf"\|(?={_ID_SIGN}{{1,200}}:{_NAME}:\s*(?:\{{|\||$))")
_SOMETHING = re.compile(r"\S")
_ID = re.compile(r"[^\s:]{1,200}")


@dataclass(frozen=True, slots=True)
class NovaCall:
    """One call; ``arguments`` is its JSON text as it was stored."""

    id: str
    name: str
    arguments: str


def split_calls(text: str) -> tuple[list[NovaCall], str]:
    """The calls of a text, and what of it is no call, letter for letter.

    Raises TransferError for too many of them.
    """
    at = len(PREFIX) if text.startswith(PREFIX) else 0
    calls: list[NovaCall] = []
    others: list[str] = []
    while _skip_space(text, at) < len(text):
        if len(calls) + len(others) == MOST_CALLS:
            raise TransferError(f"a message has more than {MOST_CALLS:,} calls")
        found, at = _split_first(text, at)
        if isinstance(found, NovaCall):
            calls.append(found)
        elif found.strip():
            others.append(found)
    return calls, "|".join(others)


def split_result(text: str, ids: Collection[str]) -> tuple[str, str]:
    """The id and the text of a result.

    ``ids`` are those of calls that were made; of several that fit the longest is meant.
    An unknown id ends at the first colon.
    """
    known = [each for each in ids if text.startswith(f"{each}:")]
    if known:
        call_id = max(known, key=len)
        return call_id, text[len(call_id) + 1 :]
    head, colon, body = text.partition(":")
    if colon and _ID.fullmatch(head):
        return head, body
    return "", text


def _split_first(text: str, start: int) -> tuple[NovaCall | str, int]:
    """The first record from ``start`` on, or the text in its place; where the next is."""
    head = _HEAD.match(text, start)
    end = _end_of_json(text, head.end()) if head else None
    if head is None or end is None:
        head = _BROKEN_HEAD.match(text, start)
        end = _end_of_other(text, start)
        if head is not None:
            following = _NEXT.search(text, head.end())
            end = following.start() if following else len(text)
    what: NovaCall | str = text[start:end]
    if head is not None:
        what = NovaCall(head[1], head[2], text[head.end() : end].strip() or "{}")
    return what, min(len(text), _skip_space(text, end) + 1)


def _end_of_other(text: str, start: int) -> int:
    """Where what is no record ends: at a delimiter that is not inside of its JSON."""
    end = text.find("|", start)
    brace = text.find("{", start, end if end >= 0 else None)
    if brace >= 0:
        end = _end_of_json(text, brace) or end
    return end if end >= 0 else len(text)


def _end_of_json(text: str, start: int) -> int | None:
    """Where the arguments end, if they are JSON and a record or nothing follows."""
    try:
        _, end = _JSON.raw_decode(text, _skip_space(text, start))
    except (ValueError, RecursionError):
        return None
    after = _skip_space(text, end)
    return end if after == len(text) or text[after] == "|" else None


def _skip_space(text: str, start: int) -> int:
    """Where something else than white space is, or the text ends."""
    found = _SOMETHING.search(text, start)
    return found.start() if found else len(text)
