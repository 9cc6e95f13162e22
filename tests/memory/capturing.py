"""Answers captured and actions made, for the tests of the stores of state."""

from __future__ import annotations

import json
from datetime import timedelta

from django.utils import timezone

from memory.gamestate.extract import Result, read_result
from memory.gamestate.rows import StateRow, build_rows
from memory.snapshots import reads, writes

STATUS = {
    "player": {"username": "Ada", "credits": 5, "current_poi": "belt"},
    "ship": {"fuel": 9, "max_fuel": 20, "cargo": [], "cargo_used": 0},
}
LOST = Result(content=None, is_unknown=True)
REFUSED = "Error: no_resources: Nothing to mine here"


def capture(tool, content=None, *, username="Ada", args=None, ago=None):
    """An answer that comes now; asked for so many seconds ago, or nobody knows when."""
    text = json.dumps(STATUS if content is None else content)
    return writes.capture_snapshot(
        username=username,
        tool=tool,
        args=args or {},
        text=text,
        result=read_result(text),
        asked_at=None if ago is None else timezone.now() - timedelta(seconds=ago),
    )


def act(tool, answer, args=None, *, username="Ada", asked_at=None):
    touched, _ = writes.invalidate_snapshots(
        username=username,
        tool=tool,
        args=args or {},
        result=answer if isinstance(answer, Result) else read_result(answer),
        mutation=True,
        asked_at=asked_at,
    )
    return touched


def at_tick(tick, username="Ada"):
    writes.note_tick(username=username, result=read_result({"current_tick": tick}))


def levels(username="Ada"):
    return {row.tool: row.confidence for row in read_state_rows(username)}


def row(tool, username="Ada"):
    [found] = [each for each in read_state_rows(username) if each.tool == tool]
    return found


def read_state_rows(username: str) -> tuple[StateRow, ...]:
    return build_rows(reads.read_account_state(username))
