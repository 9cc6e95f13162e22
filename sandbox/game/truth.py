"""The truth port: what is true, and the levers for tests (see sandbox/README.md).

Loopback only. What is asked here counts as no call and gives no secret.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import json
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.game import happenings
from sandbox.game.api import render_query
from sandbox.game.config import GameError, Json, make_view
from sandbox.game.faults import Order, parse_plan
from sandbox.game.game import Game
from sandbox.game.host import Host
from sandbox.game.table import QUERIES
from sandbox.game.tools.rules import Call
from sandbox.game.views import view_log
from sandbox.game.world.models import Player

# Long or draining tools; they are had by their name.
LEFT_OUT = frozenset({"get_map", "get_skills", "get_recipes", "get_notifications"})
MOST_AT_ONCE = 1_000_000
MOST_TICKS = 100_000


class UnknownError(Exception):
    """No such account, or no such query."""


def describe_accounts(game: Game) -> Json:
    """Who there is, and at which tick."""
    online = game.state.sessions.is_online
    return {
        "tick": game.tick,
        "era": game.config.era,
        "seed": game.config.seed,
        "accounts": {
            player.username: {"player_id": player.id, "online": online(player.id)}
            for player in game.state.players.values()
        },
    }


def describe_account(game: Game, username: str) -> Json:
    """All that is true of an account now. Raises UnknownError.

    `snapshots` hold, by tool, the very answers that the account would get now, errors
    as {"error": {code, message}}. Where the game answers in texts (v2), `texts` hold
    those, of the same answers.
    """
    player = _player(game, username)
    names = [name for name in QUERIES if _is_told(game, name)]
    snapshots = {name: _snapshot(game, player, name, {}) for name in names}
    return {
        "tick": game.tick,
        "era": game.config.era,
        "username": player.username,
        "player_id": player.id,
        "online": game.state.sessions.is_online(player.id),
        "facts": _describe_facts(game, player),
        "action": _PENDING(player.pending) if player.pending else None,
        "snapshots": snapshots,
        "texts": _render_texts(game, player, snapshots),
        "log": view_log(player.log),
        "waiting": [
            list(session.waiting) for session in game.state.sessions.of(player.id)
        ],
        "calls": game.state.tallies[player.username].view(),
    }


def _render_texts(game: Game, player: Player, answers: Json) -> dict[str, str]:
    if not game.config.is_grouped:
        return {}
    return {
        name: render_query(game.state, player, name, answer)
        for name, answer in answers.items()
        if not (isinstance(answer, dict) and "error" in answer)
    }


def query_game(game: Game, username: str, tool: str, arguments: Json) -> Any:
    """What one query would answer an account now; UnknownError, ValueError."""
    player, words = _player(game, username), game.tools.get(tool)
    if tool not in QUERIES or words is None or words.writes:
        raise UnknownError(f"no query {tool}")
    try:
        checked = words.check_arguments(arguments)
    except GameError as error:
        raise ValueError(error.message) from None
    return _snapshot(game, player, tool, checked)


def let_happen(game: Game, username: str, kind: str, about: Json) -> None:
    """Let an event happen to an account; `about` are a Case's fields, and `data`.

    Raises UnknownError, and ValueError where it cannot happen.
    """
    given = dict(about)
    data = given.pop("data", None)
    if not isinstance(data, dict | None):
        raise ValueError("data is an object")
    for name, value in given.items():
        if name not in _ABOUT:
            raise ValueError(f"{name} is unknown; give {', '.join(_ABOUT)} or data")
        fits, words = _ABOUT[name]
        if not fits(game, value):
            raise ValueError(f"{name} is {words}")
    case = happenings.Case(game.state, _player(game, username), **given)
    happenings.let_happen(case, kind, data)


_ABOUT: dict[str, tuple[Callable[[Game, Any], bool], str]] = {
    "subject": (lambda game, value: isinstance(value, str), "the id of a thing"),
    "count": (lambda game, value: type(value) is int and 1 <= value <= MOST_AT_ONCE,
              f"a whole number from 1 to {MOST_AT_ONCE}"),
    "base_id": (lambda game, value: str(value) in game.state.world.bases,
                "a base's id"),
}  # fmt: skip

_CAPTAIN = make_view("credits empire system_id docked_at_base=docked_at")
_FACTS = make_view(
    "hull max_hull=build.hull shield max_shield=build.shield fuel max_fuel=build.fuel"
    " cargo_used cargo_capacity=build.cargo"
)
_PENDING = make_view("tool due_tick begun arguments")


def _describe_facts(game: Game, player: Player) -> Json:
    """The figures of an account in the payloads' own field names."""
    world = game.state.world
    flight = player.pending if player.in_transit else None
    return {
        **_CAPTAIN(player),
        "system_name": world.systems[player.system_id].name,
        "poi_id": None if flight else player.poi_id,
        "poi_name": None if flight else world.pois[player.poi_id].name,
        "in_transit": flight is not None,
        "arrival_tick": flight.due_tick if flight else None,
        **_FACTS(player.ship),
        "cargo": dict(player.ship.cargo),
        "skills": {name: skill.level for name, skill in player.skills.items()},
        "stats": dict(player.stats),
    }


def _player(game: Game, username: str) -> Player:
    if player := game.state.find_player(username):
        return player
    raise UnknownError(f"no account {username}")


def _is_told(game: Game, name: str) -> bool:
    """Is it a query of this era that needs no arguments and only reads?"""
    tool = game.tools.get(name)
    if tool is None or name in LEFT_OUT or tool.writes:
        return False
    return not any(parameter.required for parameter in tool.parameters)


def _snapshot(game: Game, player: Player, name: str, arguments: Json) -> Any:
    try:
        value = QUERIES[name](Call(game.state, player, arguments))
    except GameError as error:
        return {"error": {"code": error.code, "message": error.message}}
    return json.loads(value) if isinstance(value, str) else value


# --- The port


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
    routes = [
        _route("/truth", lambda given: describe_accounts(game)),
        _route("/truth/{username}", levers.describe_account),
        _route("/truth/{username}/{tool}", levers.query_game),
        _route("/calls", lambda given: {k: one.view() for k, one in tallies.items()}),
        _route("/calls/reset", levers.reset_calls, "POST"),
        _route("/step", levers.step, "POST"),
        _route("/clock", levers.set_clock, "POST"),
        _route("/held", levers.wait_until_held, "POST"),
        _route("/happen", levers.let_happen, "POST", 201),
        _route("/faults", levers.show_faults),
        _route("/faults", levers.set_faults, "POST"),
        _route("/faults/once", levers.strike_once, "POST", 201),
    ]
    return Starlette(routes=routes)


def _route(
    path: str, lever: Callable[[Json], Any], method: str = "GET", status: int = 200
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
            result = lever({**query, **body, **request.path_params})
            if inspect.isawaitable(result):
                result = await result
        except UnknownError as error:
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

    def describe_account(self, given: Json) -> Json:
        return describe_account(self._host.game, given["username"])

    def query_game(self, given: Json) -> Any:
        username, tool = given.pop("username"), given.pop("tool")
        return query_game(self._host.game, username, tool, given)

    def let_happen(self, given: Json) -> Json:
        name, kind = str(given.pop("username", "")), str(given.pop("kind", ""))
        let_happen(self._host.game, name, kind, given)
        return {}

    def reset_calls(self, given: Json) -> Json:
        self._host.game.state.tallies.clear()
        return {}

    async def step(self, given: Json) -> Json:
        ticks = given.get("ticks", 1)
        if not isinstance(ticks, int) or not 1 <= ticks <= MOST_TICKS:
            raise ValueError(f"ticks must be from 1 to {MOST_TICKS}")
        for _ in range(ticks):
            tick = self._host.step()
            # Whoever waited for this tick acts before the next one.
            await asyncio.sleep(0)
        return {"tick": tick}

    def set_clock(self, given: Json) -> Json:
        self._host.paused = not given.get("running", True)
        return {"running": not self._host.paused}

    async def wait_until_held(self, given: Json) -> Json:
        count = given.get("count", 1)
        if not isinstance(count, int):
            raise ValueError("count must be a whole number")
        await self._host.turns.until_held(count)
        return {"held": self._host.turns.held}

    def show_faults(self, given: Json) -> Json:
        faults = self._host.faults
        return {
            "rates": dict(faults.plan.rates),
            "gone": sorted(faults.plan.gone),
            "struck": dict(faults.struck),
        }

    def set_faults(self, given: Json) -> Json:
        self._host.faults.plan = parse_plan(str(given.get("plan", "")))
        return self.show_faults(given)

    def strike_once(self, given: Json) -> Json:
        words = (str(given.get(name, "")) for name in ("kind", "tool", "username"))
        self._host.faults.order(Order(*words))
        return {}
