"""What every part uses: options, versions, chance, times, views and errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

Json = dict[str, Any]
FEWEST_SYSTEMS = 10
MOST_SYSTEMS = 2000


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one game; the world follows from `seed` and `systems`.

    `exclusive`: a login ends the account's older sessions. `raid_chance`: of a ship in
    lawless space, per tick. `tick_seconds` only tells players how long to wait.
    """

    seed: int = 1
    systems: int = 505
    era: str = "A"
    tick_seconds: float = 10.0
    exclusive: bool = True
    session_idle_seconds: float = 30 * 60.0
    max_players: int = 5000
    raid_chance: float = 0.01

    def __post_init__(self) -> None:
        if not FEWEST_SYSTEMS <= self.systems <= MOST_SYSTEMS:
            raise ValueError(
                f"systems must be from {FEWEST_SYSTEMS} to {MOST_SYSTEMS}, "
                f"not {self.systems}"
            )
        if self.era not in VERSIONS:
            raise ValueError(f"era must be A, C or v2, not {self.era}")

    @property
    def is_modern(self) -> bool:
        """Whether an action's caller waits for what comes of it: era C, and v2."""
        return self.era != "A"

    @property
    def is_grouped(self) -> bool:
        """Whether tools are grouped and answer in texts: API v2."""
        return self.era == "v2"


VERSIONS = {
    "A": ("0.56.0", "2026-02-10"),
    "C": ("0.92.0", "2026-02-17"),
    "v2": ("0.493.0", "2026-07-12"),
}
_HOW = {
    "A": "Actions are queued and carried out at the next tick; "
    "call get_notifications to learn what came of them.",
    "C": "An action answers when its tick has come, with what came of it.",
    "v2": "Tools are grouped by what they are for; action=help says what they do.",
}


def describe_release(era: str) -> Json:
    """The answer of get_version in an era."""
    version, date = VERSIONS[era]
    return {
        "version": version,
        "release_date": date,
        "notes": [
            "A local game for practice: one small galaxy, the same rules for everybody.",
            _HOW[era],
        ],
    }


def make_dice(*occasion: object) -> random.Random:
    """Give the generator of one occasion, such as (seed, tick, player, "mine")."""
    name = ":".join(str(part) for part in occasion)
    return random.Random(name)  # noqa: S311 - a game's chance, no secret depends on it


def make_hex_id(*occasion: object) -> str:
    """Give the 32 hex digits that always name the same thing of the same world."""
    return f"{make_dice('id', *occasion).getrandbits(128):032x}"


NS = 1_000_000_000
NEVER = "0001-01-01T00:00:00Z"


def format_time(now_ns: int) -> str:
    """Write nanoseconds since 1970 the way Go does, without trailing zeros."""
    seconds, fraction = divmod(now_ns, NS)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}".rstrip("0")
    return f"{moment}.{digits}Z" if digits else f"{moment}Z"


def format_plain_time(now_ns: int) -> str:
    """Write nanoseconds since 1970 as in the captain's log and the map."""
    return datetime.fromtimestamp(now_ns // NS, UTC).strftime("%Y-%m-%d %H:%M:%S")


def make_view(words: str) -> Callable[[object], Json]:
    """Make a view of an object: each word is an attribute to show.

    `name=path` shows the attribute at a dotted path under another name; `name?` is
    left out where it is empty.
    """
    fields: list[tuple[str, bool, Callable[[object], Any]]] = []
    for word in words.split():
        shown, _, path = word.partition("=")
        name = shown.removesuffix("?")
        fields.append((name, name == shown, attrgetter(path or name)))
    return lambda thing: {
        name: value for name, always, read in fields if (value := read(thing)) or always
    }


class GameError(Exception):
    """A refused call: a short code and a sentence for the player."""

    def __init__(
        self, code: str, message: str, wait_seconds: float | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.wait_seconds = wait_seconds

    @property
    def text(self) -> str:
        """The text of an MCP error result."""
        return f"Error: {self.code}: {self.message}"


def unknown_command(name: str) -> GameError:
    return GameError(
        "unknown_command",
        f"Unknown command: {name}. Use the 'help' command to see available commands.",
    )


def not_docked_here() -> GameError:
    return GameError(
        "not_docked",
        "You must be docked at a base to perform this action. Use 'dock' at a POI "
        "with a base, or use 'get_poi' to check if your current location has a base.",
    )


def must_undock() -> GameError:
    return GameError("docked", "You are docked. Use 'undock' first.")
