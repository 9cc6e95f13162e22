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
# What stands before the arguments: the id, which may hold colons, and the name.
_HEAD = re.compile(r'\s*([^\s|{}"\[\]]{1,200}):([A-Za-z_][\w.-]*)(?::|(?=\||$))')
# Where a record begins, seen from inside of arguments that are no JSON.
_NEXT = re.compile(r'\|(?=[^\s|{}"\[\]]{1,200}:[A-Za-z_][\w.-]*:\s*(?:\{|\||$))')
_ID = re.compile(r"[^\s:]{1,200}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call; ``arguments`` is its JSON text as it was kept."""

    id: str
    name: str
    arguments: str


def split_calls(text: str) -> list[Call]:
    """The calls in a kept text; what is no record is left out."""
    rest = text.removeprefix(PREFIX)
    found = []
    while rest.strip():
        call, rest = _first(rest)
        if call is not None:
            found.append(call)
    return found


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


def _first(rest: str) -> tuple[Call | None, str]:
    head = _HEAD.match(rest)
    if head is None:
        # Not a record at all: go on behind the next delimiter.
        return None, rest.partition("|")[2]
    start = head.end()
    end = _end_of_json(rest, start)
    if end is None:
        following = _NEXT.search(rest, start)
        end = following.start() if following else len(rest)
    arguments = rest[start:end].strip() or "{}"
    return Call(head[1], head[2], arguments), rest[end:].lstrip()[1:]


def _end_of_json(text: str, start: int) -> int | None:
    """Where the arguments end, if they are JSON and a record or nothing follows."""
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    try:
        _, end = _JSON.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    after = text[end:].lstrip()
    return end if not after or after[0] == "|" else None
