"""The door of the game's server: calls meet the faults, and wait for their tick.

Era A: over MCP a second action in the same tick is not refused: the request waits for
the next one. The requests of one player are served in the order in which they came.
Era C: every action's request waits until the action has been carried out.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import mcp_types as types
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.game.api import Api
from sandbox.game.config import GameError, Json
from sandbox.game.faults import Faults, Reshaped
from sandbox.game.game import Game

MOST_HELD_EACH = 10
MOST_READ_BYTES = 1_000_000
RETRY_SECONDS = 1


class Turns:
    """Answers calls for a game, each one in its turn.

    Belongs to one event loop: `ring` must be called there after every tick.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
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

    async def until_next_tick(self) -> None:
        """Wait for the next tick, or for the end of the server."""
        bell = self._bell
        if not self._closed:
            with self._hold(""):
                await bell.wait()

    async def answer(self, name: str, arguments: Json) -> str:
        """Answer a call as the game does, but later where it came too early.

        Raises GameError; `rate_limited` only beyond the requests held per player.
        """
        if not self.game.is_mutation(name):
            return self.game.answer(name, arguments)
        early = self.game.must_wait(name, arguments)
        player_id = self.game.player_of(arguments["session_id"])
        if self.game.resolution.blocks:
            return await self._carry_out(player_id, name, arguments)
        held = self._held.get(player_id, 0)
        if (held or early) and held < MOST_HELD_EACH:
            return await self._wait(player_id, name, arguments)
        # Too many: asked directly, the game says how long to wait.
        return self.game.answer(name, arguments)

    async def _carry_out(self, player_id: str, name: str, arguments: Json) -> str:
        """Hand an action in and wait for what comes of it (era C)."""
        self.game.answer(name, arguments)
        with self._hold(player_id):
            while (outcome := self.game.outcome(player_id)) is None:
                await self._next_bell()
        if outcome.error is not None:
            raise outcome.error
        return json.dumps(outcome.result, indent=2, ensure_ascii=False)

    async def _wait(self, player_id: str, name: str, arguments: Json) -> str:
        with self._hold(player_id):
            async with self._locks[player_id]:
                while self.game.must_wait(name, arguments):
                    await self._next_bell()
                return self.game.answer(name, arguments)

    async def _next_bell(self) -> None:
        if self._closed:
            raise GameError("server_closing", "The game is shutting down.")
        await self._bell.wait()

    @contextmanager
    def _hold(self, player_id: str) -> Iterator[None]:
        self._held[player_id] += 1
        self._note()
        try:
            yield
        finally:
            self._held[player_id] -= 1
            if not self._held[player_id]:
                del self._held[player_id]
                self._locks.pop(player_id, None)
            self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class FaultGate:
    """Passes requests on, or lets go wrong what the faults say.

    It refuses protocol revisions without a handshake, which the real game has not. The
    library would serve them too, and a client that was only ever tried against them
    would meet sessions for the first time in the real game.
    """

    def __init__(self, app: ASGIApp, faults: Faults, turns: Turns, api: Api) -> None:
        self._app = app
        self._api = api
        self._faults = faults
        self._turns = turns
        self._lost: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/mcp/v2" and self._turns.game.config.is_grouped:
            scope = {**scope, "path": "/mcp", "raw_path": b"/mcp"}
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        version = headers.get("mcp-protocol-version")
        if version not in (None, *HANDSHAKE_PROTOCOL_VERSIONS):
            await _session_gone(None, 400)(scope, receive, send)
        elif scope["type"] != "http" or scope["method"] == "DELETE":
            await self._app(scope, receive, send)
        elif headers.get("mcp-session-id", "") in self._lost:
            await _session_gone(None)(scope, receive, send)
        elif self._faults.active and scope["method"] == "POST":
            await self._judge(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _judge(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, replay = await _read_ahead(receive)
        if asked.get("method") != "tools/call":
            await self._app(scope, replay, send)
            return
        params = asked.get("params") or {}
        given = params.get("arguments") or {}
        who = self._turns.game.account_of(given)
        command = self._api.name_command(str(params.get("name")), given)
        hit = self._faults.strike(who, command)
        self._turns.game.state.tallies[who].faults.update(hit)
        refusal = self._refusal(hit, scope, asked)
        if refusal is not None:
            await refusal(scope, replay, send)
            return
        if "lost-session" in hit:
            self._turns.game.end_sessions(who)
        if "delay" in hit:
            await self._turns.until_next_tick()
        if "lost-answer" in hit:
            await self._app(scope, replay, _nowhere)
            await _bad_gateway()(scope, replay, send)
            return
        forms = hit & {"null-lists", "text", "sse"}
        await self._app(scope, replay, Reshaped(send, forms) if forms else send)

    def _refusal(
        self, hit: frozenset[str], scope: Scope, asked: Json
    ) -> Response | None:
        if "lost-transport" in hit:
            self._lost.add(Headers(scope=scope).get("mcp-session-id", ""))
            return _session_gone(asked.get("id"))
        if "429" in hit:
            return _too_many()
        if "502" in hit:
            return _bad_gateway()
        return _rate_limited(asked.get("id")) if "rate-limit" in hit else None


async def _read_ahead(receive: Receive) -> tuple[Json, Receive]:
    """The JSON-RPC message, empty for none or a very long one; and all to read again."""
    read: list[Message] = []
    body, more = b"", True
    while more and len(body) < MOST_READ_BYTES:
        part = await receive()
        read.append(part)
        body += part.get("body", b"")
        more = part.get("more_body", False)

    async def replay() -> Message:
        return read.pop(0) if read else await receive()

    try:
        found = json.loads(body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}, replay


async def _nowhere(message: Message) -> None:
    """Drop an answer: it was lost on its way."""


def _session_gone(request_id: object, status: int = 404) -> Response:
    error = {"code": types.INVALID_REQUEST, "message": "Session not initialized"}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": error}, status)


def _too_many() -> Response:
    body = {
        "error": "rate_limited",
        "message": f"Too many requests. Try again in {RETRY_SECONDS} seconds",
        "retry_after": RETRY_SECONDS,
    }
    return JSONResponse(body, 429, {"Retry-After": str(RETRY_SECONDS)})


def _bad_gateway() -> Response:
    page = "<html><head><title>502 Bad Gateway</title></head></html>"
    return PlainTextResponse(page, status_code=502, media_type="text/html")


def _rate_limited(request_id: object) -> Response:
    words = f"Too many requests. Try again in {RETRY_SECONDS} seconds."
    content = {"type": "text", "text": f"Error: rate_limited: {words}"}
    result = {"content": [content], "isError": True}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "result": result})
