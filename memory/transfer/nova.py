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
        self._base = _open(path)
        tables = {row[0] for row in self._ask("SELECT name FROM sqlite_master")}
        known = [each for each in TABLES if each[0] in tables]
        if not known or "memories" not in tables:
            self.close()
            raise TransferError("is an SQLite database, but not one of Zoea Nova")
        self._owners, self._owner = known[0]
        self._columns = {row[1] for row in self._ask("PRAGMA table_info(memories)")}
        self._tables = tables

    def close(self) -> None:
        self._base.close()

    def read_names(self) -> dict[str, str]:
        """The names of its Myses by their ids."""
        rows = self._ask(f"SELECT id, name FROM {self._owners} ORDER BY created_at")  # noqa: S608 (one of two known names)
        return {str(row[0]): str(row[1]) for row in rows}

    def read_passwords(self) -> frozenset[str]:
        """The passwords of its game accounts, which must not come along."""
        return frozenset(each.password for each in self.read_accounts()) - {""}

    def read_accounts(self) -> list[NovaAccount]:
        """Its game accounts; ``owner`` is a Mysis's id or name there, or empty."""
        if "accounts" not in self._tables:
            return []
        known = {row[1] for row in self._ask("PRAGMA table_info(accounts)")}
        owner = "assigned_to" if "assigned_to" in known else "NULL"
        rows = self._ask(f"SELECT username, password, {owner} FROM accounts")  # noqa: S608
        return [
            NovaAccount(*(repair_text(str(value or "")) for value in row))
            for row in rows
        ]

    def read_snapshots(self) -> Iterator[NovaSnapshot]:
        """Its game states, the oldest first; those without a name are left out."""
        if "game_state_snapshots" not in self._tables:
            return
        rows = self._ask(
            "SELECT username, tool_name, content, game_tick, captured_at "
            "FROM game_state_snapshots ORDER BY id"
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
        query = f"SELECT {columns} FROM memories WHERE {self._owner} = ? ORDER BY id"  # noqa: S608
        log = _Log(self.read_names())
        for row in self._ask(query, [owner]):
            yield log.read_line(["" if value is None else value for value in row])

    def _ask(
        self, query: str, values: Sequence[object] = ()
    ) -> Iterator[tuple[object, ...]]:
        try:
            with closing(self._base.execute(query, tuple(values))) as cursor:
                yield from cursor
        except sqlite3.Error as error:
            raise TransferError(f"cannot be read as SQLite: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    # A log of pending writes beside the file can be read only where it may be
    # written; then what the file itself holds has to do.
    address = path.resolve().as_uri()
    for options in ("mode=ro", "mode=ro&immutable=1"):
        base = sqlite3.connect(f"{address}?{options}", uri=True)
        base.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            base.close()
            failure = error
        else:
            return base
    raise TransferError(f"cannot be read as SQLite: {failure}")


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
_NAME = r"[A-Za-z_][\w.-]*"
# What stands before arguments that are JSON: the id, which may hold colons, and the name.
_HEAD = re.compile(rf"\s*({_ID_SIGN}{{1,200}}):({_NAME}):(?=\s*\{{)")
# Before arguments that are no JSON, or none: they may hold colons as well as an id may,
# so the id is the shortest that leaves a name.
_BROKEN_HEAD = re.compile(rf"\s*({_ID_SIGN}{{1,200}}?):({_NAME})(?::|(?=\||$))")
# Where a record begins, seen from inside of arguments that are no JSON.
_NEXT = re.compile(rf"\|(?={_ID_SIGN}{{1,200}}:{_NAME}:\s*(?:\{{|\||$))")
_ID = re.compile(r"[^\s:]{1,200}")


@dataclass(frozen=True, slots=True)
class NovaCall:
    """One call; ``arguments`` is its JSON text as it was stored."""

    id: str
    name: str
    arguments: str


def split_calls(text: str) -> tuple[list[NovaCall], str]:
    """The calls of a text, and what of it is no call, letter for letter."""
    rest = text.removeprefix(PREFIX)
    calls: list[NovaCall] = []
    others: list[str] = []
    while rest.strip():
        found, rest = _split_first(rest)
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


def _split_first(rest: str) -> tuple[NovaCall | str, str]:
    """The first record, or the text in its place; and what follows its delimiter."""
    head = _HEAD.match(rest)
    end = _end_of_json(rest, head.end()) if head else None
    if head is None or end is None:
        head = _BROKEN_HEAD.match(rest)
        end = _end_of_other(rest)
        if head is not None:
            following = _NEXT.search(rest, head.end())
            end = following.start() if following else len(rest)
    what: NovaCall | str = rest[:end]
    if head is not None:
        what = NovaCall(head[1], head[2], rest[head.end() : end].strip() or "{}")
    return what, rest[end:].lstrip()[1:]


def _end_of_other(text: str) -> int:
    """Where what is no record ends: at a delimiter that is not inside of its JSON."""
    end = text.find("|")
    brace = text.find("{", 0, end if end >= 0 else None)
    if brace >= 0:
        end = _end_of_json(text, brace) or end
    return end if end >= 0 else len(text)


def _end_of_json(text: str, start: int) -> int | None:
    """Where the arguments end, if they are JSON and a record or nothing follows."""
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    try:
        _, end = _JSON.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    after = text[end:].lstrip()
    return end if not after or after[0] == "|" else None
