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
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.game import truth
from sandbox.game.config import Json
from sandbox.game.faults import Order, parse
from sandbox.game.host import Host

MOST_TICKS = 100_000


def is_loopback(host: str) -> bool:
    """Is this address this machine alone?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_control(host: Host) -> Starlette:
    """Build the application of the truth port."""
    game, levers = host.game, _Levers(host)
    tallies = game.state.tallies

    async def accounts(given: Json) -> Json:
        return truth.accounts(game)

    async def account(given: Json) -> Json:
        return truth.account(game, given["username"])

    async def snapshot(given: Json) -> Any:
        return truth.snapshot(game, given.pop("username"), given.pop("tool"), given)

    async def calls(given: Json) -> Json:
        return {name: tally.view() for name, tally in tallies.items()}

    async def reset(given: Json) -> Json:
        tallies.clear()
        return {}

    async def happen(given: Json) -> Json:
        name, kind = str(given.pop("username", "")), str(given.pop("kind", ""))
        truth.happen(game, name, kind, given)
        return {}

    routes = [
        _route("/truth", accounts),
        _route("/truth/{username}", account),
        _route("/truth/{username}/{tool}", snapshot),
        _route("/calls", calls),
        _route("/calls/reset", reset, "POST"),
        _route("/step", levers.step, "POST"),
        _route("/clock", levers.clock, "POST"),
        _route("/held", levers.held, "POST"),
        _route("/happen", happen, "POST", 201),
        _route("/faults", levers.faults),
        _route("/faults", levers.set_faults, "POST"),
        _route("/faults/once", levers.strike_once, "POST", 201),
    ]
    return Starlette(routes=routes)


def _route(
    path: str,
    lever: Callable[[Json], Awaitable[Any]],
    method: str = "GET",
    status: int = 200,
) -> Route:
    """Call a lever with what the path, the query and the body say."""

    async def answer(request: Request) -> Response:
        if not _is_trusted(request):
            return JSONResponse({"error": "loopback only"}, 403)
        query = {
            k: int(v) if v.isdigit() else v for k, v in request.query_params.items()
        }
        try:
            body = await request.json() if await request.body() else {}
            if not isinstance(body, dict):
                raise ValueError("a JSON object is needed")
            result = await lever({**query, **body, **request.path_params})
        except truth.UnknownError as error:
            return JSONResponse({"error": str(error)}, 404)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse(result, status)

    return Route(path, answer, methods=[method])


def _is_trusted(request: Request) -> bool:
    """Is it from this machine, and not from a page in a browser?"""
    names = (request.client.host if request.client else "", request.url.hostname or "")
    return all(map(is_loopback, names)) and "origin" not in request.headers


class _Levers:
    def __init__(self, host: Host) -> None:
        self._host = host

    async def step(self, given: Json) -> Json:
        ticks = given.get("ticks", 1)
        if not isinstance(ticks, int) or not 1 <= ticks <= MOST_TICKS:
            raise ValueError(f"ticks must be from 1 to {MOST_TICKS}")
        for _ in range(ticks):
            tick = self._host.step()
            # Whoever waited for this tick acts before the next one.
            await asyncio.sleep(0)
        return {"tick": tick}

    async def clock(self, given: Json) -> Json:
        self._host.paused = not given.get("running", True)
        return {"running": not self._host.paused}

    async def held(self, given: Json) -> Json:
        count = given.get("count", 1)
        if not isinstance(count, int):
            raise ValueError("count must be a whole number")
        await self._host.turns.until_held(count)
        return {"held": self._host.turns.held}

    async def faults(self, given: Json) -> Json:
        faults = self._host.faults
        return {
            "rates": dict(faults.plan.rates),
            "gone": sorted(faults.plan.gone),
            "struck": dict(faults.struck),
        }

    async def set_faults(self, given: Json) -> Json:
        self._host.faults.plan = parse(str(given.get("plan", "")))
        return await self.faults(given)

    async def strike_once(self, given: Json) -> Json:
        words = (str(given.get(name, "")) for name in ("kind", "tool", "username"))
        self._host.faults.order(Order(*words))
        return {}
