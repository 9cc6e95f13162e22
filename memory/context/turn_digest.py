"""What the turns of a log did, said and got wrong, for a view that tells it anew.

A turn is one assistant message with its results; it failed if any of them is an error
(seed 004: C2, C5, C6, A29).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from memory.context.result_types import CoalescedTurn
from memory.context.strategies.snapshot_window import is_error_result
from memory.context.tool_calls import is_json, parse_arguments
from memory.context.units import (
    History,
    Item,
    Unit,
    find_asked_schemas,
    find_schema_items,
)
from memory.context.value_lines import format_call

_BREAK = re.compile(r"\s*\n\s*")
_UNKNOWN_OUTCOMES = ("Error: interrupted: outcome unknown", "Error: outcome_unknown:")
NAME = "single-user-coalesced"
TURN_END = "; -- turn ended --"
# Marks between two calls, beside those of open orders; of a long talk without a call
# only its end matters.
_MOST_MARKS = 8
# Orders that are quoted beside the mission; a person seldom has more open at once.
MOST_ORDERS = 20


@dataclass(frozen=True, slots=True)
class ToldCall:
    """A call as a line, and its result where results are told.

    `marks` say what came before it; `newest`: it is one of the newest answer;
    `schemas`: its result has the schemas that the open turn asked for.
    """

    line: str
    result: Item | None
    marks: tuple[str, ...] = ()
    newest: bool = False
    schemas: bool = False


@dataclass  # without slots: what is not told of it is kept
class Turn:
    """What there is to tell of one turn; of a failed one the calls with an error.

    ``untold`` says what becomes of it in a view that tells nothing of it.
    """

    unit: Unit
    calls: list[ToldCall] = field(default_factory=list)
    prints: list[Item] = field(default_factory=list)
    errors: list[ToldCall] = field(default_factory=list)

    @cached_property
    def untold(self) -> CoalescedTurn:
        return CoalescedTurn(self.rows, "", note_losses(self, 0, 0, False))

    @property
    def rows(self) -> tuple[int, ...]:
        """The stored ids of the answer and its results."""
        return tuple(self.unit.sources)


@dataclass(slots=True)
class TurnDigest:
    """All turns, and what is told of them in order; `marks` follow the last call.

    `lasting` are the marks of open orders, which stay however many come after them.
    """

    turns: list[Turn] = field(default_factory=list)
    calls: list[ToldCall] = field(default_factory=list)
    prints: list[Item] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    lasting: frozenset[str] = frozenset()
    failed: int = 0

    @property
    def failing(self) -> Turn | None:
        """The newest turn, if it failed; errors before it are history (C5)."""
        return self.turns[-1] if self.turns and self.turns[-1].errors else None

    def count_shown(self, calls_shown: int, prints_shown: int) -> dict[str, object]:
        """The dictionary of C6, where so many of the calls and prints are shown."""
        calls, prints = len(self.calls), len(self.prints)
        return {
            "enabled": True,
            "strategy": NAME,
            "turns_compressed": len(self.turns),
            "tool_calls_total": calls,
            "tool_calls_shown": calls_shown,
            "tool_calls_dropped": calls - calls_shown,
            "printlns_total": prints,
            "printlns_shown": prints_shown,
            "printlns_dropped": prints - prints_shown,
            "error_turns_collapsed": self.failed - (self.failing is not None),
        }

    def add_mark(self, mark: str) -> None:
        """Note what came between two calls, such as an order; the same one only once."""
        if self.marks[-1:] == [mark]:
            return
        self.marks.append(mark)
        passing = [each for each in self.marks if each not in self.lasting]
        if len(passing) > _MOST_MARKS:
            self.marks.remove(passing[0])

    def add_turn(self, turn: Turn) -> None:
        """Add a turn that was read whole; its first call takes the marks before it."""
        if turn.calls:
            marks = tuple(self.marks)
            if turn.calls[0].marks != marks:
                turn.calls[0] = replace(turn.calls[0], marks=marks)
            self.marks.clear()
        self.failed += bool(turn.errors)
        self.turns.append(turn)
        self.calls += turn.calls
        self.prints += turn.prints


def digest_turns(units: Sequence[Unit], history: History) -> TurnDigest:
    """What to tell of the turns; with results and marks where the request shows them."""
    waiting = (history.request.open_orders or ())[-MOST_ORDERS:]
    found = TurnDigest(lasting=frozenset(mark_order(row, history) for row in waiting))
    told = history.request.show_results
    newest = _find_newest(units)
    asking = find_asked_schemas(units)
    asked = [item for unit in asking for item in find_schema_items(unit)]
    known: dict[tuple[int, ...], Turn]
    known = history.notes.setdefault(f"turns, told: {told}", {})
    for unit in units:
        if unit.role == "assistant":
            turn = known.get(unit.rows)
            if turn is None or turn.unit is not unit:
                turn = _digest_turn(unit, history, asked, newest=unit is newest)
                # Of these less is told in a later view.
                if unit is not newest and unit not in asking:
                    known[unit.rows] = turn
            found.add_turn(turn)
            if told and not unit.items[0].calls:
                found.add_mark(TURN_END)
        elif told and unit.intent:
            found.add_mark(mark_order(unit.items[0].source, history))
    return found


def mark_order(row: int | None, history: History) -> str:
    """The line among the calls at which an order came."""
    handle = "" if row is None else f" {history.handle(row)}"
    return f"; -- order{handle} --"


def _find_newest(units: Sequence[Unit]) -> Unit | None:
    """The newest answer if it made calls: the model has not seen their results yet."""
    newest = next((unit for unit in reversed(units) if unit.role == "assistant"), None)
    return newest if newest is not None and newest.items[0].calls else None


def flatten_json(result: Item, history: History) -> Item:
    """A result without the line breaks of indented JSON, which tell nothing."""
    flat = _flatten(result.content)
    return result if flat is None else result.with_text(flat, history.count(flat))


@lru_cache(maxsize=256)
def _flatten(content: str) -> str | None:
    """The text without its line breaks; None where it is no JSON that has any."""
    text = content.strip()
    # A line break is never part of a value there: strings have it escaped.
    if "\n" not in text or text[:1] not in "{[" or not is_json(text):
        return None
    return _BREAK.sub(" ", text)


def is_unknown_outcome(result: Item) -> bool:
    """Whether an action may have been done: no later success tells that it was not."""
    return result.content.startswith(_UNKNOWN_OUTCOMES)


@lru_cache(maxsize=4096)
def _format_call(name: str, arguments: str) -> str:
    """A call as a line; every view tells many that the one before told too."""
    return format_call(name, parse_arguments(arguments))


def _digest_turn(
    unit: Unit, history: History, asked: Sequence[Item], *, newest: bool
) -> Turn:
    turn, told = Turn(unit), history.request.show_results
    results = {item.call: item for item in unit.items[1:]}
    prints: list[Item] = []
    for index, call in enumerate(unit.items[0].calls):
        result = results.get(index)
        line = _format_call(call.name, call.arguments)
        lost = told and result is not None and is_unknown_outcome(result)
        if (
            result is not None
            and not (result.filled or lost)
            and is_error_result(result)
        ):
            turn.errors.append(ToldCall(line, result))
        elif lost or history.policy_of(call.name, call.arguments) != "print":
            # Without the schemas that it asked for, a model can make no call.
            schemas = any(result is item for item in asked)
            shown = result if told or schemas else None
            turn.calls.append(ToldCall(line, shown, newest=newest, schemas=schemas))
        elif result is not None and result.content.strip() and not result.filled:
            prints.append(result)
    if not turn.errors:
        said = unit.items[:1] if unit.items[0].content.strip() else ()
        turn.prints = [*said, *prints]
    elif not told:
        # Where results are told, what was done beside an error stays: else it is
        # done again.
        turn.calls = [call for call in turn.calls if call.schemas]
    return turn


def note_losses(turn: Turn, calls: int, prints: int, failing: bool) -> tuple[str, ...]:
    """What is not told of a turn of which so many calls and prints are shown."""
    counted = (("call", len(turn.calls), calls), ("print", len(turn.prints), prints))
    notes = [
        f"{total - shown} of {total} {what}{'s' if total > 1 else ''} over the limit"
        for what, total, shown in counted
        if shown < total
    ]
    if turn.errors and not failing:
        notes.append("error collapsed: a later turn succeeded")
    return tuple(notes)


def format_box(compression: Mapping[str, object]) -> str:
    """The boxed text form of the statistics (C6, C7)."""
    rows = (
        ("Strategy:", compression["strategy"]),
        ("Turns:", f"{compression['turns_compressed']} compressed"),
        ("Tool calls:", _format_count(compression, "tool_calls")),
        ("Printlns:", _format_count(compression, "printlns")),
        ("Errors:", f"{compression['error_turns_collapsed']} turn(s) collapsed"),
    )
    lines = [f"|   {name:<13} {value}" for name, value in rows]
    return "\n".join(["+- Compression " + "-" * 43 + "+", *lines, "+" + "-" * 57 + "+"])


def _format_count(compression: Mapping[str, object], what: str) -> str:
    total, shown, dropped = (
        compression[f"{what}_{part}"] for part in ("total", "shown", "dropped")
    )
    return f"{shown}/{total} shown" + (f" ({dropped} dropped)" if dropped else "")
