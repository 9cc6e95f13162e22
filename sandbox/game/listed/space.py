"""What is done out there: surveys, drones, wrecks."""

from __future__ import annotations

from sandbox.game.tool import Tool, text

_WRECK = text("wreck_id", "The wreck's ID, from get_wrecks")
_A_WRECK = {"wreck_id": "wreck_id"}

TOOLS = (
    Tool(
        "survey_system",
        "navigation",
        "Look for places of this system that no chart has.",
        mutation=True,
    ),
    Tool("get_drones", "drones", "List your drones."),
    Tool(
        "deploy_drone",
        "drones",
        "Leave a mining drone of your hold at this place.",
        notes="It digs by itself. You must be undocked.",
        mutation=True,
    ),
    Tool(
        "recall_drone",
        "drones",
        "Take a drone back with what it has dug.",
        (text("drone_id", "The drone's ID, from get_drones"),),
        {"drone_id": "drone_id"},
        mutation=True,
    ),
    Tool(
        "salvage_wreck",
        "salvage",
        "Cut a ship's wreck up for its steel.",
        (_WRECK,),
        _A_WRECK,
        mutation=True,
    ),
    Tool(
        "tow_wreck",
        "salvage",
        "Take a ship's wreck in tow.",
        (_WRECK,),
        _A_WRECK,
        mutation=True,
    ),
    Tool("release_tow", "salvage", "Let the wreck in tow go.", mutation=True),
    Tool(
        "sell_wreck",
        "salvage",
        "Sell the wreck in tow to the scrappers of a base.",
        notes="You must be docked.",
        mutation=True,
    ),
)
