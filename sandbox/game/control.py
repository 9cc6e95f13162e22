"""The truth port: what is true, and the levers for tests. Loopback only.

GET  /truth                     who there is
GET  /truth/{username}          all that is true of an account
GET  /truth/{username}/{tool}   what one query would answer (arguments in the query)
GET  /calls, POST /calls/reset  what was asked, by account
POST /step {"ticks": 3}         let ticks pass
POST /clock {"running": false}  stop or start the clock
POST /held {"count": 1}         wait until so many requests wait for a tick
POST /happen {"username": "Ada", "kind": "drone_update"}  let an event happen
      ("subject", "count" and "base_id" say to what; "data" are the words of one that
      changes nothing)
GET  /faults, POST /faults {"plan": "502=0.1"}
POST /faults/once {"kind": "502", "tool": "mine", "username": "Ada"}
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.game import truth
from sandbox.game.faults import Faults, Order, parse
from sandbox.game.game import Game
from sandbox.game.gate import Turns

MOST_TICKS = 100_000
Json = dict[str, Any]


class Steered(Protocol):
    """What the levers move."""

    game: Game
    turns: Turns
    faults: Faults
    paused: bool

    def step(self) -> int:
        """Let one tick pass and give its number."""
        ...


def is_loopback(host: str) -> bool:
    """Is this address this machine alone?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LoopbackOnly:
    """Refuses whoever is not on this machine, and every page in a browser."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_trusted(Request(scope)):
            refusal = JSONResponse({"error": "loopback only"}, status_code=403)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_trusted(request: Request) -> bool:
    client = request.client
    named = request.url.hostname or ""
    foreign = "origin" in request.headers
    return (
        bool(client and is_loopback(client.host)) and is_loopback(named) and not foreign
    )


def make_control(host: Steered) -> Starlette:
    """Build the application of the truth port."""
    levers = _Levers(host)
    routes = [
        Route("/truth", levers.accounts),
        Route("/truth/{username}", levers.account),
        Route("/truth/{username}/{tool}", levers.snapshot),
        Route("/calls", levers.calls),
        Route("/calls/reset", levers.reset, methods=["POST"]),
        Route("/step", levers.step, methods=["POST"]),
        Route("/clock", levers.clock, methods=["POST"]),
        Route("/held", levers.held, methods=["POST"]),
        Route("/happen", levers.happen, methods=["POST"]),
        Route("/faults", levers.faults),
        Route("/faults", levers.set_faults, methods=["POST"]),
        Route("/faults/once", levers.strike_once, methods=["POST"]),
    ]
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        truth.UnknownError: _not_found,
        ValueError: _bad_request,
    }
    guard = [Middleware(LoopbackOnly)]
    return Starlette(routes=routes, middleware=guard, exception_handlers=handlers)


async def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=404)


async def _bad_request(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


class _Levers:
    def __init__(self, host: Steered) -> None:
        self._host = host

    async def accounts(self, request: Request) -> Response:
        return JSONResponse(truth.accounts(self._host.game))

    async def account(self, request: Request) -> Response:
        name = request.path_params["username"]
        return JSONResponse(truth.account(self._host.game, name))

    async def snapshot(self, request: Request) -> Response:
        name, tool = request.path_params["username"], request.path_params["tool"]
        given = {
            k: int(v) if v.isdigit() else v for k, v in request.query_params.items()
        }
        return JSONResponse(truth.snapshot(self._host.game, name, tool, given))

    async def calls(self, request: Request) -> Response:
        return JSONResponse(self._host.game.state.tallies.view())

    async def reset(self, request: Request) -> Response:
        self._host.game.state.tallies.clear()
        return JSONResponse({})

    async def step(self, request: Request) -> Response:
        ticks = (await _body(request)).get("ticks", 1)
        if not isinstance(ticks, int) or not 1 <= ticks <= MOST_TICKS:
            raise ValueError(f"ticks must be from 1 to {MOST_TICKS}")
        for _ in range(ticks):
            tick = self._host.step()
            # Whoever waited for this tick acts before the next one.
            await asyncio.sleep(0)
        return JSONResponse({"tick": tick})

    async def clock(self, request: Request) -> Response:
        self._host.paused = not (await _body(request)).get("running", True)
        return JSONResponse({"running": not self._host.paused})

    async def held(self, request: Request) -> Response:
        count = (await _body(request)).get("count", 1)
        if not isinstance(count, int):
            raise ValueError("count must be a whole number")
        await self._host.turns.until_held(count)
        return JSONResponse({"held": self._host.turns.held})

    async def happen(self, request: Request) -> Response:
        body = await _body(request)
        name, kind = str(body.pop("username", "")), str(body.pop("kind", ""))
        truth.happen(self._host.game, name, kind, body)
        return JSONResponse({}, status_code=201)

    async def faults(self, request: Request) -> Response:
        faults = self._host.faults
        return JSONResponse(
            {
                "rates": dict(faults.plan.rates),
                "gone": sorted(faults.plan.gone),
                "struck": dict(faults.struck),
            }
        )

    async def set_faults(self, request: Request) -> Response:
        self._host.faults.plan = parse(str((await _body(request)).get("plan", "")))
        return await self.faults(request)

    async def strike_once(self, request: Request) -> Response:
        body = await _body(request)
        kind = str(body.get("kind", ""))
        order = Order(kind, str(body.get("tool", "")), str(body.get("username", "")))
        self._host.faults.order(order)
        return JSONResponse({}, status_code=201)


async def _body(request: Request) -> Json:
    found = await request.json() if await request.body() else {}
    if not isinstance(found, dict):
        raise ValueError("a JSON object is needed")
    return found
