"""Where the work that is still going on begins, in a log of units."""

from __future__ import annotations

from collections.abc import Sequence

from memory.context.units import Unit


def loop_start(units: Sequence[Unit]) -> int:
    """The index at which the tool loop that is still open begins (A25).

    It is the run of tool blocks at the end, as far as they are of one turn; orders
    that nobody has answered yet may follow it. Without an open loop the index lies behind its place.
    """
    index = len(units)
    while index and units[index - 1].role == "user":
        index -= 1
    newest = units[index - 1] if index else None
    while index and units[index - 1].items[0].calls:
        if newest is not None and not in_one_turn(units[index - 1], newest):
            break
        index -= 1
    return index


def in_one_turn(unit: Unit, other: Unit) -> bool:
    """Whether two units may belong to one turn: they do where it is not known."""
    return unit.turn is None or other.turn is None or unit.turn == other.turn


def turn_start(units: Sequence[Unit]) -> int:
    """The index at which the turn that is still open begins (A16).

    That is the open tool loop with the user messages before it. A log that ends with
    a plain answer has no open turn.
    """
    if not units or (units[-1].role == "assistant" and not units[-1].items[0].calls):
        return len(units)
    index = loop_start(units)
    while index and units[index - 1].role == "user":
        index -= 1
    return index
