"""The handle ``state://<tool>``: a snapshot in full, without a call of the game.

``state://get_map?system_id=sol`` names the arguments of the call; without any it is
the call that had none, else the newest. ``#raw`` asks for the answer as it came,
before events were merged into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from memory.gamestate.extract import args_key
from memory.gamestate.text import line
from memory.gamestate.types import Snapshot

SCHEME = "state://"
RAW = "#raw"
LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Handle:
    """A read handle; ``args`` are texts by name, or JSON where it was given so."""

    tool: str
    args: dict[str, object]
    raw: bool = False


def read_handle(handle: str) -> Handle:
    """What a handle names. Raises ValueError with the right form."""
    body = handle.strip()
    if not body.startswith(SCHEME) or len(body) > LONGEST:
        raise ValueError(_FORM)
    body = body.removeprefix(SCHEME)
    raw = body.endswith(RAW)
    tool, _, query = body.removesuffix(RAW).partition("?")
    tool = unquote(tool).strip("/ ")
    if not tool:
        raise ValueError(_FORM)
    return Handle(tool, _arguments(query), raw)


def _arguments(query: str) -> dict[str, object]:
    text = unquote(query).strip()
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(_FORM) from None
        return {str(key): item for key, item in value.items()}
    return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=20))


def pick(snapshots: Iterable[Snapshot], handle: Handle) -> Snapshot:
    """The snapshot that a handle names. Raises LookupError that says which exist."""
    known = list(snapshots)
    same = [each for each in known if each.tool == handle.tool]
    same.sort(key=lambda each: (bool(each.args), -each.captured_at.timestamp()))
    if handle.args:
        same = [each for each in same if _fits(each, handle.args)]
    if not same:
        raise LookupError(_missing(known, handle.tool))
    return same[0]


def content_of(snapshot: Snapshot, *, raw: bool = False) -> str:
    """A snapshot's content as text: JSON with two spaces, or the text it came as."""
    content = snapshot.content if raw else snapshot.current
    if isinstance(content, str):
        return content
    return json.dumps(content, ensure_ascii=False, indent=2)


def _fits(snapshot: Snapshot, args: dict[str, object]) -> bool:
    if args_key(snapshot.args) == args_key(args):
        return True
    # In a handle's query everything is text.
    return {k: _word(v) for k, v in snapshot.args.items()} == {
        k: _word(v) for k, v in args.items()
    }


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _missing(known: Iterable[Snapshot], tool: str) -> str:
    names = sorted({line(each.tool, 40) for each in known})
    there = f"Kept are: {', '.join(names[:30])}." if names else "Nothing is kept yet."
    return f"No answer of {line(tool, 40)} is kept for this account. {there}"


_FORM = "Give a handle such as state://get_ship, or state://get_map?system_id=sol."
