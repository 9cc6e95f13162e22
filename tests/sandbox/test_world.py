"""The world: the same for a seed, whole, and of the size that was recorded."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.game.config import Config
from sandbox.game.tools.looking import find_path
from sandbox.game.world.galaxy import System, make_world
from tests.long_run import few_or_many
from tests.sandbox.captains import Captain, make_game

CAPITALS = {"sol", "krynn", "nexus_prime", "haven", "frontier"}
WORLDS = {
    "seed": st.integers(min_value=-(2**40), max_value=2**40),
    "systems": st.integers(min_value=10, max_value=70),
}


@given(**WORLDS)
def test_every_system_can_be_reached_by_symmetric_connections(
    seed: int, systems: int
) -> None:
    world = make_world(seed, systems)
    assert len(world.systems) == systems
    assert set(world.systems) >= CAPITALS
    for star in world.systems.values():
        assert 1 <= len(star.connections) <= 8
        assert star.id not in star.connections
        assert len(set(star.connections)) == len(star.connections)
        for near in star.connections:
            assert star.id in world.systems[near].connections
        assert find_path(world.systems, "sol", star.id)[0] == "sol"


@given(**WORLDS)
def test_places_and_bases_are_where_they_say(seed: int, systems: int) -> None:
    world = make_world(seed, systems)
    for star in world.systems.values():
        assert star.pois[0].type == "sun"
        assert all(poi.system_id == star.id for poi in star.pois)
    for base in world.bases.values():
        assert world.pois[base.poi_id].base is base
    for poi in world.pois.values():
        assert all(0 < one.remaining == one.max_remaining for one in poi.deposits)


@settings(max_examples=few_or_many(10, 100), deadline=None)
@given(**WORLDS)
def test_a_seed_gives_one_world(seed: int, systems: int) -> None:
    assert make_world(seed, systems) == make_world(seed, systems)
    assert make_world(seed, systems) != make_world(seed + 1, systems)


def test_the_full_map_has_the_recorded_size_and_density() -> None:
    captain = Captain(make_game(systems=505))
    text = captain.game.answer("get_map", {"session_id": captain.session_id})
    assert 175_000 < len(text.encode()) < 205_000
    galaxy = json.loads(text)
    # The text is joined from pieces, so its layout is checked against the library's.
    assert json.dumps(galaxy, indent=2, ensure_ascii=False) == text
    degrees = [len(star["connections"]) for star in galaxy["systems"]]
    assert galaxy["total_count"] == len(degrees) == 505
    assert sum(degrees) / 505 == pytest.approx(4.2, abs=0.1)
    assert min(degrees) == 1
    assert sum(star.get("is_stronghold", False) for star in galaxy["systems"]) == 9
    assert sum("empire" in star for star in galaxy["systems"]) == 70


def test_sol_has_the_names_of_the_seed_era() -> None:
    world = make_world(1, 20)
    sol: System = world.systems["sol"]
    assert {"sol_station", "sol_belt", "sol_earth"} <= {poi.id for poi in sol.pois}
    assert world.pois["sol_belt"].name == "Main Belt"
    assert world.bases["sol_base"].name == "Confederacy Central Command"
    assert world.bases["sol_base"].poi_id == "sol_station"
    mined = {deposit.resource_id for deposit in world.pois["sol_belt"].deposits}
    assert mined == {"ore_iron", "ore_copper", "ore_nickel", "ore_silicon"}


@pytest.mark.parametrize("systems", [9, 2001, -1])
def test_a_size_out_of_range_is_refused(systems: int) -> None:
    with pytest.raises(ValueError, match="systems must be from 10 to 2000"):
        Config(systems=systems)


def test_a_way_has_the_fewest_jumps() -> None:
    stars = make_world(3, 40).systems
    reached, jumps = {"sol"}, 0
    edge = reached
    while edge:
        for name in edge:
            way = find_path(stars, "sol", name)
            assert (way[0], way[-1], len(way) - 1) == ("sol", name, jumps)
            for here, there in pairwise(way):
                assert there in stars[here].connections
        edge = {near for name in edge for near in stars[name].connections} - reached
        reached = reached | edge
        jumps += 1
    assert reached == set(stars)
