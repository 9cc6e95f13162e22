"""Games whose time and secrets are fixed, and captains who play in them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sandbox.game.config import Config, GameError
from sandbox.game.game import Game
from sandbox.game.state import Sources
from sandbox.game.world.models import Player

NOON = 1_770_338_536_735_002_640


class FixedTime:
    """A clock that stands until somebody moves it."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += int(minutes * 60 * 1_000_000_000)


def make_game(time: FixedTime | None = None, **settings: Any) -> Game:
    """A small game in which the same calls give the same answers, ids included."""
    numbers = itertools.count(1)

    def token(size: int) -> str:
        return f"{next(numbers):0{2 * size}x}"

    sources = Sources(now_ns=time or FixedTime(), token=token)
    return Game(Config(**{"systems": 20, **settings}), sources)


class Captain:
    """A registered player and the calls in his name."""

    def __init__(
        self, game: Game, username: str = "Wanderer", empire: str = "solarian"
    ) -> None:
        self.game = game
        given = {"username": username, "empire": empire}
        self.registered = game.call("register", given)
        self.session_id: str = self.registered["session_id"]

    @property
    def player(self) -> Player:
        return self.game.state.players[self.registered["player_id"]]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.game.call(tool, {"session_id": self.session_id, **arguments})

    def do(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        """Act, let the time pass that it takes, and read what came of it."""
        answer = self.call(tool, **arguments)
        assert answer.get("queued") or answer.get("pending")
        for _ in range(answer.get("ticks", 1)):
            self.game.step()
        return self.news()

    def news(self) -> list[dict[str, Any]]:
        """Read the queue, without the comings and goings of others."""
        items: list[dict[str, Any]] = self.call("get_notifications", limit=100)[
            "notifications"
        ]
        return [item for item in items if not item["msg_type"].startswith("poi_")]

    def refused(self, tool: str, **arguments: Any) -> GameError:
        """Make a call that the game refuses, and give the refusal."""
        with pytest.raises(GameError) as caught:
            self.call(tool, **arguments)
        return caught.value

    def go_mining(self) -> None:
        """Fly to the belt of the home system."""
        self.do("undock")
        self.do("travel", target_poi="sol_belt")

    def fill_hold(self) -> None:
        """Mine until nothing fits any more."""
        while self.player.ship.cargo_free:
            self.do("mine")
