"""Write the outcome of an own action, which an event tells, into a snapshot.

What the event says is written; what else `effects` tells of the action is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memory.gamestate.draft import Draft, is_entry
from memory.gamestate.effects import CARGO, CREDITS, DOCK, FUEL, HERE, HULL, SYSTEM
from memory.gamestate.extract import Result
from memory.gamestate.invalidation import Circumstances, find_invalidations
from memory.gamestate.values import find_first, is_number

Data = Mapping[str, object]
# The fields that are in doubt; () for all of them, None for none.
Doubt = tuple[str, ...] | None

# Stands among what an outcome settled where it settled all there is.
_ALL = "*"
_WHOLE_HOLD = ("cargo", "items", "used", "cargo_used", "available", "cargo_available")
_STATION_PLACES = ("player.docked_at_base", "docked_at_base", "ship.docked_at_base")

# The actions of outcomes that have a name of their own.
COMMANDS = {
    "arrived": "travel",
    "jumped": "jump",
    "mining_yield": "mine",
    "auto_dock": "dock",
    "auto_undock": "undock",
}


def find_action(name: object) -> str:
    """The action that an outcome belongs to, "" where it names none."""
    return COMMANDS.get(name, name) if isinstance(name, str) else ""


def write_outcome(draft: Draft, command: str, data: Data) -> Doubt:
    """Write an action's outcome into a draft; what of the snapshot stays in doubt."""
    read = _OUTCOMES.get(command)
    settled = read(draft, data) if read is not None else ()
    if _ALL in settled:
        return None
    left: list[str] = []
    hit = False
    answer = Result(content=dict(data))
    for each in find_invalidations(command, {}, answer, Circumstances(mutation=True)):
        if not each.hits(draft.tool):
            continue
        hit = True
        fields = each.fields
        if settled and draft.tool == "get_cargo":
            fields = fields or _WHOLE_HOLD
        if not fields:
            return ()
        left += [path for path in fields if path not in settled]
    return tuple(dict.fromkeys(left)) if hit and left else None


def find_number(data: Data, *keys: str) -> float | None:
    """The first of several keys that holds a number."""
    found = (data.get(key) for key in keys)
    return next((v for v in found if is_number(v)), None)


def find_text(data: Data, *keys: str) -> str:
    """The first of several keys that holds a text."""
    found = (data.get(key) for key in keys)
    return next((v for v in found if isinstance(v, str) and v), "")


def _mined(draft: Draft, data: Data) -> tuple[str, ...]:
    ore, count = find_text(data, "resource_id"), find_number(data, "quantity")
    if not ore or count is None:
        return ()
    if draft.tool == "get_poi":
        return _write_remaining(draft, ore, find_number(data, "remaining"))
    draft.add("player.stats.ore_mined", count)
    return _change_hold(draft, ore, count, find_text(data, "resource_name"))


def _write_remaining(
    draft: Draft, ore: str, remaining: float | None
) -> tuple[str, ...]:
    if remaining is None:
        return ()
    found = False
    for path in ("resources", "poi.resources"):
        items = draft.get(path)
        for item in items if isinstance(items, list) else ():
            if is_entry(item, "resource_id", ore):
                item["remaining"] = remaining
                item.pop("remaining_display", None)
                item.pop("depletion_percent", None)
                draft.written[path] = draft.fixed[path] = draft.tick
                found = True
    return ("resources", "poi.resources") if found else ()


def _change_hold(draft: Draft, item: str, count: float, name: str) -> tuple[str, ...]:
    """Change the hold; the paths that are right then, wherever the hold may stand."""
    items, used = draft.load(item, count, name)
    if draft.tool == "get_cargo" and items and used:
        return (_ALL,)
    settled = ("ship.cargo", "cargo") if items else ()
    return (*settled, "ship.cargo_used", "cargo_used") if used else settled


def _bought(draft: Draft, data: Data) -> tuple[str, ...]:
    settled = _pay(draft, find_number(data, "total_cost"))
    item = find_text(data, "item_id")
    count = find_number(data, "delivered_to_cargo")
    if count is None and find_number(data, "delivered_to_storage") is None:
        count = find_number(data, "quantity")
    if item and count is not None:
        settled += _change_hold(draft, item, count, find_text(data, "item"))
    return settled


def _sold(draft: Draft, data: Data) -> tuple[str, ...]:
    earned = find_number(data, "total_earned")
    settled = _pay(draft, None if earned is None else -earned)
    item, count = find_text(data, "item_id"), find_number(data, "quantity_sold")
    if item and count is not None and not data.get("auto_listed"):
        settled += _change_hold(draft, item, -count, "")
    return settled


def _pay(draft: Draft, cost: float | None) -> tuple[str, ...]:
    if cost is None:
        return ()
    done = [draft.add(path, -cost) for path in CREDITS]
    return CREDITS if any(done) else ()


def _refuelled(draft: Draft, data: Data) -> tuple[str, ...]:
    settled: tuple[str, ...] = ()
    if data.get("source") == "station":
        settled += _pay(draft, find_number(data, "cost"))
    now, added = find_number(data, "fuel_now"), find_number(data, "fuel")
    for path in FUEL:
        if now is not None and draft.get(path) is not None:
            settled += FUEL if draft.put(path, now) else ()
        elif added is not None and draft.add(path, added):
            settled += FUEL
    cells = find_number(data, "cells_used")
    if data.get("source") == "station" and not cells:
        settled += CARGO
    elif cells and data.get("source") == "fuel_cells":
        settled += _change_hold(draft, "fuel_cell", -cells, "")
    return settled


def _repaired(draft: Draft, data: Data) -> tuple[str, ...]:
    cost = find_number(data, "cost")
    settled = _pay(draft, cost)
    if cost:
        settled += CARGO
    hull = find_number(data, "hull")
    if hull is not None:
        done = [draft.put(p, hull) for p in HULL if draft.get(p) is not None]
        settled += HULL if any(done) else ()
    return settled


def _jettisoned(draft: Draft, data: Data) -> tuple[str, ...]:
    item, count = find_text(data, "item_id"), find_number(data, "quantity")
    if not item or count is None:
        return ()
    settled = _change_hold(draft, item, -count, "")
    used = find_number(data, "cargo_used")
    if used is not None and draft.tool != "get_cargo":
        done = [draft.put(p, used) for p in ("ship.cargo_used", "cargo_used")]
        settled += ("ship.cargo_used", "cargo_used") if any(done) else ()
    return settled


def _arrived(draft: Draft, data: Data) -> tuple[str, ...]:
    poi = find_text(data, "poi_id")
    if draft.tool not in ("get_status", "get_state") or not poi:
        return ()
    _undocked(draft, data)
    draft.put("location.poi_name", find_text(data, "poi") or None)
    places = ("player.current_poi", "current_poi", "location.poi_id")
    done = [draft.put(path, poi) for path in places]
    # The event does not say who is near.
    return tuple(p for p in HERE if p != "nearby") if any(done) else DOCK


def _jumped(draft: Draft, data: Data) -> tuple[str, ...]:
    settled = _arrived(draft, data)
    system = find_text(data, "system_id")
    if draft.tool not in ("get_status", "get_state") or not system:
        return settled
    draft.put("location.system_name", find_text(data, "system") or None)
    places = ("player.current_system", "current_system", "location.system_id")
    done = [draft.put(path, system) for path in places]
    return (*settled, *SYSTEM[:2]) if any(done) else settled


def _undocked(draft: Draft, data: Data) -> tuple[str, ...]:
    """In space: no base is named."""
    done = draft.put("location.docked_at", None)
    for path in _STATION_PLACES:
        if path == "player.docked_at_base" or draft.get(path) is not None:
            done = draft.drop(path) or done
    return DOCK if done or draft.tool == "get_ship" else ()


def _docked(draft: Draft, data: Data) -> tuple[str, ...]:
    """At a base, where the outcome names it by its id."""
    base = find_text(data, "base_id")
    if not base:
        return ()
    done = draft.put("location.docked_at", base)
    done = draft.put("player.docked_at_base", base, absent=True) or done
    for path in _STATION_PLACES[1:]:
        if draft.get(path) is not None:
            done = draft.put(path, base) or done
    return DOCK if done or draft.tool == "get_ship" else ()


_OUTCOMES: Mapping[str, Callable[[Draft, Data], tuple[str, ...]]] = {
    "mine": _mined,
    "buy": _bought,
    "sell": _sold,
    "refuel": _refuelled,
    "repair": _repaired,
    "jettison": _jettisoned,
    "travel": _arrived,
    "jump": _jumped,
    "undock": _undocked,
    "dock": _docked,
}


def unwrap_result(data: Data) -> Data:
    """What an ``action_result`` says, whatever it is wrapped in."""
    inner = find_first(data, "result", "payload")
    return inner if isinstance(inner, Mapping) else {}
