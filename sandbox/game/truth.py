"""What is true, for tests that compare it with what somebody believes.

Nothing here but `happen` changes the game, nothing counts as a call, and no secret is
given.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sandbox.game import happenings
from sandbox.game.actions.action import Call
from sandbox.game.config import GameError, Json, fields
from sandbox.game.game import Game
from sandbox.game.table import QUERIES
from sandbox.game.tool import check
from sandbox.game.views import log_view
from sandbox.game.world.models import Player

LEFT_OUT = frozenset({"get_map", "get_skills", "get_recipes", "get_notifications"})
"""Long or draining tools; they are had by their name."""

MOST_AT_ONCE = 1_000_000


class UnknownError(Exception):
    """No such account, or no such query."""


def accounts(game: Game) -> Json:
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


def account(game: Game, username: str) -> Json:
    """All that is true of an account now. Raises UnknownError.

    `snapshots` hold, by tool, the very answers that the account would get now, errors
    as {"error": {code, message}}.
    """
    player = _player(game, username)
    names = [name for name in QUERIES if _is_told(game, name)]
    return {
        "tick": game.tick,
        "era": game.config.era,
        "username": player.username,
        "player_id": player.id,
        "online": game.state.sessions.is_online(player.id),
        "facts": facts(game, player),
        "action": _PENDING(player.pending) if player.pending else None,
        "snapshots": {name: _snapshot(game, player, name, {}) for name in names},
        "log": log_view(player.log),
        "waiting": [
            [one.view() for one in session.mailbox.waiting]
            for session in game.state.sessions.of(player.id)
        ],
        "calls": game.state.tallies[player.username].view(),
    }


def snapshot(game: Game, username: str, tool: str, arguments: Json) -> Any:
    """What one query would answer an account now; UnknownError, ValueError."""
    player, words = _player(game, username), game.tools.get(tool)
    if tool not in QUERIES or words is None or words.writes:
        raise UnknownError(f"no query {tool}")
    try:
        checked = check(words.parameters, words.example, arguments)
    except GameError as error:
        raise ValueError(error.message) from None
    return _snapshot(game, player, tool, checked)


def happen(game: Game, username: str, kind: str, about: Json) -> None:
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
    happenings.happen(case, kind, data)


_ABOUT: dict[str, tuple[Callable[[Game, Any], bool], str]] = {
    "subject": (lambda game, value: isinstance(value, str), "the id of a thing"),
    "count": (
        lambda game, value: type(value) is int and 1 <= value <= MOST_AT_ONCE,
        f"a whole number from 1 to {MOST_AT_ONCE}",
    ),
    "base_id": (
        lambda game, value: str(value) in game.state.world.bases,
        "a base's id",
    ),
}


_FACTS = fields(
    "hull max_hull=build.hull shield max_shield=build.shield fuel max_fuel=build.fuel"
    " cargo_used cargo_capacity=build.cargo"
)
_PENDING = fields("tool due_tick begun arguments")


def facts(game: Game, player: Player) -> Json:
    """The figures of an account in the payloads' own field names."""
    world = game.state.world
    flight = player.pending if player.in_transit else None
    return {
        "credits": player.credits,
        "empire": player.empire,
        "system_id": player.system_id,
        "system_name": world.systems[player.system_id].name,
        "poi_id": None if flight else player.poi_id,
        "poi_name": None if flight else world.pois[player.poi_id].name,
        "in_transit": flight is not None,
        "arrival_tick": flight.due_tick if flight else None,
        "docked_at_base": player.docked_at,
        **_FACTS(player.ship),
        "cargo": dict(player.ship.cargo),
        "skills": {name: skill.level for name, skill in player.skills.items()},
        "stats": dict(player.stats),
    }


def _player(game: Game, username: str) -> Player:
    player_id = game.state.usernames.get(username.casefold())
    if player_id is None:
        raise UnknownError(f"no account {username}")
    return game.state.players[player_id]


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
