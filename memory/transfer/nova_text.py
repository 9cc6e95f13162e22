"""The texts in which the original program kept tool calls and their results.

Calls are ``[TOOL_CALLS]id:name:args`` joined by ``|``, a result is ``id:text``. The
arguments are JSON and may hold both signs, and so may ids: nothing is split blindly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

PREFIX = "[TOOL_CALLS]"
LONGEST_ID = 200

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
class Call:
    """One call; ``arguments`` is its JSON text as it was kept."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Kept:
    """The calls of a kept text, and what of it is no call, letter for letter."""

    calls: tuple[Call, ...]
    rest: str


def split_calls(text: str) -> Kept:
    """The calls in a kept text, and all of it that is none."""
    rest = text.removeprefix(PREFIX)
    calls, others = [], []
    while rest.strip():
        found, rest = _first(rest)
        if isinstance(found, Call):
            calls.append(found)
        elif found.strip():
            others.append(found)
    return Kept(tuple(calls), "|".join(others))


def split_result(text: str, ids: Collection[str]) -> tuple[str, str]:
    """The id and the text of a kept result.

    ``ids`` are those of calls that were made; of several that fit the longest is
    meant. An unknown id ends at the first colon.
    """
    known = [each for each in ids if text.startswith(f"{each}:")]
    if known:
        call_id = max(known, key=len)
        return call_id, text[len(call_id) + 1 :]
    head, colon, body = text.partition(":")
    if colon and _ID.fullmatch(head):
        return head, body
    return "", text


def _first(rest: str) -> tuple[Call | str, str]:
    """The first record, or what stands in its place; and what follows its delimiter."""
    head = _HEAD.match(rest)
    end = _end_of_json(rest, head.end()) if head else None
    if head is None or end is None:
        head = _BROKEN_HEAD.match(rest)
        end = _end_of_broken(rest, head.end()) if head else _end_of_other(rest)
    what: Call | str = rest[:end]
    if head is not None:
        what = Call(head[1], head[2], rest[head.end() : end].strip() or "{}")
    return what, rest[end:].lstrip()[1:]


def _end_of_broken(text: str, start: int) -> int:
    following = _NEXT.search(text, start)
    return following.start() if following else len(text)


def _end_of_other(text: str) -> int:
    """Where what is no record ends: at a delimiter that is not inside of its JSON."""
    end = text.find("|")
    brace = text.find("{", 0, end if end >= 0 else None)
    if brace >= 0:
        end = next(filter(None, [_end_of_json(text, brace)]), end)
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
