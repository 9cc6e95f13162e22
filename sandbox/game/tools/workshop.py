"""What bases make of what: recipes, facilities, and the modules of a ship."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.game.config import GameError, Json
from sandbox.game.tool import text
from sandbox.game.tools.rules import Call, Move, act, ask, pick
from sandbox.game.world.catalogue import MODULES
from sandbox.game.world.models import BaseState, Goods, Module

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


RECIPES = {one.id: one for one in (
    Recipe("basic_iron_smelting", "Basic Iron Smelting", {"ore_iron": 5},
           {"refined_steel": 1}),
    Recipe("wire_drawing", "Wire Drawing", {"ore_copper": 4},
           {"refined_copper_wire": 1}),
    Recipe("cell_packing", "Cell Packing", {"gas_hydrogen": 4, "ore_copper": 1},
           {"fuel_cell": 2}),
)}  # fmt: skip


def _view_recipe(recipe: Recipe) -> Json:
    """In camel case, unlike the rest of the game."""
    inputs, outputs = (
        [{"itemId": name, "quantity": count} for name, count in goods.items()]
        for goods in (recipe.inputs, recipe.outputs)
    )
    return {
        "id": recipe.id,
        "name": recipe.name,
        "category": "Refining",
        "requiredSkills": {},
        "inputs": inputs,
        "outputs": outputs,
        "craftingTime": 1,
    }


def _find_recipe(call: Call) -> Recipe:
    recipe = RECIPES.get(call.given.get("recipe_id", ""))
    if recipe is None:
        raise GameError("cannot_craft", "Unknown recipe. Use 'get_recipes'.")
    if not 1 <= call.count <= _MOST_AT_ONCE:
        raise GameError("invalid_quantity", f"Count must be from 1 to {_MOST_AT_ONCE}.")
    return recipe


def _times(call: Call, goods: Goods) -> Goods:
    return {name: each * call.count for name, each in goods.items()}


def _craft(call: Call) -> Json:
    call.player.stats["items_crafted"] += call.count
    xp = {"crafting_basic": _XP * call.count}
    return {"recipe": call.thing.name, "quality": 30, "xp_gained": xp}


def _find_module_type(call: Call) -> str:
    type_id: str = call.given["module_id"]
    ship = call.player.ship
    if type_id not in MODULES or not ship.cargo.get(type_id):
        raise GameError("invalid_item", f"There is no module '{type_id}' in your hold.")
    limits = {"cpu_usage": ship.build.cpu, "power_usage": ship.build.power}
    for name, most in limits.items():
        if ship.total(name) + int(MODULES[type_id][name]) > most:
            raise GameError("no_equipment", f"Not enough capacity ({name}) for it.")
    return type_id


def _install(call: Call) -> Json:
    module = Module(call.token(), call.thing)
    call.player.ship.modules.append(module)
    return {"module_id": module.id, "module_name": MODULES[call.thing]["name"]}


_find_module = pick("module_id", lambda call: call.player.ship.modules, "invalid_item",
                    "No such module is fitted. Use 'get_ship'.")  # fmt: skip


WORKSHOP = (
    ask("get_recipes", "crafting", "Get all recipes.", lambda call: {
        "recipes": {name: _view_recipe(each) for name, each in RECIPES.items()}}),
    act("craft", "crafting", "Make things at a base with a workshop.",
        text("recipe_id", "The recipe's ID, from get_recipes", "basic_iron_smelting"),
        "count", where="dock", service="crafting", names=_find_recipe,
        moves=(Move(Call.hold, None, lambda call: _times(call, call.thing.inputs),
                    lacks="missing_materials"),
               Move(None, Call.hold, lambda call: _times(call, call.thing.outputs))), changes=_craft,
        teaches=("crafting_basic", lambda call: _XP * call.count)),
    act("install_mod", "ship", "Fit a module from your hold.",
        text("module_id", "The module's item ID", "mining_laser_1"), where="dock",
        names=_find_module_type, moves=(Move(Call.hold, None, lambda call: {call.thing: 1}),),
        changes=_install),
    act("uninstall_mod", "ship", "Take a fitted module into your hold.",
        text("module_id", "The fitted module's ID, from get_ship", "module_id"), where="dock",
        names=_find_module, moves=(Move(None, Call.hold, lambda call: {call.thing.type_id: 1}),),
        changes=lambda call: call.player.ship.modules.remove(call.thing)),
    act("set_home_base", "ship", "Wake up at this base after a death.", where="dock",
        service="cloning",
        changes=lambda call: setattr(call.player, "home_base", call.base.id)),
)  # fmt: skip


def _choose_work(call: Call) -> Recipe | None:
    """What is to be produced; None where a facility is to be built."""
    if call.given["action"] == "produce":
        return _find_recipe(call)
    if call.given["action"] != "build":
        raise GameError("invalid_action", "Use 'build' or 'produce'.")
    if not call.given.get("facility_type", "").isidentifier():
        raise GameError("invalid_facility", "Name a 'facility_type'.")
    now = call.state.bases.get(call.base.id)
    if now and len(now.built) >= MOST_BUILT:
        raise GameError("no_room", "There is no room for another facility.")
    return None


def _begin_work(call: Call) -> Json:
    """A facility stands at once, and whoever is there hears of it; goods take time."""
    base, recipe = call.base, call.thing
    if recipe is not None:
        call.schedule(WORK_TICKS, "crafting_update", recipe.id, call.count)
        return {"facility": "produce"}
    kind = call.given["facility_type"]
    call.state.bases.setdefault(base.id, BaseState()).built.append(kind)
    data = {"base_id": base.id, "facility_type": kind}
    call.tell_others("facility_built", data)
    return {"facility": "build", **data}


FACILITIES = (
    act("facility", "facility",
        "Build a facility, or let the base produce from your storage.",
        text("action", "build or produce", "produce"),
        text("facility_type", "What to build", required=False),
        text("recipe_id", "What to produce", "basic_iron_smelting", required=False),
        "count",
        where="dock", names=_choose_work, costs=lambda call: 0 if call.thing else FACILITY_PRICE,
        moves=(Move(Call.store, None,
                    lambda call: _times(call, call.thing.inputs) if call.thing else {},
                    lacks="missing_materials"),), changes=_begin_work),
)  # fmt: skip
