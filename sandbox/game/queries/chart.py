"""The galaxy: the map, routes and the search for systems."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from sandbox.game.actions.flight import JUMP_FUEL
from sandbox.game.chart import Chart
from sandbox.game.errors import GameError, unknown_system
from sandbox.game.places import System, World
from sandbox.game.queries.call import Call, Json
from sandbox.game.views import position_view

MOST_FOUND = 20


def get_map(call: Call) -> Json | str:
    """The whole galaxy as text that is already rendered, or one system of it."""
    state = call.state
    crowd = state.crowd()
    only = call.arguments.get("system_id")
    if not only:
        return state.chart.text(crowd, call.player.visited)
    star = state.world.systems.get(only)
    if star is None:
        raise unknown_system(only)
    one = World({star.id: star}, {}, {})
    return Chart(one).text(crowd, call.player.visited)


def search_systems(call: Call) -> Json:
    query = call.arguments.get("query", "").strip()
    if not query:
        raise GameError(
            "invalid_query",
            "Search query is required. Provide a partial system name to search for.",
        )
    wanted = query.casefold()
    found = [
        star
        for star in call.state.world.systems.values()
        if wanted in star.name.casefold() or wanted in star.id
    ]
    return {
        "query": query,
        "systems": [
            {
                "system_id": star.id,
                "name": star.name,
                "position": position_view(star.position),
                "connections": list(star.connections),
            }
            for star in found[:MOST_FOUND]
        ],
        "total_found": len(found),
        "message": f"Found {len(found)} system(s)",
    }


def find_route(call: Call) -> Json:
    target = call.arguments["target_system"]
    systems = call.state.world.systems
    if target not in systems:
        raise unknown_system(target)
    way = shortest(systems, call.player.system_id, target)
    jumps = len(way) - 1
    return {
        "target_system": target,
        "found": True,
        "total_jumps": jumps,
        "route": [
            {"system_id": name, "name": systems[name].name, "jumps": index}
            for index, name in enumerate(way)
        ],
        "fuel_per_jump": JUMP_FUEL,
        "estimated_fuel": jumps * JUMP_FUEL,
        "fuel_available": call.player.ship.fuel,
        "cargo_used": call.player.ship.cargo_used,
        "message": f"Route found: {jumps} jump{'' if jumps == 1 else 's'}",
    }


def shortest(systems: Mapping[str, System], start: str, target: str) -> list[str]:
    """Give the systems of a way with the fewest jumps, both ends included."""
    came_from = {start: start}
    waiting = deque([start])
    while waiting and target not in came_from:
        here = waiting.popleft()
        for near in systems[here].connections:
            if near not in came_from:
                came_from[near] = here
                waiting.append(near)
    way = [target]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
