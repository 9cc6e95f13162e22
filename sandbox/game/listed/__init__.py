"""The words of the tools that came later, and in which era there are which."""

from __future__ import annotations

from sandbox.game.listed import business, people, ships, space
from sandbox.game.tool import Tool

LISTED: tuple[Tool, ...] = (
    *business.TOOLS,
    *ships.TOOLS,
    *space.TOOLS,
    *people.TOOLS,
)

ONLY_IN = {
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
