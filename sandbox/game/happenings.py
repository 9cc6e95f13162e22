"""What happens to captains without their doing, at its tick or because a test wants it.

Each kind is an event as it was recorded: its row changes what the event is about, and
gives the words in which it is told. Everything else that was ever recorded can be told
too, as it was, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.game.config import Json
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tools.combat import (
    DAMAGE_TYPE,
    ambush,
    clear_queue,
    kill,
    new_ship,
    shoot,
)
from sandbox.game.tools.market import is_fair
from sandbox.game.tools.workshop import RECIPES
from sandbox.game.world.catalogue import SHIP_CLASSES, SKILLS, xp_needed
from sandbox.game.world.models import BaseState, Job, Player, add_goods
from sandbox.game.world.npcs import TIERS

REPAIR_TICKS = 20
MOST_MINED = 10
_RAID_DAMAGE = 40
_DRONE_DAMAGE = 8


class NothingToHappenError(ValueError):
    """Why an event cannot happen now, in one line."""


@dataclass(frozen=True, slots=True)
class Case:
    """To whom it happens; `subject` names the thing, the first that fits if empty."""

    state: State
    player: Player
    subject: str = ""
    count: int = 1
    base_id: str = ""

    def pick(self, things: Mapping[str, Any], what: str) -> Any:
        """The thing that is meant. Raises NothingToHappenError."""
        found = things.get(self.subject or next(iter(things), ""))
        if found is None:
            raise NothingToHappenError(f"{self.player.username} has no {what}")
        return found

    @property
    def base(self) -> str:
        """The base that is meant, the captain's home if none is."""
        return self.base_id or self.player.docked_at or self.player.home_base


def _order_taken(case: Case) -> Json:
    """Somebody takes an order, or a part of it, and pays into the owner's storage."""
    every, owner = case.state.orders.values(), case.player
    fair = {o.id: o for o in every if o.player_id == owner.id and is_fair(o)}
    order = case.pick(fair, "order that anybody would take")
    count = min(case.count, order.remaining)
    if order.side == "sell":
        worth = count * order.price_each
        saved = owner.saved_credits.get(order.base_id, 0)
        owner.saved_credits[order.base_id] = saved + worth
        owner.stats["credits_earned"] += worth
    else:
        store = owner.stores.setdefault(order.base_id, {})
        add_goods(store, order.item_id, count)
    order.remaining -= count
    if not order.remaining:
        del case.state.orders[order.id]
    item = {"item_id": order.item_id, "side": order.side, "quantity": count}
    item |= {"price_each": order.price_each, "order_id": order.id}
    item["remaining"] = order.remaining
    return {"base_id": order.base_id, "items": [item]}


def _goods_made(case: Case) -> Json:
    recipe = case.pick(RECIPES, "recipe")
    store = case.player.stores.setdefault(case.base, {})
    for name, each in recipe.outputs.items():
        add_goods(store, name, each * case.count)
    case.player.stats["items_crafted"] += case.count
    job = {"base_id": case.base, "recipe_id": recipe.id, "quantity": case.count}
    return {"jobs": [{**job, "status": "complete"}]}


def _ship_built(case: Case) -> Json:
    build = case.pick(SHIP_CLASSES, "ship class")
    ship = new_ship(case.state, case.player.id, build)
    ship.base_id = case.base
    case.player.hangar.append(ship)
    return {"ship_id": ship.id, "ship_class": build.id, "base_id": case.base}


def _drone_dug(case: Case) -> Json:
    drone = case.pick({one.id: one for one in case.player.drones}, "drone")
    drone.mined = min(MOST_MINED, drone.mined + 5)
    return {"drones": [{"drone_id": drone.id, "mined": drone.mined}]}


def _drone_lost(case: Case) -> Json:
    drone = case.pick({one.id: one for one in case.player.drones}, "drone")
    case.player.drones.remove(drone)
    return {"drone_id": drone.id, "cause": "asteroid"}


def _damage_base(case: Case, damage: int) -> Json:
    case.state.bases.setdefault(case.base, BaseState()).damage = damage
    if damage:
        job = Job("", "station_repaired", case.player.id, case.base, "")
        case.state.schedule(job, REPAIR_TICKS)
    return {"base_id": case.base, "damage_pct": damage}


def _police_shot(case: Case) -> None:
    state, player = case.state, case.player
    if player.docked_at or player.in_transit:
        raise NothingToHappenError(f"{player.username} is not out in space")
    hit = shoot(player.ship, _DRONE_DAMAGE)
    told = {"tick": state.tick, "drone_id": "police", "target_id": player.id}
    shot = {"damage": _DRONE_DAMAGE, "damage_type": DAMAGE_TYPE}
    told |= {**shot, "destroyed": hit.destroyed}
    state.tell(Event(told, "police_combat", "combat"), player)
    if hit.destroyed:
        kill(state, player, "police", "Police Drone", "police")


def _queue_lost(case: Case) -> None:
    if case.player.pending is None or case.player.in_transit:
        raise NothingToHappenError(f"{case.player.username} has nothing queued")
    clear_queue(case.state, case.player, "a fault of the navigation computer")


def _level_gained(case: Case) -> Json:
    skill_id = case.pick(SKILLS, "skill").id
    player, skill = case.player, case.player.skills.get(skill_id)
    player.learn(skill_id, xp_needed(skill.level if skill else 0))
    return {"skill_id": skill_id, "new_level": player.skills[skill_id].level}


def _ambushed(case: Case) -> None:
    tier: str = case.pick({name: name for name in TIERS}, "pirate of this tier")
    ambush(case.state, case.player, tier)


Change = Callable[[Case], Json | None]
HERE, ME = "here", "me"
# What an event changes, its category, and who hears of it.
HAPPENINGS: dict[str, tuple[Change, str, str]] = {
    "market_update": (_order_taken, "market", ME),
    "crafting_update": (_goods_made, "crafting", ME),
    "ship_commission_complete": (_ship_built, "system", ME),
    "drone_update": (_drone_dug, "system", ME),
    "drone_destroyed": (_drone_lost, "combat", ME),
    "base_raid_update": (lambda case: _damage_base(case, _RAID_DAMAGE), "combat", HERE),
    "base_destroyed": (lambda case: _damage_base(case, 100), "combat", HERE),
    "station_repaired": (lambda case: _damage_base(case, 0), "combat", HERE),
    "skill_level_up": (_level_gained, "system", ME),
    # These are told by the change itself.
    "police_combat": (_police_shot, "combat", ""),
    "queue_cleared": (_queue_lost, "system", ""),
    "pirate_spawn": (_ambushed, "combat", ""),
}


def let_happen(case: Case, kind: str, data: Json | None = None) -> None:
    """Let an event happen; one that changes nothing is told in the words of `data`.

    Raises NothingToHappenError where there is nothing that it could happen to.
    """
    state, player = case.state, case.player
    if kind not in HAPPENINGS:
        if data is None:
            raise NothingToHappenError(f"{kind} changes nothing: give its data")
        state.tell(Event(data, kind), player)
        return
    change, category, whom = HAPPENINGS[kind]
    told = change(case)
    if told is None:
        return
    event = Event({"tick": state.tick, **told}, kind, category)
    if whom == HERE:
        state.tell_here(state.world.bases[told["base_id"]].poi_id, event)
    else:
        state.tell(event, player)


def run_due_jobs(state: State) -> None:
    """Let happen whose tick has come; what it was about may be gone (once per tick)."""
    for job in [one for one in state.jobs.values() if one.due_tick <= state.tick]:
        del state.jobs[job.id]
        player = state.players[job.player_id]
        case = Case(state, player, job.subject, job.count, job.base_id)
        try:
            let_happen(case, job.kind)
        except NothingToHappenError:
            continue
