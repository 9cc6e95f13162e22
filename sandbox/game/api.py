"""What a server of one API version lists and answers: commands as they are, or v2.

API v2 has some 20 tools, each with an `action`, instead of one for each command. The
tools are made of the same commands. An action takes the command's own arguments, and
the generic ones (`id`, `quantity`, `target`, `content`) in their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox.game.config import GameError, Json, unknown_command
from sandbox.game.dashboards import render_result, render_state
from sandbox.game.game import Game
from sandbox.game.state import State
from sandbox.game.table import QUERIES
from sandbox.game.tool import SESSION_ID, Tool
from sandbox.game.tools.rules import Call
from sandbox.game.world.models import Player

CORE = "spacemolt"
# Which commands a group holds; the core has the others. `short=command` is an action
# with a name of its own.
_GROUPS: Mapping[str, str] = {
    "auth": "register login logout",
    "ship": """get_ship list_ships switch_ship install_mod uninstall_mod name_ship
        buy_ship sell_ship commission_ship get_ships""",
    "storage": """view=view_storage deposit=deposit_items withdraw=withdraw_items
        deposit_credits withdraw_credits""",
    "market": """view_market view_orders create_buy_order create_sell_order cancel_order
        modify_order estimate_purchase get_listings""",
    "faction": """info=faction_info list=faction_list join=join_faction
        leave=leave_faction get_invites=faction_get_invites invite=faction_invite
        declare_war=faction_declare_war""",
    "faction_admin": "create_faction",
    "social": """chat get_chat_history get_trades trade_offer trade_accept trade_decline
        trade_cancel forum_list forum_get_thread forum_create_thread forum_reply
        create_note write_note read_note get_notes set_status set_colors set_anonymous
        captains_log_add captains_log_list captains_log_get captains_log_delete""",
    "transfer": "send_gift",
    "intel": "get_map search_systems find_route",
    "battle": "engage=attack scan cloak status=get_battle_status reload self_destruct",
    "salvage": """wrecks=get_wrecks loot=loot_wreck salvage=salvage_wreck
        sell=sell_wreck tow=tow_wreck release=release_tow quote=get_insurance_quote
        insure=buy_insurance set_home=set_home_base claim_insurance""",
    "facility": "build=facility produce=facility",
    "drone": "deploy_drone recall_drone get_drones",
}
_GENERIC: Mapping[str, Json] = {
    "id": {"type": "string", "description": "What the action is about"},
    "target": {"type": "string", "description": "Whom or where the action is for"},
    "content": {"type": "string", "description": "Text of the action"},
    "quantity": {"type": "integer", "description": "How many"},
}
# What a generic argument stands for: the first of these that the command takes.
_MEANS: Mapping[str, tuple[str, ...]] = {
    "id": ("item_id", "target_poi", "target_system", "recipe_id", "mission_id",
           "target_id", "wreck_id", "ship_id", "module_id", "order_id", "system_id",
           "base_id", "index", "query"),
    "target": ("target_poi", "target_system", "target_id", "channel", "query"),
    "content": ("entry", "content", "message", "query"),
    "quantity": ("quantity", "count"),
}  # fmt: skip
# What is listed under which `preset` of the address.
PRESETS: Mapping[str, frozenset[str] | None] = {
    "basic": frozenset({"auth", "ship", "storage", "market", "intel", "social"}),
    "standard": frozenset(_GROUPS) - {"faction_admin", "facility", "drone"},
    "full": None,
}


@dataclass(frozen=True, slots=True)
class Group:
    """A tool of several commands, by action."""

    name: str
    actions: Mapping[str, Tool]

    @property
    def read_only(self) -> bool:
        return all(tool.read_only for tool in self.actions.values())

    @property
    def description(self) -> str:
        lines = [_describe(action, tool) for action, tool in self.actions.items()]
        return "\n".join([f"Actions of {self.name}; action=help says more.", *lines])

    def schema(self) -> Json:
        names = [*self.actions, "help"]
        action = {"type": "string", "enum": names, "description": "What"}
        properties: Json = {"session_id": SESSION_ID, "action": action, **_GENERIC}
        for tool in self.actions.values():
            for one in tool.parameters:
                shown = one.schema()
                known = properties.setdefault(one.name, shown)
                if known.get("type") != shown["type"]:
                    # Two commands take the same name in two forms.
                    properties[one.name] = {"description": one.description}
        required = ["action"] if self.is_open else ["session_id", "action"]
        return {"type": "object", "properties": properties, "required": required}

    @property
    def whole(self) -> Tool | None:
        """The one command that the tool is, which takes every action as its own."""
        first, *others = self.actions.values()
        same = all(one is first for one in others)
        takes = any(one.name == "action" for one in first.parameters)
        return first if same and takes else None

    @property
    def is_open(self) -> bool:
        """Whether some action needs no login."""
        return any(tool.open for tool in self.actions.values()) and self.name != CORE


def _describe(action: str, tool: Tool) -> str:
    listed = [one.name if one.required else f"[{one.name}]" for one in tool.parameters]
    kind = "action" if tool.mutation else "query"
    return f"- {action}({', '.join(listed)}): {tool.description} ({kind})"


def group_tools(tools: Mapping[str, Tool]) -> dict[str, Group]:
    """The grouped tools of these commands, by name; no group without an action."""
    found: dict[str, Group] = {}
    taken: set[str] = set()
    for name, words in _GROUPS.items():
        pairs = [word.partition("=") for word in words.split()]
        actions = {
            short: tools[command or short]
            for short, _, command in pairs
            if (command or short) in tools
        }
        taken.update(tool.name for tool in actions.values())
        if actions:
            found[f"{CORE}_{name}"] = Group(f"{CORE}_{name}", actions)
    rest = {name: tool for name, tool in tools.items() if name not in taken}
    return {CORE: Group(CORE, rest), **found}


def choose_groups(
    groups: Mapping[str, Group], preset: str = "", exclude: Iterable[str] = ()
) -> list[Group]:
    """The groups that an address asks for; an unknown preset is the usual one."""
    wanted = PRESETS.get(preset, PRESETS["standard"])
    left_out = {f"{CORE}_{name}" for name in exclude}
    return [
        group
        for name, group in groups.items()
        if name not in left_out
        and (wanted is None or name == CORE or name.removeprefix(f"{CORE}_") in wanted)
    ]


def read_call(
    groups: Mapping[str, Group], name: str, arguments: Json
) -> tuple[str, Json]:
    """The command that a call of a grouped tool is, with the command's arguments.

    Raises GameError for an unknown tool or action. The command "" is a call for help.
    """
    group = groups.get(name)
    if group is None:
        raise unknown_command(name)
    action = arguments.get("action")
    if action == "help":
        return "", {}
    tool = group.actions.get(action) if isinstance(action, str) else None
    tool = tool or group.whole
    if tool is None:
        listed = ", ".join(group.actions)
        raise GameError(
            "invalid_payload",
            f"Unknown action {str(action)[:60]!r} of {name}. Actions: {listed}.",
        )
    # A command such as facility has an action of its own.
    own = {one.name for one in tool.parameters}
    given = {k: v for k, v in arguments.items() if k != "action" or "action" in own}
    for generic, names in _MEANS.items():
        if generic not in given or generic in own:
            continue
        means = next((one for one in names if one in own), None)
        if means is not None and given.get(means) is None:
            given[means] = given.pop(generic)
    return tool.name, given


class Listed(Protocol):
    """What a listed tool has: a command's own tool, and a group of them."""

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
    ask = Call(state, player, {})

    def answer(command: str) -> Json:
        view = QUERIES[command](ask)
        return view if isinstance(view, dict) else {}

    system = state.world.systems[player.system_id]
    return {
        "system": {"name": system.name, "connections": system.connections},
        "security": answer("get_system").get("security_status", ""),
        "near": {} if player.in_transit else answer("get_nearby"),
        "cargo": answer("get_cargo")["cargo"],
        "skills": answer("get_skills")["player_skills"],
        "missions": answer("get_active_missions")["missions"],
    }
