"""What a name stands for: a Mysis by its number or name, a stored text by its handle.

Whatever a view masks, truncates, summarises or leaves out carries a handle
``ctx://<mysis>/<message id>``, a note ``note://<mysis>/<name>``. The caller judges who
may use whose: `parse_handle` and `parse_note_handle` name the owner, `read_message` and
`read_note` find what is of one Mysis only, to be cut in parts (I21).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from django.apps import apps

from memory.context.types import NOTE_SCHEME
from memory.game_calls import is_secret_call
from memory.models import Memory
from memory.notes import select_notes
from memory.redaction import HIDDEN

MAX_ID = 2**63 - 1
SCHEME = "ctx://"
LONGEST_HANDLE = 2_000
# Characters of one part: less than a view shows of one result.
LARGEST_PART = 20_000
_FORM = (
    "Give a handle as it stands in your context, such as ctx://7/1234 for a message, "
    "note://7/base for a note or state://get_ship for the newest answer of a tool."
)


class RecallError(Exception):
    """A handle that stands for nothing; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Some characters of a text. ``next`` is the following offset, None at the end."""

    text: str
    offset: int
    total: int
    next: int | None


def parse_handle(handle: str) -> tuple[str, int]:
    """The owner (a number, a name, or "self") and the id that a ``ctx://`` handle names.

    Raises RecallError.
    """
    body = handle.strip()
    if not body.startswith(SCHEME) or len(body) > LONGEST_HANDLE:
        raise RecallError(_FORM)
    owner, _, number = body.removeprefix(SCHEME).rpartition("/")
    message_id = parse_id(number)
    if not owner or message_id is None:
        raise RecallError(_FORM)
    return owner, message_id


def parse_note_handle(handle: str) -> tuple[str, str]:
    """The owner (a number, a name, or "self") and the name that a ``note://`` handle has.

    Raises RecallError.
    """
    owner, _, name = handle.strip().removeprefix(NOTE_SCHEME).partition("/")
    if not owner or not name.strip() or len(handle) > LONGEST_HANDLE:
        raise RecallError(_FORM)
    return owner, name.strip()


def read_note(mysis_id: int, name: str) -> str:
    """The whole text of a note in use. Raises RecallError that names those there are."""
    texts = dict(select_notes(mysis_id).values_list("name", "text"))
    if name not in texts:
        raise RecallError(
            f"There is no note {name[:100]!r}. Notes are: {', '.join(texts) or 'none'}."
        )
    return texts[name]


def read_message(
    mysis_id: int,
    message_id: int,
    *,
    secret: Collection[str] = (),
    standing: bool = False,
) -> str:
    """One message of one Mysis, letter for letter: what it says, calls and thinks.

    Arguments and results of ``secret`` tools stay hidden (A11), and with ``standing``
    what was taken back, as for the Mysis itself. Raises RecallError.
    """
    rows = Memory.objects.defer("content_vector", "reasoning_vector")
    row = rows.filter(mysis_id=mysis_id, pk=min(message_id, MAX_ID)).first()
    if row is None:
        raise RecallError(
            f"There is no message {message_id} here, or it is no longer kept. "
            "Search for a word of it instead."
        )
    if standing and row.taken_back:
        raise RecallError(f"Message {message_id} was taken back by your operator.")
    if row.tool_name in secret:
        return HIDDEN
    calls = [_call_text(call["function"], secret) for call in row.tool_calls]
    thoughts = [f"[reasoning: {row.reasoning}]"] if row.reasoning else []
    return "\n".join(filter(None, [row.content, *calls, *thoughts]))


def _call_text(function: Mapping[str, Any], secret: Collection[str]) -> str:
    name, arguments = function["name"], function["arguments"]
    if is_secret_call(name, arguments, secret):
        arguments = HIDDEN
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return f"[called {name} with {arguments}]"


def cut_part(text: str, offset: int = 0, limit: int = LARGEST_PART) -> TextPart:
    """At most ``limit`` characters from ``offset`` on, never over `LARGEST_PART`."""
    start = min(max(offset, 0), len(text))
    end = start + min(max(limit, 1), LARGEST_PART)
    return TextPart(
        text=text[start:end],
        offset=start,
        total=len(text),
        next=end if end < len(text) else None,
    )


# --- Myses by number or name


class GameAccount(Protocol):
    """What is read of a game account here."""

    username: str


class Owner(Protocol):
    """What is read of a Mysis here; its model lies above this app."""

    pk: int
    name: str
    account: GameAccount | None


def parse_id(reference: str) -> int | None:
    """The id that a reference spells, or None when it is no stored id's shape."""
    if not (reference.isascii() and reference.isdecimal() and len(reference) <= 19):
        return None
    number = int(reference)
    return number if number <= MAX_ID else None


def find_owner(reference: str) -> Owner | None:
    """The Mysis of a number or a name, or None."""
    myses = apps.get_model("agents", "Mysis").objects
    number, name = split_reference(reference)
    rows = myses.filter(name=name) if number is None else myses.filter(pk=number)
    found = rows.select_related("account", "prompt", "policy").first()
    return cast("Owner | None", found)


def split_reference(reference: str) -> tuple[int | None, str | None]:
    """The number that a reference spells, else the name; neither where nothing fits."""
    number = parse_id(reference)
    impossible = "\x00" in reference or reference.isdecimal()
    return number, None if number is not None or impossible else reference
