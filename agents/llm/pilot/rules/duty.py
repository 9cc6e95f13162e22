"""Standing orders: they come before the pilot's own business."""

from __future__ import annotations

from agents.llm.pilot.orders import PASSING, PATIENCE, Order
from agents.llm.pilot.rules import flight, mining, station
from agents.llm.pilot.situation import Call, Decision, Situation


def duty(s: Situation) -> Decision | None:
    """Follow the newest order that still holds."""
    order = s.order
    if order is None or _is_past(order):
        return None
    if order.kind == "hold":
        return _rest("I hold as ordered and wait for new orders.")
    if order.kind == "dock":
        return _dock(s)
    if order.kind == "sell":
        return _sell(s)
    if order.kind == "refuel":
        return _refuel(s)
    if order.kind == "explore":
        return flight.explore(s, "I am ordered to explore.")
    if order.kind == "goto":
        return flight.go_to(s, order.target)
    return None


def _is_past(order: Order) -> bool:
    if order.kind not in PASSING:
        return False
    done = {
        "sell": order.done("undock"),
        "refuel": order.done("refuel"),
        "explore": order.done("jump"),
    }
    return done[order.kind] or len(order.calls_since) > PATIENCE


def _rest(text: str) -> Decision:
    return Decision(text=text, thought="My orders are to stay as I am.")


def _dock(s: Situation) -> Decision | None:
    asked = s.ask("I am ordered to dock.", "docked")
    if asked or s.beliefs.docked.value:
        return asked or _rest("I am docked as ordered and wait for new orders.")
    return flight.to_station(s, "I am ordered to dock.")


def _sell(s: Situation) -> Decision | None:
    asked = s.ask("I am ordered to sell.", "docked")
    if asked:
        return asked
    if s.beliefs.docked.value:
        return station.sell(s)
    if mining.is_empty(s):
        return None
    return flight.to_station(s, "I am ordered to sell.")


def _refuel(s: Situation) -> Decision | None:
    asked = s.ask("I am ordered to refuel.", "docked")
    if asked:
        return asked
    if s.beliefs.docked.value:
        return s.act("I am ordered to refuel.", "refuel")
    return flight.to_station(s, "I am ordered to refuel.")


def listen(s: Situation) -> Decision | None:
    """While there is nothing to do, look now and then what has happened."""
    recent = [c.name for c in s.transcript.calls()]
    if "get_notifications" not in s.tools or "get_notifications" in recent[-3:]:
        return None
    return Decision(
        (Call("get_notifications", {}),),
        thought="I have nothing to do; let me see whether anything has happened.",
    )
