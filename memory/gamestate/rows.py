"""The recency table: every snapshot of an account with age and confidence.

The row is the "State row" of SURFACES.md section 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from memory.gamestate.clock import elapsed_seconds
from memory.gamestate.confidence import (
    LOGGED_OUT,
    Confidence,
    Moment,
    age_in_ticks,
    confidence,
    stale_paths,
)
from memory.gamestate.paths import primary
from memory.gamestate.types import AccountState, Snapshot

MAX_FIELDS = 200


@dataclass(frozen=True, slots=True)
class StateRow:
    """One snapshot in the table.

    ``reason`` is the action that made it untrue, or why else it is stale, null
    where it is neither. ``fields`` are its JSON paths, two keys deep and those
    that were marked or merged.
    """

    tool: str
    args: Mapping[str, object]
    confidence: Confidence
    age_ticks: int | None
    age_seconds: float
    reason: str | None
    tick: int | None
    captured_at: datetime
    fields: Mapping[str, Confidence]


def rows(state: AccountState) -> tuple[StateRow, ...]:
    """A row for each snapshot, in the order given; none for nobody logged in."""
    if state.username is None:
        return ()
    moment = Moment.of(state)
    return tuple(_row(snapshot, moment) for snapshot in state.snapshots)


def _row(snapshot: Snapshot, moment: Moment) -> StateRow:
    age = age_in_ticks(snapshot, moment)
    found = confidence(snapshot, moment)
    return StateRow(
        tool=snapshot.tool,
        args=snapshot.args,
        confidence=found,
        age_ticks=age,
        age_seconds=max(0.0, elapsed_seconds(snapshot.captured_at, moment.now)),
        reason=_reason(snapshot, found, age),
        tick=snapshot.tick,
        captured_at=snapshot.captured_at,
        fields={
            path: confidence(snapshot, moment, path)
            for path in islice(dict.fromkeys(_paths(snapshot)), MAX_FIELDS)
        },
    )


def _reason(snapshot: Snapshot, found: Confidence, age: int | None) -> str | None:
    if snapshot.stale is not None and found is Confidence.INVALIDATED:
        return snapshot.stale.reason
    if snapshot.logged_out:
        return LOGGED_OUT
    return f"{age} ticks old" if found is Confidence.STALE else None


def _paths(snapshot: Snapshot) -> Iterator[str]:
    """What was marked or merged first, then the content's own keys."""
    yield from stale_paths(snapshot) or ()
    yield from snapshot.field_ticks
    content = primary(snapshot.current)
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        yield str(key)
        if isinstance(value, Mapping):
            yield from (f"{key}.{inner}" for inner in value)
