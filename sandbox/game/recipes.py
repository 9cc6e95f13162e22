"""What can be made of what, at a station that has a workshop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """Inputs and outputs are numbers by item, for one piece of work."""

    id: str
    name: str
    inputs: dict[str, int]
    outputs: dict[str, int]
    xp: int = 5


_RECIPES = (
    Recipe(
        "basic_iron_smelting",
        "Basic Iron Smelting",
        {"ore_iron": 5},
        {"refined_steel": 1},
    ),
    Recipe(
        "wire_drawing", "Wire Drawing", {"ore_copper": 4}, {"refined_copper_wire": 1}
    ),
    Recipe(
        "cell_packing",
        "Cell Packing",
        {"gas_hydrogen": 4, "ore_copper": 1},
        {"fuel_cell": 2},
    ),
)
RECIPES = {recipe.id: recipe for recipe in _RECIPES}


def recipe_view(recipe: Recipe) -> dict[str, Any]:
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


def _listed(goods: dict[str, int]) -> list[dict[str, Any]]:
    return [{"itemId": name, "quantity": count} for name, count in goods.items()]
