"""What the pilot reports of its open orders, as the nudge names them.

It reports an order as done when each of its parts is, and says of each what came of it.
"""

from __future__ import annotations

import re

from sandbox.pilot.orders import Order
from sandbox.pilot.reading import Called, Heard, Said
from sandbox.pilot.situation import Call, Decision, Situation
from sandbox.pilot.tasks import (
    FORGET,
    NEWER,
    NOTE_NAME,
    REPORT,
    UNREAD,
    is_of,
    is_over,
    work_off,
)
from sandbox.pilot.words import parse_order

# Turns after which a word is due on an order that is not done yet.
QUIET_TURNS = 8
# Of what is reported, at most so many characters.
LONGEST = 900
CAN = "mine, sell, dock, undock, refuel, repair, go to a place, explore, report, hold"

# Of a paragraph of open orders: numbers, and the beginnings of their texts.
_NAMED = re.compile(r'(\d+) "(.*?)"(?=; \d+ "|; and \d+ more|\. Report on)')


def read_open_orders(paragraph: str) -> tuple[tuple[int, str], ...]:
    """Number and text of the orders that a nudge names."""
    return tuple((int(found[1]), found[2]) for found in _NAMED.finditer(paragraph))


def report_orders(s: Situation) -> Decision | None:
    """Report on the orders that have ended, once for each, and on one that takes long."""
    if REPORT not in s.tools:
        return None
    asked = s.transcript.calls_of_turn()
    told = {call.arguments.get("order") for call in asked if call.name == REPORT}
    own, others = _match_orders(s)
    calls = [_say(*other) for other in others if other[0] not in told]
    text = ""
    if own not in told and (present := _report_present(s, own)):
        calls += present
        text = str(present[0].arguments["note"])
    if not calls:
        return None
    return Decision(tuple(calls), text, "There is something to report of my orders.")


def _report_present(s: Situation, number: int | None) -> list[Call]:
    """The report on the present order where each part has ended, else a word at times.

    Without its number, as within a turn, the only open one is meant.
    """
    order = s.order
    if order is None or is_over(s, order):
        return []
    progress = work_off(s, order)
    if not progress.finished:
        if number is None or not _is_word_due(order):
            return []
        now = f"Now: {order.parts[len(progress.results)].words}."
        return [_say(number, "working", f"{progress.words} {now}".strip())]
    status = "done" if progress.ok else "not_done"
    calls = [_say(number, status, progress.words)]
    if s.transcript.note and FORGET in s.tools:
        calls.append(Call(FORGET, {"name": NOTE_NAME}))
    return calls


def _is_word_due(order: Order) -> bool:
    """Whether many turns have ended since it was given, or was last reported on."""
    turns = 0
    for entry in reversed(order.entries):
        if isinstance(entry, Called) and entry.name == REPORT:
            break
        turns += isinstance(entry, Said)
    return turns >= QUIET_TURNS


def _say(number: int | None, status: str, note: str) -> Call:
    order = {} if number is None else {"order": number}
    return Call(REPORT, {**order, "status": status, "note": note[:LONGEST]})


def _match_orders(s: Situation) -> tuple[int | None, list[tuple[int, str, str]]]:
    """The number of the present order, and what is said of all others."""
    own: int | None = None
    others = []
    for number, text in s.transcript.open_orders:
        if s.order is not None and is_of(s.order.text, text):
            own = number
        elif not any(part.kind for part in parse_order(text, s.name)):
            unread = f'{UNREAD}: "{text}". I know: {CAN}.'
            others.append((number, "not_done", unread))
        elif not _was_heard_now(s, text):
            why = f"{NEWER} before I had done it."
            others.append((number, "not_done", why))
    return own, others


def _was_heard_now(s: Situation, text: str) -> bool:
    """Whether this turn is the first that has the order."""
    turn = s.transcript.turn
    return any(isinstance(one, Heard) and is_of(one.text, text) for one in turn)
