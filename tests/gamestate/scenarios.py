"""States whose rendering is held as golden files, by the file's name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from memory.gamestate.merge import learn_account
from memory.gamestate.notices import Notice
from memory.gamestate.types import Stale
from tests.gamestate.builders import NOW, payload, snapshot, state
from tests.gamestate.merging import merge_events

STATUS: dict[str, Any] = {
    "player": {
        "username": "VoidWanderer",
        "empire": "solarian",
        "credits": 5000,
        "current_system": "sol",
        "current_poi": "sol_belt",
    },
    "ship": {"name": "Cargo Hauler"},
}
SHIP = {
    "ship": {
        "name": "Cargo Hauler",
        "hull": 85,
        "max_hull": 100,
        "shield": 50,
        "max_shield": 50,
        "fuel": 60,
        "max_fuel": 100,
        "cargo_used": 45,
        "cargo_capacity": 100,
        "cargo": [
            {"item_id": "ore_iron", "name": "Iron Ore", "quantity": 30},
            {"item_id": "ore_copper", "name": "Copper Ore", "quantity": 15},
        ],
    }
}
SYSTEM = {
    "system": {
        "id": "sol",
        "name": "Sol System",
        "empire": "solarian",
        "connections": [
            {"system_id": "alpha_centauri", "name": "Alpha Centauri"},
            {"system_id": "barnard", "name": "Barnard's Star"},
        ],
        "pois": [
            {"id": "sol_earth", "name": "Earth"},
            {"id": "sol_mars", "name": "Mars"},
            {"id": "sol_belt", "name": "Asteroid Belt Alpha"},
            {"id": "sol_station", "name": "Station Alpha"},
        ],
    }
}
MAP = {"systems": [{"system_id": f"s{n}", "name": f"S {n}"} for n in range(487)]}


def seed():
    """The example of GAME_STATE.md section 3."""
    return state(
        snapshot("get_status", STATUS),
        snapshot("get_ship", SHIP),
        snapshot("get_system", SYSTEM, age=5),
        snapshot("get_map", MAP, age=50),
    )


def belt_undocked():
    """In space at a belt, Feb shapes, one fact untrue after a purchase."""
    return state(
        snapshot("get_status", stale=Stale("buy", 104, ("player.credits",))),
        snapshot("get_poi"),
        snapshot("get_system", payload("get_system.feb11_pre_v0_87"), age=30),
        snapshot("get_active_missions"),
        username="Artisan 'Ace' Anderson",
    )


def station_docked():
    """Docked, everything read here, the v0.87 system."""
    return state(
        snapshot("get_status", payload("get_status.docked"), age=1),
        snapshot("get_ship", age=4),
        snapshot("get_cargo", age=1),
        snapshot("get_system", age=3),
        snapshot("get_base", age=3),
        snapshot("get_nearby", age=3),
        snapshot("view_market", age=3),
        snapshot("get_skills", age=9),
        username="Arthur 'Artificer' Artis",
    )


def station_poi():
    """A station seen from get_poi, names learnt from there."""
    return state(
        snapshot("get_status", {**STATUS, "player": {**STATUS["player"],
                 "current_poi": "sol_station", "docked_at_base": "sol_base"}}),
        snapshot("get_poi", payload("get_poi.station")),
    )  # fmt: skip


def travelling():
    """A queued travel: what it will change is marked until it has arrived."""
    here = ("player.current_poi", "player.docked_at_base", "ship.fuel")
    return state(
        snapshot("get_status", stale=Stale("travel", 109, here)),
        snapshot("get_poi", stale=Stale("travel", 109)),
        snapshot("get_nearby", stale=Stale("travel", 109), age=8),
    )


def changed():
    """Values that differ from the ones last shown."""
    return state(
        snapshot("get_status", STATUS),
        snapshot("get_ship", SHIP),
        last_shown={
            "account": "VoidWanderer",
            "get_status/Credits": "4,200",
            "get_ship/Fuel": "72/100",
            "get_ship/Hull": "85/100",
            "get_ship/Cargo": "30/80",
            "get_ship/Cargo/Iron Ore": "15",
        },
    )


def after_logout():
    """Back after a logout: old rows, flagged."""
    return state(
        snapshot("get_status", STATUS, age=400, logged_out=True),
        snapshot("get_trades", age=400, logged_out=True),
    )


def by_the_clock():
    """No ticks at all: ages by the wall clock, texts as the server sent them."""
    text = payload("_v2.mcp_get_status_text")["result"]["content"][0]["text"]
    return state(
        snapshot("get_status", text, tick=None, age=7),
        snapshot("get_missions", tick=None, age=700),
        snapshot("view_market", tick=None, args={"item_id": "ore_iron"}, age=0),
        snapshot("get_version", tick=None, stale=Stale("terraform")),
        current_tick=None,
    )


def v2_shapes():
    """The structured content of API v2."""
    return state(
        snapshot("get_status", payload("_v2.http_get_status")["structuredContent"]),
        snapshot("get_skills", payload("_v2.http_get_skills")["structuredContent"]),
    )


def skewed():
    """A server that went back by a few ticks, and one that was reset."""
    return state(
        snapshot("get_status", STATUS, tick=110),
        snapshot("get_ship", SHIP, tick=9_000),
        snapshot("get_trades", tick=None, age=0, content={"incoming": None}),
    )


def merged():
    """What was mined and shot is told by events; the arrival left things in doubt."""
    told = (
        Notice(
            "1", "mining_yield", {"resource_id": "ore_iron", "quantity": 4}, tick=106
        ),
        Notice("2", "pirate_combat", {"player_hull": 61, "player_shield": 0}, tick=107),
        Notice("3", "ok", {"action": "arrived", "poi_id": "sol_mars"}, tick=107),
    )
    rows = (
        snapshot("get_status", STATUS),
        snapshot("get_ship", SHIP),
        snapshot("get_system", SYSTEM, age=3),
        snapshot("get_nearby", {"nearby": [], "count": 0}),
    )
    around = learn_account("VoidWanderer", rows)
    return state(*(merge_events(row, told, around, 107) for row in rows))


def empty():
    """Just registered."""
    return state()


def logged_out():
    """Nobody is logged in."""
    return state(snapshot("get_status"), username=None)


SCENARIOS = {
    make.__name__: make
    for make in (
        seed, belt_undocked, station_docked, station_poi, travelling, changed,
        after_logout, by_the_clock, merged, v2_shapes, skewed, empty, logged_out,
    )
}  # fmt: skip
LATER = NOW + timedelta(hours=2)
