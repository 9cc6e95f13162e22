"""Every tool of the game by its name: its words, what it does, and when there was it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sandbox.game import tools
from sandbox.game.actions import combat, space, station
from sandbox.game.actions.action import Action, Call, Json
from sandbox.game.minor import (
    missions,
    orders,
    people,
    salvage,
    ships,
    storage,
    workshop,
)
from sandbox.game.minor.row import Asked, Minor
from sandbox.game.queries import around, own
from sandbox.game.tool import Parameter, Tool

MINOR: tuple[Minor | Asked, ...] = (
    *missions.ROUND,
    *storage.STORAGE,
    *salvage.SALVAGE,
    *people.CHAT,
    *storage.TRADES,
    *workshop.WORKSHOP,
    *orders.ORDERS,
    *storage.GIFTS,
    *missions.DECISIONS,
    *storage.INSURANCE,
    *workshop.FACILITIES,
    *ships.SHIPS,
    *salvage.OUTINGS,
    *people.FACTIONS,
    *people.TEXTS,
    *people.LOOKS,
)
"""The rows in the order in which the game lists them."""

TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (*tools.TOOLS, *(row.tool for row in MINOR))
}
ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        space.TRAVEL,
        space.JUMP,
        space.DOCK,
        space.UNDOCK,
        space.MINE,
        station.BUY,
        station.SELL,
        station.REFUEL,
        station.REPAIR,
        combat.SCAN,
        combat.ATTACK,
        *(row.action() for row in MINOR if isinstance(row, Minor)),
    )
}
"""What takes a captain's turn."""

QUERIES: dict[str, Callable[[Call], Json | str]] = {
    "get_status": own.get_status,
    "get_ship": own.get_ship,
    "get_cargo": own.get_cargo,
    "get_skills": own.get_skills,
    "get_notifications": own.get_notifications,
    "get_system": around.get_system,
    "get_poi": around.get_poi,
    "get_base": around.get_base,
    "get_nearby": around.get_nearby,
    "view_market": around.view_market,
    "get_map": around.get_map,
    "search_systems": around.search_systems,
    "find_route": around.find_route,
    "captains_log_add": own.captains_log_add,
    "captains_log_list": own.captains_log_list,
    "captains_log_get": own.captains_log_get,
    **{row.tool.name: row.answer for row in MINOR if isinstance(row, Asked)},
}
"""What takes no turn: questions, and what is written down."""

_ONLY_IN = {
    "A": frozenset(
        {"deploy_drone", "recall_drone", "get_drones", "get_listings", "get_ships"}
        | {"buy_ship", "claim_insurance", "set_anonymous"}
    ),
    "C": frozenset(
        {"facility", "commission_ship", "get_battle_status", "get_queue"}
        | {"decline_mission", "completed_missions", "get_insurance_quote"}
        | {"tow_wreck", "release_tow", "sell_wreck", "captains_log_delete"}
        | {"survey_system", "use_item", "reload", "name_ship"}
    ),
}
"""Tools that were taken away, and those that were not there from the first."""


def tools_of(era: str) -> dict[str, Tool]:
    """The tools of an era; since v0.63.1 the log is read one entry at a time."""
    absent = frozenset().union(*(_ONLY_IN[one] for one in _ONLY_IN if one != era))
    tools = {name: tool for name, tool in TOOLS.items() if name not in absent}
    if era != "C":
        return tools
    index = Parameter("index", "integer", "0 is the newest entry", required=False)
    reader = replace(
        TOOLS["captains_log_list"],
        description="Read one entry of your captain's log, the newest by default.",
        parameters=(index,),
        example={"index": 0},
    )
    return {**tools, reader.name: reader}
