"""Work at bases that takes its time: production runs, and ships on commission."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.game.catalogue import SHIP_CLASSES
from sandbox.game.holdings import Job
from sandbox.game.notifications import Event
from sandbox.game.recipes import RECIPES
from sandbox.game.shipyard import new_ship
from sandbox.game.state import State

KINDS_OF_WORK: Mapping[str, Mapping[str, object]] = {
    "recipe": RECIPES,
    "ship": SHIP_CLASSES,
}
"""What the subject of a job may be, by the job's kind."""


def finish_work(state: State) -> None:
    """End the jobs whose tick has come (once per tick)."""
    for job in [one for one in state.jobs.values() if one.due_tick <= state.tick]:
        del state.jobs[job.id]
        (_deliver_ship if job.kind == "ship" else _deliver_goods)(state, job)


def _deliver_goods(state: State, job: Job) -> None:
    player = state.players[job.player_id]
    store = player.stores.setdefault(job.base_id, {})
    for name, each in RECIPES[job.subject].outputs.items():
        store[name] = store.get(name, 0) + each * job.count
    player.stats["items_crafted"] += job.count
    told = {
        "job_id": job.id,
        "base_id": job.base_id,
        "recipe_id": job.subject,
        "quantity": job.count,
        "status": "complete",
    }
    data = {"tick": state.tick, "jobs": [told]}
    state.tell_event(player, Event(data, "crafting_update", "crafting"))


def _deliver_ship(state: State, job: Job) -> None:
    player = state.players[job.player_id]
    ship = new_ship(state, player.id, SHIP_CLASSES[job.subject])
    ship.base_id = job.base_id
    player.hangar.append(ship)
    data = {
        "tick": state.tick,
        "ship_id": ship.id,
        "ship_class": ship.class_id,
        "base_id": job.base_id,
    }
    state.tell_event(player, Event(data, "ship_commission_complete"))
