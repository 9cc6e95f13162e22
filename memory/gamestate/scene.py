"""A state with everything that its sections share worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.gamestate.clock import Recency, elapsed_seconds, recency
from memory.gamestate.confidence import Moment
from memory.gamestate.extract import args_key
from memory.gamestate.names import Names, known_names
from memory.gamestate.sections import CURATED
from memory.gamestate.text import line
from memory.gamestate.types import AccountState, Snapshot

OWNER = "account"
"""The key of the account's name among the facts: they never cross accounts."""

_ORDER = {tool: place for place, tool in enumerate(CURATED)}


@dataclass(frozen=True, slots=True)
class Scene:
    """A state with what is worked out once for all its sections."""

    state: AccountState
    moment: Moment
    ordered: tuple[Snapshot, ...]
    names: Names
    was: Mapping[str, str]

    @classmethod
    def of(cls, state: AccountState) -> Scene:
        same = state.last_shown.get(OWNER) == state.username
        newest_first = sorted(
            state.snapshots,
            key=lambda s: (elapsed_seconds(s.captured_at, state.now), key_of(s)),
        )
        return cls(
            state,
            Moment.of(state),
            tuple(sorted(newest_first, key=_place)),
            {**state.names, **known_names(newest_first[::-1])},
            state.last_shown if same else {},
        )

    def age(self, snapshot: Snapshot) -> Recency:
        return recency(
            snapshot.tick,
            snapshot.captured_at,
            self.state.current_tick,
            self.state.now,
            self.state.seconds_per_tick,
        )

    def plain(self, tool: str) -> Snapshot | None:
        """The snapshot of a tool without arguments."""
        found = (s for s in self.ordered if s.tool == tool and not args_key(s.args))
        return next(found, None)


def _place(snapshot: Snapshot) -> tuple[int, bool]:
    """Curated sections first and in their order, without arguments before with."""
    return _ORDER.get(snapshot.tool, len(_ORDER)), bool(snapshot.args)


def call_of(snapshot: Snapshot) -> str:
    """A tool with its arguments, as they are written in a heading."""
    tool = line(snapshot.tool, 40)
    if not snapshot.args:
        return tool
    values = ", ".join(
        f"{line(str(key), 20)}={_argument(value)}"
        for key, value in list(snapshot.args.items())[:3]
    )
    return f"{tool} {line(values, 60)}"


def _argument(value: object) -> str:
    return "..." if isinstance(value, (Mapping, list)) else line(value, 30)


def key_of(snapshot: Snapshot) -> str:
    return f"{snapshot.tool}{args_key(snapshot.args)}"
