"""Where the work that is still going on begins, in a log of units."""

from __future__ import annotations

from collections.abc import Sequence

from memory.context.units import Unit


def loop_start(units: Sequence[Unit]) -> int:
    """The index at which the tool loop that is still open begins (A25).

    It is the run of tool blocks at the end; orders that nobody has answered yet may
    follow it. Without an open loop the index lies behind its place.
    """
    index = len(units)
    while index and units[index - 1].role == "user":
        index -= 1
    while index and units[index - 1].items[0].calls:
        index -= 1
    return index


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
