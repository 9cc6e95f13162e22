"""Every rule about actions and events has something true to be checked against."""

from __future__ import annotations

import pytest

from memory.gamestate.effects import ACTIONS, PREFIXES
from memory.gamestate.invalidation import is_mutation
from memory.gamestate.reactions import FAMILIES, REACTIONS
from sandbox.game.table import TOOLS
from tests.sandbox.captains import make_game
from tests.sandbox.test_any_call import play

# Actions that do the same as one that is there, by that one.
SAME_AS = {
    "hunt": "attack", "battle": "attack",
    "rename_ship": "name_ship", "scrap_wreck": "salvage_wreck",
    "refit": "install_mod", "repair_module": "install_mod",
    "buy_listed_ship": "buy_ship", "list_ship_for_sale": "sell_ship",
    "list_item": "create_sell_order",
    "cancel_list": "cancel_order", "buy_listing": "buy",
}  # fmt: skip
# Told over the socket alone, or nothing that the era's own actions lead to.
NOT_TOLD = {"state_update", "base_destroyed"}


def test_every_action_of_the_table_can_be_done() -> None:
    there = {name for name, tool in TOOLS.items() if not tool.read_only}
    assert set(ACTIONS) - there == set(SAME_AS)
    assert set(SAME_AS.values()) <= there
    for prefix in PREFIXES:
        assert any(name.startswith(prefix) for name in there), prefix


def test_what_the_table_calls_a_read_changes_nothing() -> None:
    lifecycle = {"register", "login", "logout"}
    for name, tool in TOOLS.items():
        if name not in lifecycle:
            assert is_mutation(name) is not tool.read_only, name


@pytest.fixture(scope="module")
def heard() -> set[str]:
    """What captains heard who called anything at all, in both eras."""
    heard: set[str] = set()
    for era in ("A", "C"):
        for seed in range(3):
            heard |= play(make_game(era=era, raid_chance=0.1), seed, 1500).heard
    return heard


@pytest.mark.parametrize("kind", sorted(set(REACTIONS) - NOT_TOLD))
def test_every_event_with_a_reaction_is_told(kind: str, heard: set[str]) -> None:
    assert kind in heard


@pytest.mark.parametrize("start", sorted(FAMILIES))
def test_every_family_of_events_is_told(start: str, heard: set[str]) -> None:
    assert any(kind.startswith(start) for kind in heard)
