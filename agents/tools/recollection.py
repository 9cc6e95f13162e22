"""`zoea_recall`: the stored text behind a handle, in parts (I21, I27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.tools.reach import Answer, LocalRefusedError, Reach
from agents.tools.redact import clean_text
from memory import state
from memory.recall import (
    LARGEST_PART,
    Part,
    RecallError,
    is_state,
    message,
    part,
    read_handle,
)


def recall(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """The text of a handle, letter for letter, and where to go on if it is long."""
    handle = str(arguments["handle"]).strip()
    text = _state(arguments, reach) if is_state(handle) else _message(handle, reach)
    # Cleaned as a whole: a secret must not slip through where it is cut.
    found = part(
        clean_text(text),
        offset=int(arguments.get("offset", 0)),
        limit=int(arguments.get("limit", LARGEST_PART)),
    )
    value = {
        "handle": handle,
        "content": found.text,
        "offset": found.offset,
        "total": found.total,
        "next_offset": found.next,
    }
    return Answer(value, _blocks(found))


def _message(handle: str, reach: Reach) -> str:
    try:
        named = read_handle(handle)
        owner = reach.target(
            named.owner,
            argument="handle",
            remedy="only handles out of your own context can be recalled",
        )
        return message(owner.pk, named.message_id, secret=reach.secret)
    except RecallError as error:
        raise LocalRefusedError(str(error)) from error


def _state(arguments: Mapping[str, Any], reach: Reach) -> str:
    owner = reach.target(arguments.get("mysis_id"))
    username = owner.account.username if owner.account else None
    try:
        return state.recall(username, str(arguments["handle"]))
    except (ValueError, LookupError) as error:
        raise LocalRefusedError(str(error.args[0])) from error


def _blocks(found: Part) -> tuple[str, ...]:
    """The text alone where it is all there is, else with a line that says so."""
    if found.offset == 0 and found.next is None:
        return (found.text,)
    end = found.offset + len(found.text)
    more = f"; go on with offset {found.next}" if found.next is not None else ""
    note = f"[characters {found.offset} to {end} of {found.total}{more}]"
    return (found.text, note)
