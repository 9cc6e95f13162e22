"""craft, install_mod, uninstall_mod and set_home_base: what a station does for one."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.actions.docked import base_of
from sandbox.game.actions.goods import room_for
from sandbox.game.catalogue import ITEMS, MODULES
from sandbox.game.errors import GameError
from sandbox.game.learning import teach
from sandbox.game.models import Module, Player
from sandbox.game.recipes import RECIPES
from sandbox.game.state import State

_MOST_AT_ONCE = 10


def _prepare_craft(state: State, player: Player, arguments: Arguments) -> Intent:
    if "crafting" not in base_of(state, player).services:
        raise GameError("no_crafting_service", "This base has no workshop.")
    recipe = RECIPES.get(arguments["recipe_id"])
    if recipe is None:
        raise GameError("cannot_craft", "Unknown recipe. Use 'get_recipes'.")
    count = arguments.get("count", 1)
    if not 1 <= count <= _MOST_AT_ONCE:
        raise GameError("invalid_quantity", f"Count must be from 1 to {_MOST_AT_ONCE}.")
    for name, each in recipe.inputs.items():
        if player.ship.cargo.get(name, 0) < each * count:
            raise GameError(
                "missing_materials", f"Need {each * count} {ITEMS[name].name}."
            )
    given = {"recipe_id": recipe.id, "count": count}
    return Intent(given, {**given, "message": f"Crafting {recipe.name}"})


def _finish_craft(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_craft(state, player, arguments)
    recipe, count = RECIPES[arguments["recipe_id"]], arguments["count"]
    for name, each in recipe.inputs.items():
        player.ship.unload(name, each * count)
    for name, each in recipe.outputs.items():
        player.ship.load(name, each * count)
    player.stats["items_crafted"] += count
    xp = recipe.xp * count
    level_up = teach(state, player, "crafting_basic", xp)
    data = {
        "action": "craft",
        "recipe": recipe.name,
        "quality": 30,
        "xp_gained": {"crafting_basic": xp},
        "skill_level": player.skills["crafting_basic"].level,
        "level_up": level_up,
    }
    return [Event(data)]


def _prepare_install(state: State, player: Player, arguments: Arguments) -> Intent:
    base_of(state, player)
    type_id = arguments["module_id"]
    kind, ship = MODULES.get(type_id), player.ship
    if kind is None or not ship.cargo.get(type_id):
        raise GameError("invalid_item", f"There is no module '{type_id}' in your hold.")
    for name, most in (
        ("cpu_usage", ship.build.cpu),
        ("power_usage", ship.build.power),
    ):
        if ship.total(name) + int(kind[name]) > most:
            raise GameError("no_equipment", f"Not enough capacity ({name}) for it.")
    given = {"module_id": type_id}
    return Intent(given, {**given, "message": "Installing..."})


def _finish_install(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_install(state, player, arguments)
    module = Module(state.sources.token(16), arguments["module_id"])
    player.ship.unload(module.type_id, 1)
    player.ship.modules.append(module)
    return [_fitted("install_mod", player, module)]


def _prepare_uninstall(state: State, player: Player, arguments: Arguments) -> Intent:
    base_of(state, player)
    module = _module(player, arguments["module_id"])
    room_for(player, ITEMS[module.type_id], 1)
    given = {"module_id": module.id}
    return Intent(given, {**given, "message": "Uninstalling..."})


def _module(player: Player, module_id: str) -> Module:
    for module in player.ship.modules:
        if module.id == module_id:
            return module
    raise GameError("invalid_item", f"No module '{module_id}' is fitted.")


def _finish_uninstall(
    state: State, player: Player, arguments: Arguments
) -> list[Event]:
    _prepare_uninstall(state, player, arguments)
    module = _module(player, arguments["module_id"])
    player.ship.modules.remove(module)
    player.ship.load(module.type_id, 1)
    return [_fitted("uninstall_mod", player, module)]


def _fitted(action: str, player: Player, module: Module) -> Event:
    return Event(
        {
            "action": action,
            "module_id": module.id,
            "module_name": MODULES[module.type_id]["name"],
            "cargo_used": player.ship.cargo_used,
        }
    )


def _prepare_home(state: State, player: Player, arguments: Arguments) -> Intent:
    base = base_of(state, player)
    if "cloning" not in base.services:
        raise GameError("no_cloning_service", "This base has no cloning service.")
    return Intent({"base_id": base.id}, {"base_id": base.id, "message": "Moving in..."})


def _finish_home(state: State, player: Player, arguments: Arguments) -> list[Event]:
    player.home_base = arguments["base_id"]
    return [Event({"action": "set_home_base", "home_base": player.home_base})]


WORKSHOP = (
    Action("craft", _prepare_craft, _finish_craft, needs="dock"),
    Action("install_mod", _prepare_install, _finish_install, needs="dock"),
    Action("uninstall_mod", _prepare_uninstall, _finish_uninstall, needs="dock"),
    Action("set_home_base", _prepare_home, _finish_home, needs="dock"),
)
