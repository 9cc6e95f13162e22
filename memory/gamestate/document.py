"""Read an account's state from JSON: the ``state`` of CONTEXT.md section 2."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memory.game_calls import resolve_call
from memory.gamestate.extract import parse_tick
from memory.gamestate.render import render_block
from memory.gamestate.types import (
    SECONDS_PER_TICK,
    AccountState,
    Moment,
    Snapshot,
    Stale,
    Thresholds,
    read_limits,
)
from memory.gamestate.values import is_number, make_storable, parse_text, repair_text

_STATE_KEYS = frozenset(
    {"username", "current_tick", "now", "seconds_per_tick", "snapshots", "ages"}
)
_SNAPSHOT_KEYS = frozenset({"tool", "args", "content", "tick", "captured_at", "stale"})
_STALE_KEYS = frozenset({"reason", "tick", "fields"})


def read_state(document: object) -> AccountState:
    """A document's state (``now`` at least); ValueError names field and remedy."""
    state = _object(document, "state", _STATE_KEYS)
    username = state.get("username")
    if username is not None and not (isinstance(username, str) and username):
        raise ValueError("state.username: give the account's name, or null.")
    snapshots = state.get("snapshots") or []
    if not isinstance(snapshots, list):
        raise ValueError("state.snapshots: give a list of snapshots.")
    return AccountState(
        username=repair_text(username) if username else None,
        snapshots=tuple(_snapshot(s, index) for index, s in enumerate(snapshots)),
        moment=Moment(
            _tick(state.get("current_tick"), "state.current_tick"),
            _moment(state.get("now"), "state.now"),
            _pace(state.get("seconds_per_tick")),
            _ages(state.get("ages")),
        ),
    )


class StateBlock:
    """Renders the state block of a document; ValueError where that has errors.

    ``tick_skew`` counts its snapshots from the future (A21).
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._state = read_state(document)
        self.tick_skew = render_block(self._state).tick_skew

    def __call__(self, max_bytes: int) -> str:
        """The block as text of at most ``max_bytes`` bytes."""
        return render_block(self._state, max_bytes).text


def _snapshot(document: object, index: int) -> Snapshot:
    where = f"state.snapshots[{index}]"
    given = _object(document, where, _SNAPSHOT_KEYS)
    tool = given.get("tool")
    if not isinstance(tool, str) or not tool:
        raise ValueError(f"{where}.tool: give the name of the tool.")
    args = given.get("args") or {}
    if not isinstance(args, Mapping):
        raise ValueError(f"{where}.args: give an object, {{}} for no arguments.")
    content = given.get("content")
    # As the fleet keeps it: by the command, whichever tool it is an action of.
    call = resolve_call(tool, args)
    return Snapshot(
        tool=repair_text(call.name),
        args={str(key): value for key, value in call.arguments.items()},
        content=parse_text(content)
        if isinstance(content, str)
        else make_storable(content),
        tick=_tick(given.get("tick"), f"{where}.tick"),
        captured_at=_moment(given.get("captured_at"), f"{where}.captured_at"),
        stale=_stale(given.get("stale"), f"{where}.stale"),
    )


def _stale(document: object, where: str) -> Stale | None:
    if document is None:
        return None
    given = _object(document, where, _STALE_KEYS)
    reason = given.get("reason")
    if not isinstance(reason, str) or not reason:
        raise ValueError(f"{where}.reason: give the tool that made it untrue.")
    fields = given.get("fields") or []
    if not isinstance(fields, list) or not all(isinstance(f, str) for f in fields):
        raise ValueError(f"{where}.fields: give a list of JSON paths, or null.")
    return Stale(reason, _tick(given.get("tick"), f"{where}.tick"), tuple(fields))


def _object(
    document: object, where: str, allowed: frozenset[str]
) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise ValueError(f"{where}: give an object.")
    unknown = sorted(
        repair_text(str(key))[:40] for key in document if key not in allowed
    )
    if unknown:
        known = ", ".join(sorted(allowed))
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; known are {known}.")
    return document


def _tick(value: object, where: str) -> int | None:
    if value is None:
        return None
    tick = parse_tick(value)
    if tick is None:
        raise ValueError(f"{where}: give a tick number of 0 or more, or null.")
    return tick


def _moment(value: object, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(
            f"{where}: give a moment such as 2026-02-05T00:01:10Z."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _ages(value: object) -> Mapping[str, Thresholds]:
    if value is None:
        return {}
    if not isinstance(value, str):
        raise ValueError("state.ages: give a text such as get_nearby=1:5,*=5:20.")
    try:
        return read_limits(value)
    except ValueError as error:
        raise ValueError(f"state.ages: {error}") from error


def _pace(value: object) -> float:
    if value is None:
        return SECONDS_PER_TICK
    if is_number(value) and 0 < value < 86_400:
        return float(value)
    raise ValueError(
        "state.seconds_per_tick: give the seconds of a tick, above 0 and below 86400."
    )
