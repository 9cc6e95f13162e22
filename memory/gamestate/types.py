"""The frozen values that the game-state rules work on: snapshots, marks, a state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

# The nominal length of a game tick (API.md 1.4).
SECONDS_PER_TICK = 10.0
# Names the age limits of all tools that have none of their own.
ANY_TOOL = "*"
_LONGEST = 10**9
_ENTRY = re.compile(r"(?P<tool>[\w.*-]+)\s*=\s*(?P<fresh>\d+)\s*[:/]\s*(?P<ageing>\d+)")


@dataclass(frozen=True, slots=True)
class Stale:
    """Why a snapshot, or some of its fields, is no longer true.

    ``reason`` is the tool that changed the game, ``tick`` when that takes effect.
    ``fields`` are JSON paths such as ``player.credits``; none means the whole
    snapshot. ``at`` is when the action was sent: its outcome comes later. ``done`` is
    when it was answered: what was asked before may have been answered before it.
    ``causes`` are the marks that a joined one is made of, the newest last; empty where
    it stands for itself.
    """

    reason: str
    tick: int | None = None
    fields: tuple[str, ...] = ()
    at: datetime | None = None
    done: datetime | None = None
    causes: tuple[Stale, ...] = ()

    @property
    def parts(self) -> tuple[Stale, ...]:
        """The marks that it is made of, the newest last; itself if of no others."""
        return self.causes or (self,)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Ages in ticks: fresh up to ``fresh``, ageing up to ``ageing``, then stale."""

    fresh: int
    ageing: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest good result of one tool with one set of arguments (G1, A23).

    ``content`` is the JSON value the server sent, or its text (A24), made between
    ``asked_at`` and ``captured_at``. ``shown`` is the content with events merged in,
    None without any; ``field_ticks`` holds the tick of the last merge by JSON path,
    and ``counted`` those paths that were counted up or down. ``stale`` joins
    ``marks``, one for each action, with the doubts of events.
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
        """The content to read facts from: with events merged in, if there are any."""
        return self.content if self.shown is None else self.shown


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of the game; ``tick`` is None where unknown."""

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)
    tick: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The present, as an account sees it.

    ``thresholds`` replace the built-in ones by tool.
    """

    current_tick: int | None
    now: datetime
    seconds_per_tick: float = SECONDS_PER_TICK
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AccountState:
    """All that is known of one game account at one moment.

    ``username`` is None when nobody is logged in. ``last_shown`` are the facts of the
    previous block; values that differ are shown with what they were. ``events`` are
    the newest, oldest first, and ``fetched`` says that the program itself asks for
    them. ``unsettled`` are flights that may or may not be over.
    """

    username: str | None
    snapshots: tuple[Snapshot, ...]
    moment: Moment
    last_shown: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Happening, ...] = ()
    fetched: bool = False
    unsettled: frozenset[str] = frozenset()


def read_limits(text: str) -> Mapping[str, Thresholds]:
    """The thresholds of a setting such as ``get_nearby=1:5, *=5:20``, by tool.

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
        if not limits.fresh <= limits.ageing <= _LONGEST:
            raise ValueError(
                f"{entry[:60]!r}: the second number must not be below the first."
            )
        found[match["tool"]] = limits
    return found
