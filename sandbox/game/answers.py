"""What a server of one API version lists and answers: commands as they are, or v2."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from sandbox.game.config import GameError, Json
from sandbox.game.dashboards import render_result, render_state
from sandbox.game.game import Game
from sandbox.game.grouped import choose_groups, group_tools, read_call
from sandbox.game.state import State
from sandbox.game.table import QUERIES
from sandbox.game.tools.rules import Call
from sandbox.game.world.models import Player


class Listed(Protocol):
    """A tool as it is listed."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    def schema(self) -> Json: ...


class Api:
    """The tools of a game, as the version that it serves has them."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._grouped = game.config.is_grouped
        self._groups = group_tools(game.tools) if self._grouped else {}

    def list_tools(self, query: Mapping[str, str]) -> Iterable[Listed]:
        """The tools; `query` is that of the address, where v2 takes a `preset`."""
        if not self._grouped:
            return self._game.tools.values()
        exclude = query.get("exclude", "").split(",")
        return choose_groups(self._groups, query.get("preset", ""), exclude)

    def read_call(self, name: str, arguments: Json) -> tuple[str, Json]:
        """The command of a call and its arguments; "" for a call for help.

        Raises GameError for a tool or an action that is not there.
        """
        if not self._grouped:
            return name, arguments
        return read_call(self._groups, name, arguments)

    def name_command(self, name: str, arguments: Json) -> str:
        """The command of a call, the tool's own name where there is none."""
        try:
            return self.read_call(name, arguments)[0] or name
        except GameError:
            return name

    def help(self, name: str) -> str:
        return self._groups[name].description

    def render(self, command: str, text: str, session_id: object) -> str:
        """The answer to a command, in the words of this version."""
        if not self._grouped:
            return text
        try:
            result = json.loads(text)
        except ValueError:
            return text
        if command != "get_status":
            return render_result(command, result)
        state = self._game.state
        player = state.players[state.sessions.use(session_id).player_id]
        return render_query(state, player, command, result)


def render_query(state: State, player: Player, command: str, result: Any) -> str:
    """The text of a query's answer: get_status tells what is around the ship as well."""
    if command == "get_status":
        return render_state(result, _look_around(state, player))
    return render_result(command, result)


def _look_around(state: State, player: Player) -> Json:
    system = state.world.systems[player.system_id]
    ask = Call(state, player, {})
    near = QUERIES["get_nearby"](ask) if not player.in_transit else {}
    cargo = QUERIES["get_cargo"](ask)
    skills = QUERIES["get_skills"](ask)
    security = QUERIES["get_system"](ask)
    return {
        "system_name": system.name,
        "connections": list(system.connections),
        "security": _of(security).get("security_status", ""),
        "players": [_player(one) for one in _of(near).get("nearby") or ()],
        "pirates": _of(near).get("pirates") or [],
        "cargo": [
            {
                "item": one["name"],
                "qty": f"{one['quantity']:,}",
                "size": one["size"],
            }
            for one in _of(cargo)["cargo"]
        ],
        "skills": [
            {
                "skill": one["skill_id"],
                "level": one["level"],
                "xp": one["current_xp"],
                "next_level": one["next_level_xp"],
            }
            for one in _of(skills)["player_skills"]
        ],
        "missions": [
            f"{one['title']} ({one['type']})"
            for one in _of(QUERIES["get_active_missions"](ask))["missions"] or ()
        ],
    }


def _of(view: Json | str) -> Json:
    return view if isinstance(view, dict) else {}


def _player(one: Mapping[str, Any]) -> Json:
    return {
        "name": one["username"],
        "ship": one["ship_class"],
        "faction": one.get("clan_tag", ""),
        "combat": "yes" if one.get("in_combat") else "",
        "status": "online",
    }
