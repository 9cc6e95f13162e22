"""Lets requests wait for the tick that they need.

Era A: over MCP a second action in the same tick is not refused: the request waits for
the next one. The requests of one player are served in the order in which they came.
Era C: every action's request waits until the action has been carried out.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

from sandbox.game.errors import GameError
from sandbox.game.game import Game

MOST_HELD_EACH = 10


class Turns:
    """Answers calls for a game, each one in its turn.

    Belongs to one event loop: `ring` must be called there after every tick.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self._bell = asyncio.Event()
        self._changed = asyncio.Event()
        self._closed = False
        self._late = 0
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._held: defaultdict[str, int] = defaultdict(int)

    @property
    def held(self) -> int:
        """How many requests are waiting for a tick now."""
        return sum(self._held.values()) + self._late

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

    async def until_next_tick(self) -> None:
        """Wait for the next tick, or for the end of the server."""
        bell = self._bell
        if self._closed:
            return
        self._late += 1
        self._note()
        try:
            await bell.wait()
        finally:
            self._late -= 1
            self._note()

    async def answer(self, name: str, arguments: dict[str, Any]) -> str:
        """Answer a call as the game does, but later where it came too early.

        Raises GameError; `rate_limited` only beyond the requests held per player.
        """
        if not self.game.is_mutation(name):
            return self.game.answer(name, arguments)
        early = self.game.must_wait(name, arguments)
        player_id = self.game.player_of(arguments["session_id"])
        if self.game.resolution.blocks:
            return await self._carried_out(player_id, name, arguments)
        if not early and player_id not in self._held:
            return self.game.answer(name, arguments)
        if self._held[player_id] >= MOST_HELD_EACH:
            # Asked directly, the game says how long to wait.
            return self.game.answer(name, arguments)
        return await self._wait(player_id, name, arguments)

    async def _carried_out(
        self, player_id: str, name: str, arguments: dict[str, Any]
    ) -> str:
        """Hand an action in and wait for what comes of it (era C)."""
        self.game.answer(name, arguments)
        self._held[player_id] += 1
        self._note()
        try:
            while (outcome := self.game.outcome(player_id)) is None:
                if self._closed:
                    raise GameError("server_closing", "The game is shutting down.")
                await self._bell.wait()
        finally:
            self._held[player_id] -= 1
            if not self._held[player_id]:
                del self._held[player_id]
            self._note()
        if outcome.error is not None:
            raise outcome.error
        return json.dumps(outcome.result, indent=2, ensure_ascii=False)

    async def _wait(self, player_id: str, name: str, arguments: dict[str, Any]) -> str:
        self._held[player_id] += 1
        self._note()
        try:
            async with self._locks[player_id]:
                while self.game.must_wait(name, arguments):
                    if self._closed:
                        raise GameError("server_closing", "The game is shutting down.")
                    await self._bell.wait()
                return self.game.answer(name, arguments)
        finally:
            self._held[player_id] -= 1
            if not self._held[player_id]:
                del self._held[player_id], self._locks[player_id]
            self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
