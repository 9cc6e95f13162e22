"""What the game-state rules work on: snapshots, stale marks, one account's state.

Everything is frozen. Ticks and moments come in from outside, nothing here asks a
clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

SECONDS_PER_TICK = 10.0
"""The nominal length of a game tick (API.md 1.4)."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Why a snapshot, or some of its fields, is no longer true.

    ``reason`` is the tool that changed the game. ``tick`` is when that took, or
    will take, effect. No ``fields`` means the whole snapshot; otherwise they are
    JSON paths such as ``player.credits`` (see `paths`). ``at`` is when the action
    was asked for: what the game reports later is its outcome. ``done`` is when it was
    answered: what was asked before that may have been answered earlier.
    """

    reason: str
    tick: int | None = None
    fields: tuple[str, ...] = ()
    at: datetime | None = None
    done: datetime | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Ages in ticks: fresh up to ``fresh``, ageing up to ``ageing``, then stale."""

    fresh: int
    ageing: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest good result of one tool with one set of arguments (G1, A23).

    ``content`` is the JSON value the server sent, or its text (A24). ``shown`` is
    the content after events were merged into it, null where nothing was merged;
    ``field_ticks`` holds the tick of the last merge for each merged JSON path.
    ``counted`` are those of them that were counted on from what was recorded.
    ``stale`` is what ``marks``, one for each action, and doubtful events come to.
    The answer was made between ``asked_at`` and ``captured_at``.
    """

    tool: str
    args: Mapping[str, object]
    content: object
    tick: int | None
    captured_at: datetime
    stale: Stale | None = None
    field_ticks: Mapping[str, int] = field(default_factory=dict)
    logged_out: bool = False
    shown: object = None
    marks: tuple[Stale, ...] = ()
    asked_at: datetime | None = None
    counted: tuple[str, ...] = ()

    @property
    def current(self) -> object:
        """The content to read facts from: merged where events were merged in."""
        return self.content if self.shown is None else self.shown


@dataclass(frozen=True, slots=True)
class Happening:
    """An event that the game told; ``tick`` is null where nothing tells it."""

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)
    tick: int | None = None


@dataclass(frozen=True, slots=True)
class AccountState:
    """All that is known of one game account at one moment.

    ``username`` is null when nobody is logged in. ``last_shown`` are the facts of
    the previous `Rendered`; values that differ from it are shown with what they
    were. ``thresholds`` replace the built-in ones by tool. ``events`` are the newest,
    oldest first, and ``fetched`` says that the program itself asks for them.
    ``unsettled`` are flights of which nobody knows whether they are over.
    """

    username: str | None
    snapshots: tuple[Snapshot, ...]
    current_tick: int | None
    now: datetime
    seconds_per_tick: float = SECONDS_PER_TICK
    last_shown: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Happening, ...] = ()
    fetched: bool = False
    unsettled: frozenset[str] = frozenset()


# SECTION Ages at which facts stop being believed, as an operator writes them.
#
# ``get_nearby=1:5, get_map=24:49, *=5:20``: fresh up to the first number of ticks,
# ageing up to the second, stale beyond. ``*`` is for all tools without a line.

ANY_TOOL = "*"
LONGEST = 10**9
_ENTRY = re.compile(r"(?P<tool>[\w.*-]+)\s*=\s*(?P<fresh>\d+)\s*[:/]\s*(?P<ageing>\d+)")


def read_limits(text: str) -> Mapping[str, Thresholds]:
    """The thresholds that a setting names, by tool.

    Raises ValueError with one sentence that names the entry and the remedy.
    """
    found = {}
    for part in re.split(r"[,;\n]", text):
        entry = part.strip()
        if not entry:
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(
                f"{entry[:60]!r} is no age limit: write tool=FRESH:AGEING in ticks, "
                "such as get_nearby=1:5."
            )
        limits = Thresholds(int(match["fresh"]), int(match["ageing"]))
        if not limits.fresh <= limits.ageing <= LONGEST:
            raise ValueError(
                f"{entry[:60]!r}: the second number must not be below the first."
            )
        found[match["tool"]] = limits
    return found
