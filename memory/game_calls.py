"""What a tool call asks of the game, in the words of API v1 (API.md sections 1, 2 and 6).

A server of API v2 offers some 20 grouped tools, and an argument ``action`` says what is
meant: ``spacemolt_market {"action": "sell", "id": "ore_iron"}`` is the command ``sell``.
The tool `WRAPPER` names a tool of the game and its arguments. Kind, effects and the place
of a stored answer follow the command, whichever way it was called. An action that is
not known stands as ``tool/action`` and counts as one that changes the game.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

GROUP = "spacemolt"
ACTION = "action"
# Our own tool for calling one of the game's by its name.
WRAPPER = "game"
HELP = "help"


def _set_of(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Commands that change nothing, though some are not named like a read.
READS = _set_of(
    """
    get_status get_state get_player get_ship get_cargo get_system get_poi get_base
    get_nearby get_location get_queue get_map get_skills get_recipes get_ships
    get_listings get_version get_commands get_notifications get_trades get_wrecks
    get_missions get_active_missions get_notes get_drones get_drone get_battle_status
    get_insurance_quote get_chat_history get_action_log get_guide get_base_cost
    get_base_wrecks get_tax_estimate get_system_agents get_empire_info
    view_market view_storage view_orders view_insurance view_completed_mission
    view_faction_storage list_ships captains_log_list captains_log_get
    find_route search_systems estimate_purchase analyze_market browse_ships
    commission_quote commission_status completed_missions raid_status catalog help
    read_note forum_list forum_get_thread faction_info faction_list
    faction_get_invites faction_rooms faction_intel_status faction_query_intel
    faction_trade_intel_status faction_query_trade_intel faction_list_missions
    """
)

# Commands that change the game, the account or what others see.
WRITES = _set_of(
    """
    register login logout claim session
    travel jump dock undock attack hunt scan cloak self_destruct battle reload mine
    buy sell refuel repair craft jettison survey_system use_item distress_signal
    create_sell_order create_buy_order cancel_order modify_order list_item cancel_list
    buy_listing trade_offer trade_accept trade_decline trade_cancel
    buy_ship sell_ship switch_ship install_mod uninstall_mod repair_module refit
    refit_ship name_ship rename_ship buy_listed_ship list_ship_for_sale
    cancel_ship_listing commission_ship claim_commission cancel_commission
    supply_commission scrap_ship
    loot_wreck salvage_wreck scrap_wreck sell_wreck tow_wreck release_tow
    loot_base_wreck salvage_base_wreck
    deposit_items withdraw_items deposit_credits withdraw_credits send_gift
    accept_mission complete_mission abandon_mission decline_mission
    chat forum_create_thread forum_reply forum_upvote forum_delete_thread
    forum_delete_reply create_note write_note delete_note
    captains_log_add captains_log_delete set_status set_colors set_anonymous
    buy_insurance claim_insurance set_home_base
    create_faction join_faction leave_faction faction_invite faction_kick
    faction_promote faction_decline_invite faction_accept_invite
    faction_withdraw_invite faction_set_ally faction_propose_ally faction_accept_ally
    faction_remove_ally faction_set_enemy faction_remove_enemy faction_declare_war
    faction_propose_peace faction_accept_peace faction_edit faction_create_role
    faction_edit_role faction_delete_role faction_visit_room faction_write_room
    faction_delete_room faction_submit_intel faction_submit_trade_intel
    faction_deposit_items faction_withdraw_items faction_deposit_credits
    faction_withdraw_credits faction_gift faction_post_mission faction_cancel_mission
    faction_create_buy_order faction_create_sell_order
    build_base attack_base deploy_drone recall_drone order_drone load_drone
    unload_drone upload_drone_script set_drone_name facility fleet petition agentlogs
    """
)
COMMANDS = READS | WRITES
_AUTH = _set_of("register login logout claim session")

# Actions with a shorter name than their command, by tool.
_ALIASES: Mapping[str, Mapping[str, str]] = {
    "spacemolt_storage": {
        "view": "view_storage",
        "deposit": "deposit_items",
        "withdraw": "withdraw_items",
    },
    "spacemolt_salvage": {
        "wrecks": "get_wrecks",
        "loot": "loot_wreck",
        "salvage": "salvage_wreck",
        "scrap": "scrap_wreck",
        "tow": "tow_wreck",
        "release": "release_tow",
        "sell": "sell_wreck",
        "quote": "get_insurance_quote",
        "insure": "buy_insurance",
        "set_home": "set_home_base",
    },
    "spacemolt_battle": {"engage": "attack", "status": "get_battle_status"},
    "spacemolt_faction": {
        "create": "create_faction",
        "join": "join_faction",
        "leave": "leave_faction",
        "view_storage": "view_faction_storage",
    },
    "spacemolt_transfer": {"gift": "send_gift"},
}
# Tools that are one command, which has an action of its own. Their actions may be
# called like another command and mean another thing.
_WHOLE_TOOLS = {"spacemolt_facility": "facility", "spacemolt_fleet": "fleet"}
# Tools whose actions that are no command of their own belong to one.
_FALLBACK_COMMAND = {"spacemolt_battle": "battle"}
# Tools whose actions are commands without this beginning.
_COMMAND_PREFIX = {
    "spacemolt_faction": "faction_",
    "spacemolt_faction_admin": "faction_",
    "spacemolt_faction_commerce": "faction_",
}
# The tools whose actions are commands of v1, as far as is known (API.md section 6).
# Another tool's action may be called like a command and mean another thing.
_KNOWN_GROUPS = {GROUP} | {
    f"{GROUP}_{name}"
    for name in _set_of(
        """auth ship storage market faction faction_admin faction_commerce social
        catalog transfer intel facility battle salvage fleet drone"""
    )
}
# The tools without an action.
_SINGLE = {"spacemolt_catalog": "catalog"}

# The generic arguments of v2 by the names that commands have for them.
_ITEM = {"id": "item_id"}
_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "travel": {"id": "target_poi", "target": "target_poi"},
    "jump": {"id": "target_system", "target": "target_system"},
    "find_route": {"id": "target_system", "target": "target_system"},
    "search_systems": {"content": "query", "target": "query", "id": "query"},
    "get_map": {"id": "system_id"},
    **dict.fromkeys(
        _set_of(
            """buy sell jettison deposit_items withdraw_items view_market use_item
            estimate_purchase create_sell_order create_buy_order"""
        ),
        _ITEM,
    ),
    "craft": {"id": "recipe_id"},
    "attack": {"id": "target_id", "target": "target_id"},
    "scan": {"id": "target_id", "target": "target_id"},
    "loot_wreck": {"id": "wreck_id"},
    "salvage_wreck": {"id": "wreck_id"},
    "accept_mission": {"id": "mission_id"},
    "complete_mission": {"id": "mission_id"},
    "abandon_mission": {"id": "mission_id"},
    "switch_ship": {"id": "ship_id"},
    "install_mod": {"id": "module_id"},
    "uninstall_mod": {"id": "module_id"},
    "cancel_order": {"id": "order_id"},
    "captains_log_add": {"content": "entry"},
    "captains_log_get": {"id": "index"},
    "chat": {"target": "channel"},
    "get_chat_history": {"target": "channel"},
    "set_home_base": {"id": "base_id"},
}


@dataclass(frozen=True, slots=True)
class GameCall:
    """A call as the game understands it.

    ``tool`` is the tool of the game that is called, ``name`` the command and
    ``arguments`` the command's own. ``grouped`` says that an argument of ``tool`` names
    the command, ``unread`` that the arguments are no JSON object, so that it is not known.
    """

    tool: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    grouped: bool = False
    unread: bool = False


def is_group(tool: str) -> bool:
    """Whether a tool holds several commands: those of API v2 all begin alike."""
    return tool == GROUP or (tool.startswith(f"{GROUP}_") and "/" not in tool)


def read_wrapped(given: Mapping[str, Any]) -> tuple[str, Any] | None:
    """The tool that a call of `WRAPPER` names, and its arguments as they were given.

    None where it names none. Many models write the arguments as a text.
    """
    named = given.get("command")
    if not isinstance(named, str) or not named.strip():
        return None
    return named.strip(), given.get("arguments")


def resolve_call(tool: str, arguments: Mapping[str, Any] | None = None) -> GameCall:
    """The command that a call names, whichever way it names it."""
    given: Any = arguments or {}
    while tool == WRAPPER and (wrapped := read_wrapped(given or {})) is not None:
        tool, inner = wrapped
        given = _read_object(inner) if isinstance(inner, str) else inner or {}
        given = given if isinstance(given, Mapping) else None
    call = _resolve(tool, given or {})
    return call if given is not None else replace(call, unread=call.grouped)


def resolve_call_text(tool: str, arguments: str) -> GameCall:
    """`resolve_call` of arguments as JSON text; what is no object counts as none."""
    if tool != WRAPPER and not is_group(tool):
        return GameCall(tool, tool)
    return _resolve_text(tool, arguments)


@lru_cache(maxsize=4096)
def _resolve_text(tool: str, arguments: str) -> GameCall:
    given = _read_object(arguments)
    call = resolve_call(tool, given)
    return call if given is not None else replace(call, unread=call.grouped)


def _read_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _resolve(tool: str, given: Mapping[str, Any]) -> GameCall:
    if not is_group(tool):
        return GameCall(tool, tool, given)
    action = given.get(ACTION)
    if not isinstance(action, str) or not action.strip():
        name = _SINGLE.get(tool, tool)
        return GameCall(tool, name, _rename(name, given), grouped=True)
    name = find_command(tool, action.strip())
    # A command such as facility has an action of its own.
    own = name in (_WHOLE_TOOLS.get(tool), _FALLBACK_COMMAND.get(tool))
    kept = given if own else _without_action(given)
    return GameCall(tool, name, _rename(name, kept), grouped=True)


def _without_action(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != ACTION}


def find_command(tool: str, action: str) -> str:
    """The command that an action of a grouped tool is; ``tool/action`` if unknown."""
    if action == HELP:
        return HELP
    known = _WHOLE_TOOLS.get(tool) or _ALIASES.get(tool, {}).get(action)
    if known is not None:
        return known
    if tool not in _KNOWN_GROUPS:
        return f"{tool}/{action}"
    begun = f"{_COMMAND_PREFIX[tool]}{action}" if tool in _COMMAND_PREFIX else action
    if begun in COMMANDS:
        return begun
    if action in COMMANDS:
        return action
    return _FALLBACK_COMMAND.get(tool, f"{tool}/{action}")


def _rename(name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments by the command's own names, where those are not given as well."""
    names = _ARGUMENTS.get(name)
    if not names or not names.keys() & given.keys():
        return given
    renamed: dict[str, Any] = {}
    for key, value in given.items():
        own = names.get(key, key)
        if own == key or (own not in given and own not in renamed):
            renamed[own] = value
    return renamed


def list_secret_names(
    tools: frozenset[str], actions: Mapping[str, Iterable[str]] | None = None
) -> frozenset[str]:
    """The tools, with all commands that a grouped one of them may hold.

    Results are kept under the name of their command. ``actions`` are those that a
    grouped tool lists; of one that lists none, every command may be.
    """
    held: set[str] = set()
    for tool in filter(is_group, tools):
        if listed := (actions or {}).get(tool):
            held |= {find_command(tool, action) for action in listed}
        else:
            held |= _AUTH if tool == f"{GROUP}_auth" else COMMANDS
    return tools | held


def list_action_names(commands: Collection[str]) -> frozenset[str]:
    """The actions by which grouped tools may be told to carry out one of these."""
    found = {name.rpartition("/")[2] for name in commands if not is_group(name)}
    for aliases in _ALIASES.values():
        found |= {action for action, name in aliases.items() if name in commands}
    for prefix in set(_COMMAND_PREFIX.values()):
        begun = {name for name in commands if name.startswith(prefix)}
        found |= {name.removeprefix(prefix) for name in begun}
    return frozenset(found)


def is_secret_call(name: str, arguments: object, secret: Collection[str]) -> bool:
    """Whether a call is of a secret tool or command, whichever way it was made.

    A call of `WRAPPER`, or of a tool with many commands, of which cannot be read what
    it names may be of any.
    """
    if not secret or name in secret:
        return name in secret
    if isinstance(arguments, str):
        call = resolve_call_text(name, arguments)
    else:
        given = arguments if isinstance(arguments, Mapping) else {}
        call = resolve_call(name, given)
    unknown = call.tool == WRAPPER or call.unread
    return unknown or call.name in secret or call.tool in secret


# --- Which tool of a server carries out a command


@dataclass(frozen=True, slots=True)
class Route:
    """The tool to call for a command, and what to add to the command's arguments."""

    tool: str
    arguments: Mapping[str, str] = field(default_factory=dict)


def find_route(name: str, schemas: Mapping[str, Mapping[str, Any]]) -> Route | None:
    """The tool that carries out a command, of those offered; None where none does.

    ``schemas`` are the parameters of each tool by its name.
    """
    if name in schemas and not is_group(name):
        return Route(name)
    usual = _USUAL.get(name, "")
    if usual in schemas and not list_actions(schemas[usual]):
        return Route(usual, {ACTION: name})
    groups = sorted(filter(is_group, schemas), key=lambda tool: tool != usual)
    for tool in groups:
        actions = list_actions(schemas[tool])
        if _SINGLE.get(tool) == name and not actions:
            return Route(tool)
        for action in actions:
            if find_command(tool, action) == name:
                return Route(tool, {ACTION: action})
    return None


# Where commands were in July 2026: looked at first, and taken as given where a server
# does not list the actions of a tool.
_USUAL = {
    **dict.fromkeys(("register", "login", "logout"), f"{GROUP}_auth"),
    "get_ship": f"{GROUP}_ship",
    "list_ships": f"{GROUP}_ship",
    "view_storage": f"{GROUP}_storage",
    "view_market": f"{GROUP}_market",
    "view_orders": f"{GROUP}_market",
    "get_chat_history": f"{GROUP}_social",
    "get_trades": f"{GROUP}_social",
    "captains_log_list": f"{GROUP}_social",
    **dict.fromkeys(
        _set_of(
            """get_status get_cargo get_system get_poi get_base get_nearby get_skills
            get_notifications get_active_missions get_missions"""
        ),
        GROUP,
    ),
}


def list_actions(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The actions that a grouped tool's schema lists; none where it lists none."""
    properties = schema.get("properties")
    action = properties.get(ACTION) if isinstance(properties, Mapping) else None
    listed = action.get("enum") if isinstance(action, Mapping) else None
    return tuple(filter(_is_text, listed)) if isinstance(listed, list) else ()


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def find_api_version(title: str, tools: Collection[str]) -> int:
    """The version of the API: 2 where tools are grouped, else 1.

    The tools decide; what the server calls itself only where they say nothing, since an
    address or a name may promise what the list does not hold.
    """
    if any(map(is_group, tools)):
        return 2
    if tools:
        return 1
    return 2 if "v2" in title.lower() else 1
