"""facility and commission_ship: work that a base does for a captain (era C)."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import base_of, check_credits
from sandbox.game.actions.hangar import on_sale
from sandbox.game.catalogue import ITEMS
from sandbox.game.errors import GameError
from sandbox.game.holdings import BaseState, Job
from sandbox.game.models import Player
from sandbox.game.recipes import RECIPES, Recipe
from sandbox.game.state import State

FACILITY_PRICE = 60
MOST_BUILT = 5
WORK_TICKS = 3
YARD_TICKS = 5
_MOST_JOBS = 5


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    step = {"build": _prepare_build, "produce": _prepare_produce}
    if arguments["action"] not in step:
        raise GameError("invalid_action", "Use 'build' or 'produce'.")
    return step[arguments["action"]](state, player, arguments)


def _prepare_build(state: State, player: Player, arguments: Arguments) -> Intent:
    base = base_of(state, player)
    kind = arguments.get("facility_type", "")
    if not kind.isidentifier():
        raise GameError("invalid_facility", "Name a 'facility_type'.")
    now = state.bases.get(base.id)
    if now and len(now.built) >= MOST_BUILT:
        raise GameError("no_room", "There is no room for another facility.")
    check_credits(player, FACILITY_PRICE)
    given = {"action": "build", "facility_type": kind}
    return Intent(given, {**given, "message": "Building..."})


def _recipe(state: State, player: Player, arguments: Arguments) -> tuple[Recipe, int]:
    """What is to be made, and how often; the goods lie in this base's storage."""
    recipe = RECIPES.get(arguments.get("recipe_id", ""))
    count = arguments.get("count", 1)
    if recipe is None or not 1 <= count <= 10:
        raise GameError("cannot_craft", "Unknown recipe or count. Use 'get_recipes'.")
    store = player.stores.get(base_of(state, player).id, {})
    for name, each in recipe.inputs.items():
        if store.get(name, 0) < each * count:
            needed = f"Need {each * count} {ITEMS[name].name} in storage."
            raise GameError("missing_materials", needed)
    return recipe, count


def _prepare_produce(state: State, player: Player, arguments: Arguments) -> Intent:
    recipe, count = _recipe(state, player, arguments)
    _must_be_free(state, player)
    given = {"action": "produce", "recipe_id": recipe.id, "count": count}
    return Intent(given, {**given, "message": "Starting..."})


def _must_be_free(state: State, player: Player) -> None:
    own = [job for job in state.jobs.values() if job.player_id == player.id]
    if len(own) >= _MOST_JOBS:
        raise GameError("too_many_jobs", f"At most {_MOST_JOBS} jobs at a time.")


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    given = _prepare(state, player, arguments).arguments
    step = {"build": _finish_build, "produce": _finish_produce}
    done = step[given["action"]](state, player, given)
    return [Event({"facility": given["action"], **done})]


def _finish_build(state: State, player: Player, given: Arguments) -> Arguments:
    base = base_of(state, player)
    player.spend(FACILITY_PRICE)
    state.bases.setdefault(base.id, BaseState()).built.append(given["facility_type"])
    data = {"base_id": base.id, "facility_type": given["facility_type"]}
    state.tell_here(base.poi_id, Event(data, "facility_built"), but=player.id)
    return data


def _finish_produce(state: State, player: Player, given: Arguments) -> Arguments:
    base = base_of(state, player)
    recipe, count = _recipe(state, player, given)
    store = player.stores[base.id]
    for name, each in recipe.inputs.items():
        store[name] -= each * count
        if not store[name]:
            del store[name]
    job = _begin(state, player, ("recipe", recipe.id), count, WORK_TICKS)
    return {"job_id": job.id, "recipe_id": recipe.id, "due_tick": job.due_tick}


def _begin(
    state: State, player: Player, what: tuple[str, str], count: int, ticks: int
) -> Job:
    job = Job(
        id=state.sources.token(16),
        kind=what[0],
        player_id=player.id,
        base_id=base_of(state, player).id,
        subject=what[1],
        count=count,
        due_tick=state.tick + ticks,
    )
    state.jobs[job.id] = job
    return job


def _prepare_ship(state: State, player: Player, arguments: Arguments) -> Intent:
    build = on_sale(state, player, arguments)
    _must_be_free(state, player)
    given = {"ship_class": build.id}
    return Intent(given, {**given, "price": build.price, "message": "Ordering..."})


def _finish_ship(state: State, player: Player, arguments: Arguments) -> list[Event]:
    build = on_sale(state, player, arguments)
    player.spend(build.price)
    job = _begin(state, player, ("ship", build.id), 1, YARD_TICKS)
    own = {"action": "commission_ship", "ship_class": build.id, "job_id": job.id}
    return [Event(own)]


BUILDING = (
    Action("facility", _prepare, _finish, needs="dock"),
    Action("commission_ship", _prepare_ship, _finish_ship, needs="dock"),
)
