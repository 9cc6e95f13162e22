"""Holds back whoever has already acted in this tick, until the next one.

Over MCP a second action in the same tick is not refused: the request waits. The
requests of one player are served in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from agents.game.sandbox.errors import GameError
from agents.game.sandbox.game import Game

MOST_HELD_EACH = 10


class Turns:
    """Answers calls for a game, each one in its turn.

    Belongs to one event loop: `ring` must be called there after every tick.
    """

    def __init__(self, game: Game) -> None:
        self._game = game
        self._bell = asyncio.Event()
        self._changed = asyncio.Event()
        self._closed = False
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._held: defaultdict[str, int] = defaultdict(int)

    @property
    def held(self) -> int:
        """How many requests are waiting for a tick now."""
        return sum(self._held.values())

    def ring(self) -> None:
        """Let the waiting requests look whether it is their turn."""
        self._bell.set()
        self._bell = asyncio.Event()

    def close(self) -> None:
        """Refuse the waiting requests, and all that would have to wait."""
        self._closed = True
        self.ring()

    async def until_held(self, count: int) -> None:
        """Wait until at least so many requests are waiting."""
        while self.held < count:
            await self._changed.wait()

    async def answer(self, name: str, arguments: dict[str, Any]) -> str:
        """Answer a call as the game does, but later where it came too early.

        Raises GameError; `rate_limited` only beyond the requests held per player.
        """
        if not self._game.is_mutation(name):
            return self._game.answer(name, arguments)
        early = self._game.must_wait(name, arguments)
        player_id = self._game.player_of(arguments["session_id"])
        if not early and player_id not in self._held:
            return self._game.answer(name, arguments)
        if self._held[player_id] >= MOST_HELD_EACH:
            # Asked directly, the game says how long to wait.
            return self._game.answer(name, arguments)
        return await self._wait(player_id, name, arguments)

    async def _wait(self, player_id: str, name: str, arguments: dict[str, Any]) -> str:
        self._held[player_id] += 1
        self._note()
        try:
            async with self._locks[player_id]:
                while self._game.must_wait(name, arguments):
                    if self._closed:
                        raise GameError("server_closing", "The game is shutting down.")
                    await self._bell.wait()
                return self._game.answer(name, arguments)
        finally:
            self._held[player_id] -= 1
            if not self._held[player_id]:
                del self._held[player_id], self._locks[player_id]
            self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
