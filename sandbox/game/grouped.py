"""API v2: some 20 tools, each with an `action`, instead of one for each command.

The tools are made of the same commands. An action takes the command's own arguments,
and the generic ones (`id`, `quantity`, `target`, `content`) in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sandbox.game.config import GameError, Json, unknown_command
from sandbox.game.tool import SESSION_ID, Tool

CORE = "spacemolt"
# Which commands a group holds; the core has the others. `short=command` is an action
# with a name of its own.
_GROUPS: Mapping[str, str] = {
    "auth": "register login logout",
    "ship": """get_ship list_ships switch_ship install_mod uninstall_mod name_ship
        buy_ship sell_ship commission_ship list_ship_for_sale browse_ships get_ships
        buy_listed_ship repair_module refit""",
    "storage": """view=view_storage deposit=deposit_items withdraw=withdraw_items
        deposit_credits withdraw_credits""",
    "market": """view_market view_orders create_buy_order create_sell_order cancel_order
        modify_order estimate_purchase analyze_market get_listings""",
    "faction": """info=faction_info list=faction_list join=join_faction
        leave=leave_faction get_invites=faction_get_invites invite=faction_invite
        kick=faction_kick promote=faction_promote decline_invite=faction_decline_invite
        set_ally=faction_set_ally set_enemy=faction_set_enemy
        declare_war=faction_declare_war propose_peace=faction_propose_peace
        accept_peace=faction_accept_peace""",
    "faction_admin": "create_faction",
    "social": """chat get_chat_history get_trades trade_offer trade_accept trade_decline
        trade_cancel forum_list forum_get_thread forum_create_thread forum_reply
        forum_upvote create_note write_note read_note get_notes set_status set_colors
        set_anonymous captains_log_add captains_log_list captains_log_get
        captains_log_delete""",
    "transfer": "send_gift",
    "intel": "get_map search_systems find_route",
    "battle": """engage=attack scan cloak status=get_battle_status reload
        self_destruct""",
    "salvage": """wrecks=get_wrecks loot=loot_wreck salvage=salvage_wreck
        scrap=scrap_wreck sell=sell_wreck tow=tow_wreck release=release_tow
        quote=get_insurance_quote insure=buy_insurance set_home=set_home_base
        claim_insurance""",
    "facility": "build=facility produce=facility",
    "drone": "deploy_drone recall_drone order_drone get_drones",
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
        properties: Json = {} if self.is_open else {"session_id": SESSION_ID}
        if self.is_open:
            properties["session_id"] = SESSION_ID
        names = [*self.actions, "help"]
        properties["action"] = {"type": "string", "enum": names, "description": "What"}
        properties |= _GENERIC
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
