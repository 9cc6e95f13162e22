"""Every tool of the game by its name: its words, what it does, its eras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from sandbox.game.queries.own import LONGEST_ENTRY
from sandbox.game.tool import ITEM, QUANTITY, Parameter, Tool, text

_USERNAME = text("username", "Your captain's name", own_error=True)
_TARGET = text("target_id", "The ID of a ship at your location, from get_nearby")

_AUTH = (
    Tool("register", "auth", "Create a new account and log in.",
         (_USERNAME,
          text("empire", "solarian, voidborn, crimson, nebula or outerrim",
               own_error=True),
          text("registration_code", "Your registration code", required=False)),
         {"username": "your_name", "empire": "solarian"},
         "Keep the password: it cannot be recovered.", writes=True, open=True),
    Tool("login", "auth", "Log in to an existing account.",
         (_USERNAME, text("password", "Your password", own_error=True)),
         {"username": "your_name", "password": "your_password"},
         "Returns the session_id that all other tools need.", writes=True, open=True),
    Tool("logout", "auth", "End your session.", writes=True),
)  # fmt: skip

_INFORMATION = (
    Tool("get_status", "query", "Get your player, your ship and its modules."),
    Tool("get_ship", "query", "Get your ship in detail, with its class and modules."),
    Tool("get_cargo", "query", "Get what is in your hold."),
    Tool("get_system", "query", "Get the current system with its POIs."),
    Tool("get_poi", "query", "Get the POI where you are, with resources and base."),
    Tool("get_base", "query", "Get details of the base where you are docked.",
         notes="You must be docked."),
    Tool("get_nearby", "query", "See who else is at your POI."),
    Tool("get_map", "query", "Get all systems of the galaxy and their connections.",
         (text("system_id", "Only this system", required=False),),
         {"system_id": "sol"}),
    Tool("get_notifications", "query",
         "Poll for pending notifications (chat, combat, trades, etc.).",
         (Parameter("limit", "integer", "How many at most", required=False,
              listed=False, least=1, most=100),
          Parameter("clear", "boolean", "Remove what was read", required=False,
              listed=False),
          Parameter("types", "array", "Only these types", required=False,
              listed=False)), {"limit": 50, "clear": True},
         "Reading clears. The queue holds 100; the oldest are dropped."),
    Tool("get_skills", "query", "Get all skills and what you have learned."),
    Tool("get_version", "query", "Get the game's version.", open=True),
    Tool("get_commands", "query", "Get the list of all commands.", open=True),
    Tool("view_market", "trading", "See what the station buys and sells.",
         (text("item_id", "Only this item", required=False),), {"item_id": "ore_iron"},
         "You must be docked."),
    Tool("find_route", "navigation", "Find the shortest way to a system.",
         (text("target_system", "The system's ID"),), {"target_system": "sol"}),
    Tool("search_systems", "navigation", "Search systems by name.",
         (text("query", "Part of the name", own_error=True),), {"query": "sol"},
         "At most 20 systems."),
)  # fmt: skip

_ACTIONS = (
    Tool("travel", "navigation", "Travel to another POI in this system.",
         (text("target_poi", "The POI's ID, from get_system"),),
         {"target_poi": "main_belt"}, "You must be undocked.", mutation=True),
    Tool("jump", "navigation", "Jump to an adjacent star system.",
         (text("target_system", "The system's ID, from get_system"),),
         {"target_system": "sol"}, "Takes 2 ticks and 2 fuel. You must be undocked.",
         mutation=True),
    Tool("dock", "navigation", "Dock at the base of this POI.", mutation=True),
    Tool("undock", "navigation", "Leave the base.", mutation=True),
    Tool("mine", "mining", "Mine the resources of this POI.",
         notes="Needs a mining laser, room in the hold, and a belt, cloud or field.",
         mutation=True),
    Tool("buy", "trading", "Buy an item from the station.", (ITEM, QUANTITY),
         {"item_id": "fuel_cell", "quantity": 5}, "You must be docked.", mutation=True),
    Tool("sell", "trading", "Sell an item from your hold to the station.",
         (ITEM, QUANTITY), {"item_id": "ore_iron", "quantity": 10},
         "You must be docked.", mutation=True),
    Tool("refuel", "ship", "Fill the tank.",
         notes="From the station where you are docked, else from fuel cells.",
         mutation=True),
    Tool("repair", "ship", "Repair the hull.", notes="You must be docked.",
         mutation=True),
    Tool("scan", "combat", "Scan a ship at your location.", (_TARGET,),
         {"target_id": "player_id"}, "The result comes as a notification.",
         mutation=True),
    Tool("attack", "combat", "Attack a pirate or a captain at your location.",
         (_TARGET, Parameter("weapon_idx", "integer", "Which weapon", required=False)),
         {"target_id": "pirate_id", "weapon_idx": 0},
         "A pirate shoots back until one of you is gone or you leave.", mutation=True,
         destructive=True),
)  # fmt: skip

_LOG = (
    Tool("captains_log_add", "log", "Add an entry to your captain's log.",
         (text("entry", "The text of the entry", own_error=True,
               longest=LONGEST_ENTRY),), {"entry": "Day 1: found a rich belt."},
         "Keeps 20 entries; the oldest is dropped.", writes=True),
    Tool("captains_log_list", "log", "List your captain's log, newest first."),
    Tool("captains_log_get", "log", "Get a specific entry from your captain's log.",
         (Parameter("index", "integer", "0 is the newest entry"),), {"index": 0}),
)  # fmt: skip

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
    tool.name: tool
    for tool in (*_AUTH, *_INFORMATION, *_ACTIONS, *_LOG, *(row.tool for row in MINOR))
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
