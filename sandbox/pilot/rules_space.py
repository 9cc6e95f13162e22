"""Rules for flying and for stations: mine until the hold is full, sell, repair, go on."""

from __future__ import annotations

import re
from dataclasses import replace
from zlib import crc32

from sandbox.pilot import situation
from sandbox.pilot.beliefs import Chart, Place
from sandbox.pilot.reading import Heard, read_block
from sandbox.pilot.situation import Call, Decision, Situation

LOW_FUEL = 0.15
# Share of the hold at which a ship that does not mine any more goes home.
NEARLY_FULL = 0.8

_SOUNDS_MINABLE = re.compile(r"belt|asteroid|ice field|gas cloud|_field|_mines", re.I)

# Share of the tank from which a jump to a neighbour and back is safe.
EXPLORE_ABOVE = 0.6
# One departure of so many, by the credits at hand, goes to a neighbour.
EXPLORE_EVERY = 6

KEEP = ("fuel cell", "repair kit", "mining laser", "weapon")
REFUEL_BELOW = 0.7
REPAIR_BELOW = 0.6


def act_in_space(s: Situation) -> Decision | None:
    """Decide where to go while undocked."""
    if asked := s.ask("Where to go depends on where I am.", "place"):
        return asked
    if done := _mine_here(s):
        return done
    if _must_return(s):
        why = "The hold is full." if s.beliefs.full else "It is time to go back."
        return go_to_station(s, why)
    if asked := s.ask_chart("I have to find a place to mine."):
        return asked
    return _ask_before_leaving(s) or _to_neighbour(s) or _to_belt(s) or _go_home(s)


def act_at_station(s: Situation) -> Decision | None:
    """Do what there is to do while docked, one action a tick."""
    if asked := s.ask("What I can do depends on where I am.", "docked"):
        return asked
    if s.beliefs.docked.value is not True:
        return None
    why = "Nothing more to do at this station: back to work."
    return sell_cargo(s) or _refuel_or_repair(s) or _with_log(s, s.act(why, "undock"))


def _mine_here(s: Situation) -> Decision | None:
    if not _can_mine_here(s) or _must_return(s):
        return None
    done = s.act("I am at a place to mine and there is room in the hold.", "mine")
    if done or "mine" not in s.tools:
        return done
    return Decision(
        text=situation.describe_refusals(list(s.transcript.calls())),
        thought="Mining is refused, and going elsewhere would not change that.",
    )


def _can_mine_here(s: Situation) -> bool:
    """Whether one can mine here: by what worked, the chart, or the place's name."""
    b = s.beliefs
    if b.barren or not b.place.value:
        return False
    if b.digging:
        return True
    if b.here is not None:
        return b.here.minable
    return bool(_SOUNDS_MINABLE.search(b.place.value))


def _must_return(s: Situation) -> bool:
    b = s.beliefs
    if b.full or b.fuel.share < LOW_FUEL:
        return True
    if _can_mine_here(s) or not b.capacity:
        return False
    return (b.used or 0) >= NEARLY_FULL * b.capacity


def is_hold_empty(s: Situation) -> bool:
    return s.beliefs.hold.known and not s.beliefs.hold.value


# --- Going somewhere: belts, stations, other systems.


def _ask_before_leaving(s: Situation) -> Decision | None:
    here = s.beliefs.here
    if here is None or not here.base or s.beliefs.no_base:
        return None
    asked = s.ask("Before I leave: is there anything to sell?", "hold")
    if asked or not _must_return(s):
        return asked
    return go_to_station(s, "The hold is nearly full.")


def _to_belt(s: Situation) -> Decision | None:
    chart = s.beliefs.chart_here
    for place in chart.places if chart else ():
        barren = s.beliefs.barren and place.is_called(s.beliefs.place.value)
        if place.minable and not barren:
            thought = f"{place.name} is the place to mine here."
            if done := s.act(thought, "travel", target_poi=place.id):
                return done
    return None


def go_to_station(s: Situation, why: str) -> Decision | None:
    """Dock if there is a base here, else fly to one, else to another system's."""
    if asked := s.ask(why, "place") or s.ask_chart(why):
        return asked
    here = s.beliefs.here
    if here is not None and here.base and not s.beliefs.no_base:
        return s.act(f"{why} There is a base here.", "dock")
    chart = s.beliefs.chart_here
    for place in chart.places if chart else ():
        if place.base and place is not here:
            thought = f"{why} {place.name} has a base."
            if done := s.act(thought, "travel", target_poi=place.id):
                return done
    return _go_home(s) or s.act(f"{why} I try to dock right here.", "dock")


def _to_neighbour(s: Situation) -> Decision | None:
    """Now and then, when leaving a station with a good tank, go to a neighbour."""
    b, here = s.beliefs, s.beliefs.here
    if here is None or not here.base or not is_hold_empty(s):
        return None
    if b.credits.value is None or b.fuel.share < EXPLORE_ABOVE:
        return None
    if _dice(s, b.credits.value) % EXPLORE_EVERY:
        return None
    return explore_neighbour(s, "The tank is good and nothing is waiting to be sold.")


def explore_neighbour(s: Situation, why: str) -> Decision | None:
    """Jump to a neighbouring system."""
    if asked := s.ask("An undocked ship can jump.", "docked") or s.ask_chart(why):
        return asked
    chart = s.beliefs.chart_here
    if chart is None or not chart.ways:
        return None
    if s.beliefs.docked.value:
        return s.act(f"{why} First I undock.", "undock")
    ways = sorted(chart.ways)
    first = _dice(s, s.beliefs.credits.value or 0) // EXPLORE_EVERY
    start = first % len(ways)
    for way in ways[start:] + ways[:start]:
        if done := s.act(f"{why} I have a look at {way}.", "jump", target_system=way):
            return done
    return None


def _dice(s: Situation, number: int) -> int:
    """A number that follows from captain and number: the pilot throws no real dice."""
    return crc32(f"{s.name} {number}".encode())


def _go_home(s: Situation) -> Decision | None:
    """Go towards a system with a station: where the ship came from, or its home."""
    chart = s.beliefs.chart_here
    if chart and s.beliefs.came_from in chart.ways:
        thought = "There is nothing for me in this system: back."
        return s.act(thought, "jump", target_system=s.beliefs.came_from)
    base = s.beliefs.home_base
    if not base:
        return s.query("I need to know which base is my home.", "get_status")
    return _jump_towards(s, base.removesuffix("_base"))


def _jump_towards(s: Situation, wanted: str) -> Decision | None:
    b, chart = s.beliefs, s.beliefs.chart_here
    if asked := s.ask_chart(f"I look for the way to {wanted}."):
        return asked
    target = b.found_systems.get(wanted.casefold(), wanted)
    if chart and target in chart.ways:
        return s.act(f"{target} is next door.", "jump", target_system=target)
    if hop := _next_hop(b.route, b.system.value, target):
        return s.act(f"{hop} is on the way to {target}.", "jump", target_system=hop)
    if wanted.casefold() not in b.found_systems:
        thought = f"Which system is {wanted}?"
        if asked := s.query(thought, "search_systems", query=wanted):
            return asked
    thought = f"How do I get to {target}?"
    return s.query(thought, "find_route", target_system=target) if target else None


def _next_hop(route: tuple[str, ...], system: str | None, target: str) -> str:
    if not route or route[-1] != target or system not in route[:-1]:
        return ""
    return route[route.index(system) + 1]


def go_to(s: Situation, wanted: str) -> Decision | None:
    """Fly to a place or a system; it undocks once it knows the way."""
    why = f"I am ordered to go to {wanted}."
    if asked := s.ask(why, "place", "system", "docked") or s.ask_chart(why):
        return asked
    goal = _goal(s.beliefs.chart_here, wanted)
    if goal is not None:
        step = s.act(why, "travel", target_poi=goal.id)
    else:
        step = _jump_towards(s, wanted)
    if step is not None and step.acts and s.beliefs.docked.value:
        return s.act(f"{why} First I undock.", "undock")
    return step


def is_at(s: Situation, wanted: str) -> bool:
    """Whether the ship is where an order meant, as far as that is known."""
    return _is_there(s, _goal(s.beliefs.chart_here, wanted), wanted)


def _goal(chart: Chart | None, wanted: str) -> Place | None:
    if chart is None:
        return None
    part = wanted.casefold()
    near = [
        place
        for place in chart.places
        if part in place.name.casefold() or part.replace(" ", "_") in place.kind
    ]
    if "belt" in part.split():
        near += [place for place in chart.places if place.minable]
    # An exact id or name first, else a part of the name.
    return chart.find(wanted) or next(iter(near), None)


def _is_there(s: Situation, goal: Place | None, wanted: str) -> bool:
    b = s.beliefs
    if goal is not None:
        return goal.is_called(b.place.value)
    target = b.found_systems.get(wanted.casefold(), wanted)
    chart = b.chart_here
    return chart is not None and b.system.value is not None and chart.covers(target)


# --- While docked: sell, refuel, repair, write the log, leave.


def sell_cargo(s: Situation) -> Decision | None:
    """Sell the next item of the hold; its exact number must be known."""
    asked = s.ask("To sell I need to know exactly what I have.", "hold")
    if asked or not s.beliefs.hold.known:
        return asked
    for item, count in sorted((s.beliefs.hold.value or {}).items()):
        kept = item.replace("_", " ").casefold().startswith(KEEP)
        if count > 0 and not kept and item not in s.beliefs.unsellable:
            thought = f"I am docked with {count} {item}: sell them."
            if done := s.act(thought, "sell", item_id=item, quantity=count):
                return done
    return None


def _refuel_or_repair(s: Situation) -> Decision | None:
    b = s.beliefs
    if b.credits.value == 0:
        return None
    if b.fuel.share < REFUEL_BELOW:
        thought = f"Fuel {b.fuel.value}/{b.fuel.most} is low and I am docked."
        if done := _with_log(s, s.act(thought, "refuel")):
            return done
    if b.hull.share < REPAIR_BELOW:
        return s.act(f"The hull is down to {b.hull.value}/{b.hull.most}.", "repair")
    return None


def _with_log(s: Situation, decision: Decision | None) -> Decision | None:
    """Add an entry to the captain's log, and a count of the money, beside an action.

    Once a visit, if something was sold.
    """
    sold = 0
    for call in s.transcript.calls():
        if call.name == "captains_log_add":
            sold = 0
        elif call.name == "sell" and not call.answer.is_error:
            sold += 1
    if decision is None or not sold or "captains_log_add" not in s.tools:
        return decision
    where = s.beliefs.place.value or "the station"
    money = s.beliefs.credits
    now = f" {money.value:,} credits." if money.known else ""
    entry = f"Sold {sold} kinds of cargo at {where}.{now} Next: mine again."
    log = Call("captains_log_add", {"entry": entry})
    has_block = read_block(s.transcript.state).logged_in is True
    uncounted = has_block and not money.known and s.can_ask("get_status")
    count = (Call("get_status", {}),) if uncounted else ()
    calls = (log, *_note_base(s, where), *count, *decision.calls)
    return replace(decision, calls=calls)


def _note_base(s: Situation, where: str) -> tuple[Call, ...]:
    """Note the station that buys, unless the notes in view say so already."""
    text = f"I sell my cargo at {where}."
    heard = (entry.text for entry in s.transcript.entries if isinstance(entry, Heard))
    if "zoea_note" not in s.tools or any(
        text in shown for shown in (s.transcript.system, *heard)
    ):
        return ()
    return (Call("zoea_note", {"name": "base", "text": text}),)
