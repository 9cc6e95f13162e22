"""Snapshots and states for the tests of this folder."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.gamestate.invalidation import build_marks, carry_mark, join_marks
from memory.gamestate.types import AccountState, Moment, Snapshot, Stale

GOLDEN = Path(__file__).parent.parent / "golden" / "gamestate"
NOW = datetime(2026, 2, 5, 0, 1, 10, tzinfo=UTC)
TICK = 107
PACE = 10.0
MOMENT = ("current_tick", "now", "seconds_per_tick", "thresholds")


def payload(name):
    """A recorded answer of the game, by the name of its file."""
    return json.loads((GOLDEN / "payloads" / f"{name}.json").read_text())


def snapshot(tool, content=None, *, age=2, args=None, **kwargs):
    """A snapshot that is ``age`` ticks old by its tick and by the clock."""
    kwargs.setdefault("tick", TICK - age)
    return Snapshot(
        tool=tool,
        args=args or {},
        content=payload(tool) if content is None else content,
        captured_at=NOW - timedelta(seconds=age * PACE),
        **kwargs,
    )


def state(*snapshots, **kwargs):
    """The state of VoidWanderer at tick 107."""
    kwargs.setdefault("username", "VoidWanderer")
    moment = {name: kwargs.pop(name) for name in MOMENT if name in kwargs}
    present = replace(Moment(current_tick=TICK, now=NOW), **moment)
    return AccountState(snapshots=tuple(snapshots), moment=present, **kwargs)


def add_mark(before, hit, tool, tick):
    """The joined mark of a snapshot after an action of a tool at a tick."""
    marks = [before] if before else []
    return join_marks([*marks, hit.make_mark(Stale(tool, tick))], tick)


def inherit_marks(marks, tool, args, tick):
    """The marks of a new snapshot of a tool, out of those of all snapshots."""
    return build_marks((mark for mark in marks if carry_mark(mark, tick)), tool, args)
