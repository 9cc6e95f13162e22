"""What bases make of what: recipes, facilities, and the modules of a ship."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.game.actions.action import Call
from sandbox.game.config import GameError
from sandbox.game.minor.row import (
    AWAY,
    DOCK,
    HOLD,
    STORE,
    Deed,
    Goods,
    Json,
    Move,
    Takes,
    act,
    ask,
    one,
)
from sandbox.game.tool import Parameter, text
from sandbox.game.world.catalogue import MODULES
from sandbox.game.world.models import BaseState, Module

_MOST_AT_ONCE = 10
_XP = 5
FACILITY_PRICE = 60
MOST_BUILT = 5
WORK_TICKS = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """Inputs and outputs are numbers by item, for one piece of work."""

    id: str
    name: str
    inputs: Goods
    outputs: Goods


_RECIPES = (
    Recipe("basic_iron_smelting", "Basic Iron Smelting", {"ore_iron": 5},
           {"refined_steel": 1}),
    Recipe("wire_drawing", "Wire Drawing", {"ore_copper": 4},
           {"refined_copper_wire": 1}),
    Recipe("cell_packing", "Cell Packing", {"gas_hydrogen": 4, "ore_copper": 1},
           {"fuel_cell": 2}),
)  # fmt: skip
RECIPES = {recipe.id: recipe for recipe in _RECIPES}


def _get_recipes(call: Call) -> Json:
    """All recipes by id; the same for everybody."""
    return {"recipes": {name: _recipe_view(one) for name, one in RECIPES.items()}}


def _recipe_view(recipe: Recipe) -> Json:
    """In camel case, unlike the rest of the game."""
    return {
        "id": recipe.id,
        "name": recipe.name,
        "category": "Refining",
        "requiredSkills": {},
        "inputs": _listed(recipe.inputs),
        "outputs": _listed(recipe.outputs),
        "craftingTime": 1,
    }


def _listed(goods: Goods) -> list[Json]:
    return [{"itemId": name, "quantity": count} for name, count in goods.items()]


def _recipe(deed: Deed) -> Recipe:
    recipe = RECIPES.get(deed.given.get("recipe_id", ""))
    if recipe is None:
        raise GameError("cannot_craft", "Unknown recipe. Use 'get_recipes'.")
    if not 1 <= deed.count <= _MOST_AT_ONCE:
        raise GameError("invalid_quantity", f"Count must be from 1 to {_MOST_AT_ONCE}.")
    return recipe


def _inputs(deed: Deed) -> Goods:
    return {name: each * deed.count for name, each in deed.thing.inputs.items()}


def _outputs(deed: Deed) -> Goods:
    return {name: each * deed.count for name, each in deed.thing.outputs.items()}


def _craft(deed: Deed) -> Json:
    deed.player.stats["items_crafted"] += deed.count
    xp = {"crafting_basic": _XP * deed.count}
    return {"recipe": deed.thing.name, "quality": 30, "xp_gained": xp}


def _module_type(deed: Deed) -> str:
    """A module in the hold that the ship has the capacity for."""
    type_id: str = deed.given["module_id"]
    ship = deed.player.ship
    if type_id not in MODULES or not ship.cargo.get(type_id):
        raise GameError("invalid_item", f"There is no module '{type_id}' in your hold.")
    limits = {"cpu_usage": ship.build.cpu, "power_usage": ship.build.power}
    for name, most in limits.items():
        if ship.total(name) + int(MODULES[type_id][name]) > most:
            raise GameError("no_equipment", f"Not enough capacity ({name}) for it.")
    return type_id


def _install(deed: Deed) -> Json:
    module = Module(deed.state.sources.token(16), deed.thing)
    deed.player.ship.modules.append(module)
    return {"module_id": module.id, "module_name": MODULES[deed.thing]["name"]}


def _fitted(deed: Deed) -> Module:
    for module in deed.player.ship.modules:
        if module.id == deed.given["module_id"]:
            return module
    raise GameError("invalid_item", "No such module is fitted. Use 'get_ship'.")


WORKSHOP = (
    ask("get_recipes", "crafting", "Get all recipes.", _get_recipes),
    act("craft", "crafting", "Make things at a base with a workshop.",
        Takes((text("recipe_id", "The recipe's ID, from get_recipes"),
               Parameter("count", "integer", "How often, 1 to 10", required=False)),
              {"recipe_id": "basic_iron_smelting", "count": 1}), where=DOCK,
        service="crafting", names=_recipe,
        moves=(Move(HOLD, AWAY, _inputs, lacks="missing_materials"),
               Move(AWAY, HOLD, _outputs)), changes=_craft,
        teaches=("crafting_basic", lambda deed: _XP * deed.count)),
    act("install_mod", "ship", "Fit a module from your hold.",
        one("module_id", "The module's item ID", "mining_laser_1"), where=DOCK,
        names=_module_type, moves=(Move(HOLD, AWAY, lambda deed: {deed.thing: 1}),),
        changes=_install),
    act("uninstall_mod", "ship", "Take a fitted module into your hold.",
        one("module_id", "The fitted module's ID, from get_ship"), where=DOCK,
        names=_fitted, moves=(Move(AWAY, HOLD, lambda deed: {deed.thing.type_id: 1}),),
        changes=lambda deed: deed.player.ship.modules.remove(deed.thing)),
    act("set_home_base", "ship", "Wake up at this base after a death.", where=DOCK,
        service="cloning",
        changes=lambda deed: setattr(deed.player, "home_base", deed.base.id)),
)  # fmt: skip


def _work(deed: Deed) -> Recipe | None:
    """What is to be produced; None where a facility is to be built."""
    if deed.given["action"] == "produce":
        return _recipe(deed)
    if deed.given["action"] != "build":
        raise GameError("invalid_action", "Use 'build' or 'produce'.")
    if not deed.given.get("facility_type", "").isidentifier():
        raise GameError("invalid_facility", "Name a 'facility_type'.")
    now = deed.state.bases.get(deed.base.id)
    if now and len(now.built) >= MOST_BUILT:
        raise GameError("no_room", "There is no room for another facility.")
    return None


def _begin_work(deed: Deed) -> Json:
    """A facility stands at once, and whoever is there hears of it; goods take time."""
    base, recipe = deed.base, deed.thing
    if recipe is not None:
        deed.later(WORK_TICKS, "crafting_update", recipe.id, deed.count)
        return {"facility": "produce"}
    kind = deed.given["facility_type"]
    deed.state.bases.setdefault(base.id, BaseState()).built.append(kind)
    data = {"base_id": base.id, "facility_type": kind}
    deed.tell_others("facility_built", data)
    return {"facility": "build", **data}


FACILITIES = (
    act("facility", "facility",
        "Build a facility, or let the base produce from your storage.",
        Takes((text("action", "build or produce"),
               text("facility_type", "What to build", required=False),
               text("recipe_id", "What to produce", required=False),
               Parameter("count", "integer", "How often, 1 to 10", required=False)),
              {"action": "produce", "recipe_id": "basic_iron_smelting", "count": 1}),
        where=DOCK, names=_work, costs=lambda deed: 0 if deed.thing else FACILITY_PRICE,
        moves=(Move(STORE, AWAY, lambda deed: _inputs(deed) if deed.thing else {},
                    lacks="missing_materials"),), changes=_begin_work),
)  # fmt: skip
