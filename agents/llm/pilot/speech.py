"""What the pilot says at the end of a turn and when it is spoken to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agents.llm.pilot.answers import text, whole
from agents.llm.pilot.beliefs import Beliefs
from agents.llm.pilot.transcript import Called

if TYPE_CHECKING:
    from agents.llm.pilot.situation import Situation


def after(call: Called, beliefs: Beliefs) -> str:
    """What was done in this tick, and what is waited for."""
    data, arguments = call.answer.data, call.arguments
    arrival = whole(data.get("arrival_tick"))
    until = f" at tick {arrival}" if arrival else ""
    if call.answer.unsure:
        return f"I do not know whether {call.name} happened. I look again next tick."
    match call.name:
        case "travel":
            goal = text(data.get("destination")) or str(arguments.get("target_poi"))
            return f"Flying to {goal}. I wait for the arrival{until}."
        case "jump":
            goal = text(data.get("destination")) or str(arguments.get("target_system"))
            return f"Jumping to {goal}. I wait for the arrival{until}."
        case "mine":
            what = text(data.get("resource_name")) or "ore"
            return f"Mining {what}. I wait for the yield of the next tick."
        case "sell":
            what = text(data.get("item")) or str(arguments.get("item_id"))
            return f"Selling {arguments.get('quantity')} {what}. I wait for the sale."
    doing = {
        "dock": "Docking",
        "undock": "Undocking",
        "refuel": "Refuelling",
        "repair": "Repairing",
    }
    return f"{doing.get(call.name, call.name)}. I wait for the next tick."


def stuck(calls: Sequence[Called]) -> str:
    """Why nothing more is tried."""
    errors = [call for call in calls if call.answer.is_error]
    if not errors:
        return "Nothing more to do in this tick. I wait."
    last = errors[-1]
    return f"{last.name} is refused: {last.answer.message[:200]} I wait a tick."


def acknowledge(kind: str, target: str) -> str:
    """A short answer to an order."""
    doing = {
        "hold": "I stop and hold",
        "dock": "I dock at the nearest station",
        "sell": "I sell the cargo",
        "refuel": "I refuel",
        "explore": "I explore a neighbouring system",
        "goto": f"I go to {target}",
        "mine": "I go on mining",
        "report": "here is my report",
        "search": f"I look for {target}",
        "note": "I write it down",
    }
    return f"Understood: {doing.get(kind, kind)}."


def report(s: Situation) -> str:
    """Where the captain is and what the ship has, as far as it is known."""
    b = s.beliefs
    place = b.here.name if b.here else b.place.value or "a place I do not know"
    parts = [
        f"{s.name} reporting: {'docked' if b.docked.value else 'in space'} at {place}"
    ]
    if b.used is not None:
        parts.append(f"cargo {b.used}/{b.capacity or '?'}")
    if b.fuel.value is not None:
        parts.append(f"fuel {b.fuel.value}/{b.tank or '?'}")
    if b.credits.value is not None:
        parts.append(f"{b.credits.value:,} credits")
    return f"{', '.join(parts)}."
