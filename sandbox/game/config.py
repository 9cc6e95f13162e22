"""How a game is set up."""

from __future__ import annotations

from dataclasses import dataclass

FEWEST_SYSTEMS = 10
MOST_SYSTEMS = 2000


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one game; the world follows from `seed` and `systems`.

    `exclusive`: a login ends the older sessions of the same account.
    `session_idle_seconds`: a game session unused for so long is gone.
    `raid_chance`: how likely a raider finds a ship in lawless space, per tick.
    `tick_seconds` only tells players how long to wait; the clock is elsewhere.
    """

    seed: int = 1
    systems: int = 505
    era: str = "A"
    tick_seconds: float = 10.0
    exclusive: bool = True
    session_idle_seconds: float = 30 * 60.0
    first_tick: int = 1
    max_players: int = 5000
    raid_chance: float = 0.01

    def __post_init__(self) -> None:
        if not FEWEST_SYSTEMS <= self.systems <= MOST_SYSTEMS:
            raise ValueError(
                f"systems must be from {FEWEST_SYSTEMS} to {MOST_SYSTEMS}, "
                f"not {self.systems}"
            )
        if self.era not in ("A", "C"):
            raise ValueError(f"era must be A or C, not {self.era}")
        if self.first_tick < 1:
            raise ValueError(f"first_tick must be at least 1, not {self.first_tick}")
