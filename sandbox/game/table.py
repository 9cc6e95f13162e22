"""Every tool of the game by its name: its words, what it does, its eras."""

from __future__ import annotations

from dataclasses import replace

from sandbox.game.tool import Tool, make_tool, number, text
from sandbox.game.tools import (
    combat,
    flight,
    looking,
    market,
    missions,
    outings,
    people,
    ships,
    storage,
    workshop,
)
from sandbox.game.tools.rules import Action, Query

_AUTH = (
    make_tool(
        "register", "auth", "Create a new account and log in.", "username",
        text("empire", "solarian, voidborn, crimson, nebula or outerrim", "solarian",
             own_error=True),
        text("registration_code", "Your registration code", required=False),
        notes="Keep the password: it cannot be recovered.", writes=True, open=True),
    make_tool(
        "login", "auth", "Log in to an existing account.", "username",
        text("password", "Your password", "your_password", own_error=True),
        notes="Returns the session_id that all other tools need.", writes=True,
        open=True),
    Tool("logout", "auth", "End your session.", writes=True),
)  # fmt: skip

_ABOUT = (
    Tool("get_version", "query", "Get the game's version.", open=True),
    Tool("get_commands", "query", "Get the list of all commands.", open=True),
)
# In the order in which the game lists them.
_ROWS: tuple[Tool | Action | Query, ...] = (
    *_AUTH,
    *looking.STATE,
    *looking.HERE,
    *looking.NEWS,
    *_ABOUT,
    *looking.SEARCHES,
    *flight.ACTIONS,
    *market.ACTIONS,
    *combat.ACTIONS,
    *looking.LOG,
    *missions.ROUND,
    *storage.STORAGE,
    *outings.SALVAGE,
    *people.CHAT,
    *storage.TRADES,
    *workshop.WORKSHOP,
    *market.ORDERS,
    *storage.GIFTS,
    *missions.DECISIONS,
    *storage.INSURANCE,
    *workshop.FACILITIES,
    *ships.SHIPS,
    *outings.OUTINGS,
    *people.FACTIONS,
    *people.TEXTS,
    *people.LOOKS,
)
_TOOLS = (row if isinstance(row, Tool) else row.tool for row in _ROWS)
TOOLS = {tool.name: tool for tool in _TOOLS}
# What takes a captain's turn.
ACTIONS = {row.tool.name: row for row in _ROWS if isinstance(row, Action)}
# What takes no turn: questions, and what is written dlooking.
QUERIES = {row.tool.name: row.answer for row in _ROWS if isinstance(row, Query)}
# Tools that were taken away, and those that were not there from the first.
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


def list_tools(era: str) -> dict[str, Tool]:
    """The tools of an era; since v0.63.1 the log is read one entry at a time.

    API v2 groups the commands of era C.
    """
    rules = "C" if era == "v2" else era
    absent = frozenset().union(*(_ONLY_IN[one] for one in _ONLY_IN if one != rules))
    tools = {name: tool for name, tool in TOOLS.items() if name not in absent}
    if rules != "C":
        return tools
    index = number("index", "0 is the newest entry", required=False)
    reader = replace(
        TOOLS["captains_log_list"],
        description="Read one entry of your captain's log, the newest by default.",
        parameters=(index,),
        example={"index": 0},
    )
    return tools | {reader.name: reader}
