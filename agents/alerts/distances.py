"""How far the nearest base is, and what a jump there takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from django.db.models.functions import Length

from agents.dashboard import map
from agents.models import KnownBase
from memory.gamestate.facts import list_objects
from memory.gamestate.values import find_first, is_number, parse_text, unwrap_content
from memory.models import GameSnapshot

ROUTE = "find_route"
# Characters of an answer that is read for one number.
LONGEST_ROUTE = 50_000
# Fuel of a jump above this is a fault.
MOST_FUEL = 10_000
# Actions after which a route was found for another ship.
OTHER_SHIP = frozenset(
    {
        *("switch_ship", "buy_ship", "buy_listed_ship", "sell_ship"),
        *("install_mod", "uninstall_mod", "refit"),
    }
)


def learn_bases(found: Iterable[str]) -> frozenset[str]:
    """The systems with a base that any account has seen; new ones are kept."""
    known = frozenset(KnownBase.objects.values_list("system", flat=True))
    seen = {one[:200] for one in found} - known
    rows = [KnownBase(system=one) for one in sorted(seen)]
    if rows:
        KnownBase.objects.bulk_create(rows, ignore_conflicts=True)
    return known | seen


def count_jumps_to(
    bases: frozenset[str],
) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Jumps to the nearest base by system, and the ids of systems by name."""
    rows = GameSnapshot.objects.filter(tool_name=map.TOOL, args_key="")
    newest = rows.order_by("-captured_at").values_list("pk", "version").first()
    return _measure(*newest, bases) if newest else (dict.fromkeys(bases, 0), {})


@lru_cache(maxsize=4)
def _measure(
    pk: int, version: int, bases: frozenset[str]
) -> tuple[Mapping[str, int], Mapping[str, str]]:
    content = GameSnapshot.objects.filter(pk=pk).values_list("content", flat=True)
    roads, ids = read_roads(content.first() or "")
    return count_jumps(roads, {ids.get(one, one) for one in bases}), ids


def read_roads(content: str) -> tuple[dict[str, set[str]], dict[str, str]]:
    """The neighbours of each system of a map, both ways, and ids of systems by name."""
    roads: dict[str, set[str]] = {}
    ids: dict[str, str] = {}
    found = parse_text(content)
    for system in list_objects(found.get("systems") if isinstance(found, dict) else ()):
        own = str(find_first(system, "system_id", "id") or "")
        ids[str(system.get("name") or own)] = own
        connections = system.get("connections")
        for other in connections if isinstance(connections, list) else ():
            far = other.get("system_id") if isinstance(other, dict) else other
            roads.setdefault(own, set()).add(str(far))
            roads.setdefault(str(far), set()).add(own)
    return roads, ids


def count_jumps(
    roads: Mapping[str, Iterable[str]], bases: Iterable[str]
) -> dict[str, int]:
    """Jumps from each system to the nearest of the bases; without those that reach none."""
    found = dict.fromkeys(bases, 0)
    edge = list(found)
    while edge:
        reached = []
        for one in edge:
            for other in roads.get(one, ()):
                if other not in found:
                    found[other] = found[one] + 1
                    reached.append(other)
        edge = reached
    return found


def load_jump_fuel(usernames: Iterable[str]) -> dict[str, float]:
    """What a jump takes with the ship of each account, by its newest route."""
    rows = GameSnapshot.objects.filter(
        username__in=usernames, tool_name=ROUTE, logged_out_at=None
    ).annotate(size=Length("content"))
    newest = rows.order_by("username", "-captured_at").distinct("username")
    found = {}
    for row in newest:
        snapshot = row.to_snapshot() if row.size <= LONGEST_ROUTE else None
        if snapshot is None or any(one.reason in OTHER_SHIP for one in snapshot.marks):
            continue
        told = find_first(unwrap_content(snapshot.content), "fuel_per_jump")
        if is_number(told) and 0 < told <= MOST_FUEL:
            found[row.username] = float(told)
    return found
