"""What the pilot reports of its open orders, as the nudge names them.

It judges by what it believes and by what it called since, never by what it meant to do.
"""

from __future__ import annotations

import re

from sandbox.pilot import rules_space
from sandbox.pilot.orders import ONCE, PASSING, PATIENCE, parse_order
from sandbox.pilot.reading import WAIT_CODES, Called, Heard
from sandbox.pilot.situation import WORN_OUT, Call, Decision, Situation

TOOL = "zoea_report_order"
# What was said of an order: how it ended, and a note. None: it is not known yet.
Verdict = tuple[str, str] | None

# Of a paragraph of open orders: numbers, and the beginnings of their texts.
_NAMED = re.compile(r'(\d+) "(.*?)"(?=; \d+ "|; and \d+ more|\. Report on)')
_TO_THE_BRIM = re.compile(r"\b(?:full|fill)\b", re.I)
TANKFUL = 0.95


def read_open_orders(paragraph: str) -> tuple[tuple[int, str], ...]:
    """Number and text of the orders that a nudge names."""
    return tuple((int(found[1]), found[2]) for found in _NAMED.finditer(paragraph))


def report_orders(s: Situation) -> Decision | None:
    """Report on the orders that have ended, once for each."""
    named = s.transcript.open_orders
    if TOOL not in s.tools or not named:
        return None
    told = {call.arguments.get("order") for call in s.transcript.calls_of_turn()}
    calls = []
    for number, text in named:
        if number in told or _was_heard_now(s, text):
            continue
        verdict = _judge(s, text, is_newest=number == named[-1][0])
        if verdict is not None:
            status, note = verdict
            given = {"order": number, "status": status, "note": note}
            calls.append(Call(TOOL, given))
    if not calls:
        return None
    return Decision(tuple(calls), thought="An order has ended: I report it.")


def _was_heard_now(s: Situation, text: str) -> bool:
    """Whether this turn is the first that has the order."""
    turn = s.transcript.turn
    return any(isinstance(one, Heard) and _is_of(one.text, text) for one in turn)


def _is_of(whole: str, beginning: str) -> bool:
    return " ".join(whole.split()).startswith(beginning.rstrip("…"))


def _judge(s: Situation, text: str, *, is_newest: bool) -> Verdict:
    found = parse_order(text)
    if found is None:
        return "not_done", "I do not understand this order: say it in other words."
    order = s.order
    own = order is not None and _is_of(order.text, text)
    since = order.calls_since if order is not None and own else ()
    if done := _find_done(s, *found, text, since):
        return "done", done
    if not is_newest and not own:
        return "not_done", "A newer order came before I had done it."
    if failed := _find_failure(since):
        return "not_done", failed
    if found[0] in PASSING and len(since) > PATIENCE:
        return "not_done", f"I could not do it in {len(since)} calls."
    return None


def _find_done(
    s: Situation, kind: str, target: str, text: str, since: tuple[Called, ...]
) -> str:
    """What was done, empty where it is not done yet or not known."""
    b = s.beliefs
    worked = {call.name for call in since if not call.answer.is_error}
    where = b.here.name if b.here else b.place.value or "a station"
    full = b.full or bool(b.capacity and (b.used or 0) >= b.capacity)
    if kind in ONCE:
        return "I have answered it."
    match kind:
        case "hold":
            return "I hold."
        case "dock" if b.docked.known and b.docked.value:
            return f"Docked at {where}."
        case "goto" if b.place.known and rules_space.is_at(s, target):
            return f"I am at {target}."
        case "sell" if "sell" in worked or rules_space.is_hold_empty(s):
            return "Sold." if "sell" in worked else "There is nothing to sell."
        case "refuel" if "refuel" in worked or (
            b.fuel.known and b.fuel.share > TANKFUL
        ):
            return "The tank is full." if b.fuel.share > TANKFUL else "Refuelled."
        case "explore" if "jump" in worked:
            return f"I have jumped to {b.system.value or 'a neighbour'}."
        case "mine" if full or ("mine" in worked and not _TO_THE_BRIM.search(text)):
            return "The hold is full." if full else "I am mining."
    return ""


def _find_failure(since: tuple[Called, ...]) -> str:
    """Why an order cannot be done: nobody knows the place, or the game refuses."""
    for call in since:
        if call.name == "search_systems" and call.answer.data.get("total_found") == 0:
            return f"I find no place called {call.arguments.get('query')}."
    refused = [
        call
        for call in since
        if call.answer.is_error and call.answer.code not in WAIT_CODES
    ]
    for call in reversed(refused):
        times = sum(other.key == call.key for other in refused)
        if times >= WORN_OUT or call.name == "find_route":
            return f"{call.name} is refused: {call.answer.message[:200]}"
    return ""
