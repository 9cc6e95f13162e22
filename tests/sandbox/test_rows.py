"""Every row of the effects table, and every happening, is true and seen over MCP.

Ada acts over MCP, or something happens to her by the truth port: what a tool of the
row answers differs before and after.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from memory.gamestate.effects import ACTIONS, PREFIXES
from memory.gamestate.reactions import FAMILIES, REACTIONS
from memory.gamestate.values import find_value
from sandbox.game.happenings import HAPPENINGS
from sandbox.game.state import State
from sandbox.game.table import TOOLS, list_tools
from sandbox.game.testing import SandboxServer
from sandbox.game.tools.combat import leave_wreck, new_ship
from sandbox.game.world.catalogue import SHIP_CLASSES
from sandbox.game.world.models import (
    Drone,
    Faction,
    LogEntry,
    Mission,
    Module,
    Note,
    Order,
    Pending,
    Player,
    Thread,
    Trade,
)
from tests.sandbox.remote import Pilot, flying

Given = dict[str, Any]
IRON = {"item_id": "ore_iron", "quantity": 2}
NUMBERS = itertools.count(1)


@dataclass
class Scene:
    """Two captains who are docked at Sol, with goods, credits and half a tank."""

    state: State
    ada: Player
    bob: Player

    def __post_init__(self) -> None:
        self.state.bases.clear()
        for one in (self.ada, self.bob):
            one.earn(2000)
            one.ship.cargo = {"ore_iron": 5, "repair_kit": 1, "mining_laser_1": 1}
            one.ship.fuel, one.ship.hull = 50, 50

    def fly(self, poi_id: str = "sol_belt") -> None:
        """Put both out into space, at the same place."""
        for one in (self.ada, self.bob):
            one.docked_at = None
            self.state.leave(one)
            self.state.arrive(one, poi_id)


def docked(scene: Scene) -> Given:
    return {}


def at_belt(scene: Scene) -> Given:
    scene.fly()
    return {}


def at_station(scene: Scene) -> Given:
    scene.fly("sol_station")
    return {}


def near_bob(scene: Scene) -> Given:
    scene.fly()
    return {"target_id": scene.bob.id}


def near_a_star(scene: Scene) -> Given:
    scene.fly()
    return {"target_system": scene.state.world.systems["sol"].connections[0]}


def hidden(scene: Scene) -> Given:
    systems = scene.state.world.systems.values()
    star = next(one for one in systems if any(poi.hidden for poi in one.pois))
    scene.fly(star.pois[0].id)
    return {}


def stored(scene: Scene) -> Given:
    scene.ada.stores["sol_base"] = {"ore_iron": 20}
    scene.ada.saved_credits["sol_base"] = 50
    scene.ada.credits -= 50
    return {}


def mission(scene: Scene) -> Given:
    own = Mission("m", "iron_for_the_docks", "sol_base", 10_000, current=10)
    scene.ada.missions.append(own)
    return {"mission_id": "m"}


def kept_ship(scene: Scene) -> Given:
    ship = new_ship(scene.state, scene.ada.id, SHIP_CLASSES["courier_light"])
    ship.base_id = "sol_base"
    scene.ada.hangar.append(ship)
    return {"ship_id": ship.id}


def gun(scene: Scene) -> Given:
    scene.ada.ship.cargo["cannon_rounds"] = 5
    scene.ada.ship.modules.append(Module("gun", "weapon_cannon_1"))
    return {"weapon_instance_id": "gun"}


def order(scene: Scene) -> Given:
    own = Order(
        "o" + scene.ada.id, scene.ada.id, "sol_base", "sell", "ore_iron", 6, 4, 4, 1, ""
    )
    scene.state.orders[own.id] = own
    return {"order_id": own.id}  # fmt: skip


def offer(scene: Scene, offerer: Player, target: Player) -> Given:
    trade = Trade(
        "t" + offerer.id, offerer.id, "", target.id, {}, 5, {"ore_iron": 1}, 0
    )
    scene.state.trades[trade.id] = trade
    return {"trade_id": trade.id}  # fmt: skip


def wreck(scene: Scene, where: str = "sol_belt") -> Given:
    scene.fly(where)
    cargo, victim = {"ore_iron": 3}, ("", "Nobody")
    found = leave_wreck(
        scene.state, poi_id=where, victim=victim, ship_class="pirate", cargo=cargo
    )
    return {"wreck_id": found.id}


def towed(scene: Scene) -> Given:
    scene.ada.towing = wreck(scene, "sol_station")["wreck_id"]
    return {}


def towed_home(scene: Scene) -> Given:
    towed(scene)
    scene.ada.docked_at = "sol_base"
    return {}


def drone(scene: Scene) -> Given:
    scene.fly()
    scene.ada.drones.append(Drone("d", "sol_belt", "ore_iron", mined=2))
    return {"drone_id": "d"}


def faction(scene: Scene, leader: Player, **more: Any) -> Given:
    own = Faction(
        "f" + leader.id, leader.username, "TAG", {leader.id: "leader"}, **more
    )
    scene.state.factions[own.id] = own
    leader.faction_id = own.id
    return {"faction_id": own.id}


def war(scene: Scene) -> Given:
    faction(scene, scene.ada)
    return {"target_faction_id": faction(scene, scene.bob)["faction_id"]}


def written(scene: Scene) -> Given:
    scene.ada.log.append(LogEntry("old", ""))
    scene.ada.notes.append(Note("n", "Title", "old", ""))
    scene.state.threads.setdefault("t", Thread("t", "Title", "Bob", ""))
    return {}


def claimable(scene: Scene) -> Given:
    scene.ada.claim = 90
    return {}


def far_from_home(scene: Scene) -> Given:
    scene.ada.home_base = "krynn_base"
    return {}


def queued(scene: Scene) -> Given:
    scene.ada.pending = Pending("undock", {}, scene.state.tick + 100)
    return {}


def give(prepare: Callable[[Scene], Given], **given: Any) -> Callable[[Scene], Given]:
    """Prepare the scene, and act with these arguments beside those it gives."""
    return lambda scene: {**prepare(scene), **given}


CREDITS, CARGO = ("get_status", "player.credits"), ("get_cargo", "cargo")
SHIPS, NEARBY = ("list_ships", "ships"), ("get_nearby", "nearby")
STORE, ORDERS = ("view_storage", "items"), ("view_orders", "orders")
TRADES, WRECKS = ("get_trades", ""), ("get_wrecks", "wrecks")
DOCK = ("get_status", "player.docked_at_base")
ROWS: dict[str, tuple[Callable[[Scene], Given], tuple[str, str]]] = {
    "travel": (give(at_belt, target_poi="sol_station"), ("get_poi", "poi.id")),
    "jump": (near_a_star, ("get_system", "system.id")),
    "dock": (at_station, DOCK),
    "undock": (docked, DOCK),
    "mine": (at_belt, CARGO),
    "buy": (give(docked, item_id="fuel_cell", quantity=1), CARGO),
    "sell": (give(docked, **IRON), CREDITS),
    "refuel": (docked, ("get_ship", "ship.fuel")),
    "repair": (docked, ("get_ship", "ship.hull")),
    "craft": (give(docked, recipe_id="basic_iron_smelting"), CARGO),
    "attack": (near_bob, ("get_battle_status", "in_battle")),
    "self_destruct": (at_belt, ("get_ship", "ship.id")),
    "scan": (near_bob, ("get_skills", "player_skills")),
    "survey_system": (hidden, ("get_status", "player.revealed_pois")),
    "cloak": (at_belt, ("get_status", "player.is_cloaked")),
    "name_ship": (give(docked, name="Second Wind"), ("get_ship", "ship.name")),
    "use_item": (give(docked, item_id="repair_kit"), ("get_ship", "ship.hull")),
    "install_mod": (give(docked, module_id="mining_laser_1"), ("get_ship", "modules")),
    "uninstall_mod": (lambda scene: gun(scene) and {"module_id": "gun"}, ("get_ship", "modules")),
    "reload": (gun, ("get_ship", "modules")),
    "switch_ship": (kept_ship, ("get_ship", "ship.id")),
    "buy_ship": (give(docked, ship_class="courier_light"), SHIPS),
    "sell_ship": (kept_ship, SHIPS),
    "deposit_items": (give(docked, **IRON), STORE),
    "withdraw_items": (give(stored, **IRON), CARGO),
    "deposit_credits": (give(docked, amount=5), ("view_storage", "credits")),
    "withdraw_credits": (give(stored, amount=5), CREDITS),
    "send_gift": (lambda scene: {**IRON, "recipient": scene.bob.username}, CARGO),
    "create_sell_order": (give(docked, **IRON, price_each=6), ORDERS),
    "create_buy_order": (give(docked, **IRON, price_each=6), ORDERS),
    "modify_order": (give(order, new_price=7), ORDERS),
    "cancel_order": (order, ORDERS),
    "trade_offer": (lambda scene: {"target_id": scene.bob.id}, TRADES),
    "trade_accept": (lambda scene: offer(scene, scene.bob, scene.ada), TRADES),
    "trade_decline": (lambda scene: offer(scene, scene.bob, scene.ada), TRADES),
    "trade_cancel": (lambda scene: offer(scene, scene.ada, scene.bob), TRADES),
    "jettison": (give(at_belt, **IRON), WRECKS),
    "loot_wreck": (give(wreck, **IRON), WRECKS),
    "salvage_wreck": (wreck, WRECKS),
    "sell_wreck": (towed_home, WRECKS),
    "accept_mission": (give(docked, mission_id="iron_for_the_docks"), ("get_active_missions", "missions")),
    "abandon_mission": (mission, ("get_active_missions", "missions")),
    "complete_mission": (mission, CREDITS),
    "decline_mission": (give(docked, mission_id="iron_for_the_docks"), ("get_missions", "missions")),
    "buy_insurance": (docked, CREDITS),
    "claim_insurance": (claimable, CREDITS),
    "set_home_base": (far_from_home, ("get_status", "player.home_base")),
    "tow_wreck": (wreck, ("get_status", "player.towing_wreck_id")),
    "release_tow": (towed, ("get_status", "player.towing_wreck_id")),
    "create_faction": (lambda scene: {"name": scene.ada.username, "tag": "NEW"}, ("faction_list", "total_count")),
    "join_faction": (lambda scene: faction(scene, scene.bob, invited=[scene.ada.id]), ("get_status", "player.faction_id")),
    "leave_faction": (lambda scene: faction(scene, scene.ada) and {}, ("faction_info", "")),
    "faction_invite": (lambda scene: faction(scene, scene.ada) and {"player_id": scene.bob.id}, ("faction_get_invites", "invites")),
    "faction_declare_war": (war, ("faction_info", "enemies")),
    "facility": (give(docked, action="build", facility_type="galley"), ("get_base", "base.facilities")),
    "captains_log_add": (give(docked, entry="new"), ("captains_log_list", "entries")),
    "captains_log_delete": (give(written, index=0), ("captains_log_list", "entry")),
    "chat": (give(docked, channel="system", content="Hello."), ("get_chat_history", "messages")),
    "create_note": (give(docked, title="a", content="b"), ("get_notes", "notes")),
    "write_note": (give(written, note_id="n", content="new"), ("read_note", "content")),
    "set_status": (give(docked, status_message="Busy"), ("get_status", "player.status_message")),
    "set_colors": (give(docked, primary_color="#001122", secondary_color="#001122"), ("get_status", "player.primary_color")),
    "set_anonymous": (give(docked, anonymous=True), ("get_status", "player.anonymous")),
    "forum_create_thread": (give(docked, title="a", content="b"), ("forum_list", "total_count")),
    "forum_reply": (give(written, thread_id="t", content="new"), ("forum_get_thread", "posts")),
}  # fmt: skip
"""How each row comes about: what is there before, and what Ada sees change."""

HAPPENS: dict[str, tuple[Callable[[Scene], Given], tuple[str, str]]] = {
    "market_update": (order, ("view_storage", "credits")),
    "crafting_update": (docked, STORE),
    "ship_commission_complete": (give(docked, subject="courier_light"), SHIPS),
    "drone_update": (lambda scene: drone(scene) and {}, ("get_drones", "drones")),
    "drone_destroyed": (lambda scene: drone(scene) and {}, ("get_drones", "drones")),
    "base_raid_update": (docked, ("get_base", "condition.satisfaction_pct")),
    "base_destroyed": (docked, ("get_base", "condition.satisfaction_pct")),
    "station_repaired": (docked, ("get_base", "condition.satisfaction_pct")),
    "police_combat": (at_belt, ("get_ship", "ship.shield")),
    "skill_level_up": (docked, ("get_skills", "player_skills")),
    "queue_cleared": (queued, ("get_queue", "queue")),
    "pirate_spawn": (at_belt, ("get_nearby", "pirates")),
}
"""How each happening comes about, and what Ada sees of it."""

BY_THE_OTHER = {"faction_invite"}
"""Rows whose effect is seen by whom they are about."""


@pytest.fixture(scope="module")
def games() -> Iterator[dict[str, SandboxServer]]:
    """A game of each era in which nothing happens by chance."""
    with (
        SandboxServer(era="A", raid_chance=0.0) as first,
        SandboxServer(era="C", raid_chance=0.0) as second,
    ):
        yield {"A": first, "C": second}


def scene_of(sandbox: SandboxServer, ada: str) -> Scene:
    """The scene of a captain who is there, with another who comes to her."""
    bob = f"Bob of {ada}"
    given = {"username": bob, "empire": "solarian"}
    sandbox.run(lambda: sandbox.game.call("register", given))
    return Scene(sandbox.game.state, sandbox.player(ada), sandbox.player(bob))


def effects_of(name: str) -> set[str]:
    """The tools that the table says are touched."""
    family = next((PREFIXES[one] for one in PREFIXES if name.startswith(one)), {})
    return set(ACTIONS.get(name, family))


async def look(pilot: Pilot, tool: str, path: str, given: Given) -> Any:
    """What a tool answers at a path, or its error."""
    names = {one.name for one in TOOLS[tool].parameters} & set(given)
    answer = await pilot.ask(tool, **{name: given[name] for name in names})
    if answer.is_error:
        return answer.blocks[0]
    view = json.loads(answer.blocks[0])
    return find_value(view, path) if path else view


def era_of(*tools: str) -> str:
    return "A" if all(tool in list_tools("A") for tool in tools) else "C"


@pytest.mark.parametrize("name", sorted(ROWS))
async def test_what_a_row_says_is_seen(
    games: dict[str, SandboxServer], name: str
) -> None:
    prepare, (query, path) = ROWS[name]
    assert query in effects_of(name)
    sandbox, number = games[era_of(name, query)], next(NUMBERS)
    async with flying(sandbox, f"Ada {number}") as ada:
        scene = scene_of(sandbox, f"Ada {number}")
        given = sandbox.run(lambda: prepare(scene))

        async def seen() -> Any:
            if name in BY_THE_OTHER:
                return find_value(sandbox.answer(scene.bob.username, query), path)
            return await look(ada, query, path, given)

        before = await seen()
        acting = asyncio.create_task(ada.view(name, **given))
        if TOOLS[name].mutation and sandbox.game.config.era == "C":
            await asyncio.to_thread(sandbox.wait_until_held)
        else:
            await acting
        await asyncio.to_thread(sandbox.step, 3)
        await acting
        assert await seen() != before


@pytest.mark.parametrize("kind", sorted(HAPPENINGS))
async def test_what_happens_is_told_and_seen(
    games: dict[str, SandboxServer], kind: str
) -> None:
    prepare, (query, path) = HAPPENS[kind]
    era = "C" if kind == "queue_cleared" else era_of(query)
    sandbox, name = games[era], f"Ada {next(NUMBERS)}"
    async with flying(sandbox, name) as ada:
        scene = scene_of(sandbox, name)
        given = sandbox.run(lambda: prepare(scene))
        about = {k: v for k, v in given.items() if k in ("subject", "count")}
        async with httpx2.AsyncClient(
            base_url=sandbox.truth_url, timeout=60
        ) as control:
            if kind == "station_repaired":
                raid = {"username": name, "kind": "base_raid_update"}
                await control.post("/happen", json=raid)
            before = await look(ada, query, path, {})
            said = {"username": name, "kind": kind, **about}
            assert (await control.post("/happen", json=said)).status_code == 201
        told = (await ada.view("get_notifications", limit=100))["notifications"]
        assert kind in [item["msg_type"] for item in told]
        assert await look(ada, query, path, {}) != before


async def test_any_other_event_is_told_in_its_own_words(
    games: dict[str, SandboxServer],
) -> None:
    sandbox, name = games["A"], f"Ada {next(NUMBERS)}"
    async with flying(sandbox, name) as ada:
        sandbox.happen(name, "gameplay_tip", data={"message": "Refuel."})
        (told,) = (await ada.view("get_notifications"))["notifications"]
        assert (told["msg_type"], told["data"]) == (
            "gameplay_tip",
            {"message": "Refuel."},
        )
        for wrong, complaint in (
            ({"kind": "gameplay_tip"}, "give its data"),
            ({"kind": "drone_update"}, "has no drone"),
            ({"kind": "market_update", "count": "3"}, "count is a whole number"),
            ({"kind": "crafting_update", "count": -3}, "count is a whole number"),
            ({"kind": "crafting_update", "base_id": "x"}, "base_id is a base's id"),
            ({"kind": "crafting_update", "base_id": []}, "base_id is a base's id"),
            ({"kind": "crafting_update", "what": 1}, "what is unknown; give subject"),
            ({"kind": "gameplay_tip", "data": "x"}, "data is an object"),
            ({"kind": "skill_level_up", "subject": "x"}, "has no skill"),
            ({"kind": "pirate_spawn", "subject": "x"}, "has no pirate of this tier"),
        ):
            with httpx2.Client(base_url=sandbox.truth_url, timeout=60) as control:
                answer = control.post("/happen", json={"username": name, **wrong})
            assert answer.status_code == 400
            assert complaint in answer.json()["error"]


def test_no_row_and_no_event_is_left_out() -> None:
    there = {name for name, tool in TOOLS.items() if not tool.read_only}
    lifecycle = {"register", "login", "logout", "commission_ship"}
    lifecycle |= {"deploy_drone", "recall_drone"}
    assert set(ROWS) == there - lifecycle
    assert set(HAPPENS) == set(HAPPENINGS)
    assert set(HAPPENINGS) <= set(REACTIONS) | {
        kind for kind in HAPPENINGS if kind.startswith(tuple(FAMILIES))
    }
