"""`coalesced`: the whole history in one user message, as seed 004 writes it (C2-C10).

What is fixed comes first, what grows next, what changes last (A28, A29). Where the
request shows results, each stands below its call: the newest whole, older ones
shortened with a handle. Schemas that this turn asked for are always there, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from memory.context.quoted_messages import (
    QuotedMessages,
    choose_quoted,
    write_left,
    write_state,
)
from memory.context.result_types import CoalescedTurn
from memory.context.sections import write_note_definitions
from memory.context.strategy import CommonOptions, Strategy, option
from memory.context.turn_digest import (
    ToldCall,
    TurnDigest,
    digest_turns,
    flatten_json,
    note_losses,
)
from memory.context.types import NUDGE_TEXT, AssemblyRequest, drop_nudge_words
from memory.context.units import (
    Fate,
    History,
    Item,
    Plan,
    Unit,
    build_program_unit,
    shorten_item,
)
from memory.context.value_lines import (
    add_comment,
    describe_value,
    format_tool,
    to_line,
)

T = TypeVar("T")

FINAL_TURN = "FINAL WORK TURN: finish now and give your final answer."
CALLS_HEADER = ";; Tool calls made:"
OUTPUT_HEADER = ";; Output:"
ERROR_HEADER = ";; Error:"
# A line of a call, and one of its result: no text of the game can pass for a call.
_CALL = ";   "
_RESULT = ";     "
_UNKNOWN_PROGRAM = "(unknown program)"
_FATE = Fate("coalesced", "coalesced", "Told in one message with the whole history.")
_WHY_UNTOLD = "Not told: over a limit, or an error before a turn that succeeded."
_UNTOLD = Fate("coalesced", "coalesced", _WHY_UNTOLD)


@dataclass(frozen=True, slots=True)
class CoalescedOptions(CommonOptions):
    """How many of the newest prints and calls are shown (C2), and of results how much."""

    println_limit: int = option(15, "Newest prints that are shown.", minimum=0)
    tool_call_limit: int = option(20, "Newest tool calls that are shown.", minimum=0)
    keep_results: int = option(
        5, "Newest results told whole; those of the newest answer always.", minimum=0
    )
    short_result: int = option(
        150, "Most tokens of an older result; the rest has a handle.", minimum=40
    )
    signature: str = option("", "What the final answer must look like; empty for any.")


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much is told: prints, calls, and the tokens that one text or result may take.

    `keep` of the results are whole, others have at most `short` tokens. With
    `schemas`, those that this turn asked for are whole, however many calls followed.
    """

    prints: int
    calls: int
    tokens: int | None = None
    results: int | None = None
    keep: int = 0
    short: int = 0
    schemas: bool = False


def plan_coalesced(history: History, options: CoalescedOptions) -> Plan:
    """One message instead of the log; the log itself where a run has one turn only."""
    if history.request.max_turns == 1:
        why = "One turn only, so there is nothing to coalesce."
        return Plan(history.units, status="disabled", reason=why)
    if not history.units and not _has_input(history.request):
        return Plan(())
    found = digest_turns(history.units, history)
    quoted = choose_quoted(history)
    end = _write_reminder(history)
    room = history.room - _keep_for_state(history, options)
    for limits in _narrow_limits(found, options, history):
        text = _write_message(found, quoted, limits, history)
        if history.count(_join(text, end)) <= room:
            break

    def build_unit(state: str = "") -> tuple[Unit, ...]:
        said = text if text or end else _write_nudge(history)
        content = _join(said, state, end)
        tokens = history.count(content)
        return (build_program_unit(content, tokens, "coalesced", required=True),)

    turns = _trace_turns(found, limits, history)
    fates = {row: _FATE for each in history.units for row in each.sources}
    if history.request.show_results:
        untold = (row for turn in turns if not turn.told for row in turn.rows)
        fates.update(dict.fromkeys(untold, _UNTOLD))
        fates.update(quoted.find_fates(history))
    return Plan(
        build_unit(),
        fates,
        covers_intent=True,
        exempt_newest=True,
        attach_state=build_unit,
        compression=found.count_shown(
            len(_select_calls(found, limits)), len(_newest(found.prints, limits.prints))
        ),
        told=quoted.rows,
        turns=turns,
    )


def _has_input(request: AssemblyRequest) -> bool:
    told = (_list_tools(request), request.data, request.definitions, request.notes)
    return any(told) or bool((request.mission or "").strip())


def _list_tools(request: AssemblyRequest) -> Mapping[str, object]:
    """What is told by name: where results are shown, the tools that are offered.

    Under `on_demand` the game's stand in the system message alone. A view without
    results stays as it is when it is fed back as a log (I3).
    """
    if request.offered is None or not request.show_results:
        return request.tools
    return {tool["name"]: tool for tool in request.offered.sent}


def _keep_for_state(history: History, options: CoalescedOptions) -> int:
    """Tokens that old results leave to the state block, at most a quarter of the room."""
    request = history.request
    if not (request.show_results and request.render_state and options.state_block):
        return 0
    # JSON and names take about two bytes a token.
    return min(request.state_bytes // 2, history.room // 4)


def _narrow_limits(
    found: TurnDigest, options: CoalescedOptions, history: History
) -> Iterator[_Limits]:
    """What may be told, less and less of it; schemas whole as long as they fit at all."""
    if any(call.schemas for call in found.calls):
        for limits in _shorten_lines(options, history):
            yield replace(limits, schemas=True)
    yield from _shorten_lines(options, history)
    for share in (4, 8, 16, 32, 64, 128):
        yield _Limits(0, 0, max(1, history.room // share))


def _shorten_lines(options: CoalescedOptions, history: History) -> Iterator[_Limits]:
    """Results are shortened first, then texts, then lines go."""
    prints, calls, room = options.println_limit, options.tool_call_limit, history.room

    def limit(prints: int, calls: int, share: int = 0, results: int = 0) -> _Limits:
        tokens = max(1, room // share) if share else None
        most = max(1, room // results) if results else tokens
        keep, short = options.keep_results, options.short_result
        return _Limits(prints, calls, tokens, most, keep, short)

    yield limit(prints, calls)
    if history.request.show_results:
        for results in (2, 4, 8, 16, 32):
            yield limit(prints, calls, results=results)
    for share in (8, 16, 32, 64):
        yield limit(prints, calls, share)
    while prints or calls:
        prints, calls = prints // 2, calls // 2
        yield limit(prints, calls, 8)


# --- The message


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _write_message(
    found: TurnDigest, quoted: QuotedMessages, limits: _Limits, history: History
) -> str:
    """The message up to the turns that are left; state and reminder follow it."""
    request = history.request
    sections = {
        ";; === tool/ ===": [
            format_tool(*each) for each in _list_tools(request).items()
        ],
        ";; === data/ ===": [
            add_comment(f"data/{name}", describe_value(value))
            for name, value in request.data.items()
        ],
        ";; === user/ (your prelude) ===": [
            add_comment(name, f"= {describe_value(value)}")
            for name, value in request.definitions.items()
        ]
        + write_note_definitions(
            request, history.sanitize, history.count
        ).text.splitlines(),
    }
    output = "\n".join(
        _write_print(item, limits, history)
        for item in _newest(found.prints, limits.prints)
    )
    return _join(
        *_write_quoted(quoted, limits, history),
        *(
            history.sanitize("\n".join([header, *lines]))
            for header, lines in sections.items()
            if lines
        ),
        _write_signature(history),
        _write_calls(found, limits, history),
        f"{OUTPUT_HEADER}\n{output}" if output else "",
        _write_error(found, limits, history),
        _write_turns_left(request.turns_left),
    )


def _newest(of: Sequence[T], count: int) -> Sequence[T]:
    return of[-count:] if count else of[:0]


def _write_quoted(
    quoted: QuotedMessages, limits: _Limits, history: History
) -> Iterator[str]:
    for item in quoted.orders:
        yield _cut_text(item, limits.tokens, history) + write_state(item, history)
    yield write_left(quoted.orders_left, "open", history)
    yield write_left(quoted.peers_left, "messages of other Myses", history)
    for item in quoted.peers:
        yield _cut_text(item, limits.tokens, history)


def _write_print(item: Item, limits: _Limits, history: History) -> str:
    """A print; where results are shown, behind their mark, but for an answer's begin."""
    text = _cut_text(item, limits.tokens, history)
    if not history.request.show_results:
        return text
    lines = "\n".join(_indent(text))
    return lines.removeprefix(_RESULT) if item.role == "assistant" else lines


def _write_signature(history: History) -> str:
    options = history.request.options.get("signature")
    given = history.request.signature or (options if isinstance(options, str) else "")
    said = history.sanitize(given or "").strip()
    return f";; Expected output:\n;   {said}" if said else ""


def _write_calls(found: TurnDigest, limits: _Limits, history: History) -> str:
    calls = _select_calls(found, limits)
    if not calls:
        return ""
    wholes = _select_whole(calls, limits)
    lines = [CALLS_HEADER]
    for call in calls:
        lines += [*call.marks, *_write_call(call, call in wholes, limits, history)]
    return "\n".join([*lines, *found.marks])


def _select_calls(found: TurnDigest, limits: _Limits) -> list[ToldCall]:
    """The newest calls, and before them those that asked for schemas in this turn."""
    newest = _newest(found.calls, limits.calls)
    older = found.calls[: len(found.calls) - len(newest)] if limits.schemas else ()
    return [*(call for call in older if call.schemas), *newest]


def _select_whole(calls: Sequence[ToldCall], limits: _Limits) -> list[ToldCall]:
    kept = _newest([call for call in calls if call.result is not None], limits.keep)
    return [*kept, *(call for call in calls if call.newest)]


def _write_call(
    call: ToldCall, whole: bool, limits: _Limits, history: History
) -> list[str]:
    """The line of a call and those of its result."""
    lines = [f"{_CALL}{call.line}"]
    if call.schemas and limits.schemas and call.result is not None:
        return [*lines, *_indent(call.result.content)]
    if call.result is None or not history.request.show_results:
        return lines
    bounds = [] if limits.results is None else [limits.results]
    bounds += [] if whole else [limits.short]
    result = flatten_json(call.result, history)
    text = _cut_text(result, min(bounds, default=None), history)
    return [*lines, *_indent(text)]


def _indent(text: str) -> list[str]:
    return [f"{_RESULT}{line}" for line in text.splitlines() or [""]]


def _write_error(found: TurnDigest, limits: _Limits, history: History) -> str:
    """The error of the newest turn, if that failed; older ones are history (C5)."""
    turn = found.failing
    if turn is None:
        return ""
    if history.request.show_results:
        told = [_write_call(call, True, limits, history) for call in turn.errors]
        return "\n".join([ERROR_HEADER, *(line for lines in told for line in lines)])
    result = turn.errors[-1].result
    said = _cut_text(result, limits.tokens, history) if result else ""
    program = to_line(turn.unit.items[0].content) or _UNKNOWN_PROGRAM
    return f"{ERROR_HEADER}\n;   {program}\n{said}"


def _write_turns_left(turns: int | None) -> str:
    if turns is None:
        return ""
    return f"Turns left: {turns}" if turns > 0 else FINAL_TURN


def _write_nudge(history: History) -> str:
    return history.sanitize(history.request.nudge or "").strip() or NUDGE_TEXT


def _write_reminder(history: History) -> str:
    """What ends the message: the nudge where one is due, else its reminder (W13)."""
    nudge, units = history.request.nudge, history.units
    if nudge is None or not history.request.show_results:
        return ""
    if units and (units[-1].role == "user" or units[-1].items[0].calls):
        nudge = drop_nudge_words(nudge)
    return history.sanitize(nudge).strip()


# --- Turns, one by one


def _trace_turns(
    found: TurnDigest, limits: _Limits, history: History
) -> tuple[CoalescedTurn, ...]:
    """What the message tells of each turn, to be laid beside the turn itself (C7)."""
    selected = _select_calls(found, limits)
    calls = {id(call) for call in selected}
    prints = {id(item) for item in _newest(found.prints, limits.prints)}
    wholes = _select_whole(selected, limits)
    traced = []
    for turn in found.turns:
        shown = [call for call in turn.calls if id(call) in calls]
        said = [item for item in turn.prints if id(item) in prints]
        if not shown and not said and turn is not found.failing:
            traced.append(turn.untold)
            continue
        lines = [
            line
            for call in shown
            for line in _write_call(call, call in wholes, limits, history)
        ]
        lines += [_write_print(item, limits, history) for item in said]
        if turn is found.failing:
            lines.append(_write_error(found, limits, history))
        notes = note_losses(turn, len(shown), len(said), turn is found.failing)
        traced.append(CoalescedTurn(turn.rows, "\n".join(lines), notes))
    return tuple(traced)


def _cut_text(item: Item, most: int | None, history: History) -> str:
    if most is None or item.source is None:
        return item.content
    handle = history.handle(item.source)
    cut = shorten_item(item, most, history.count, handle)
    return item.content if cut is None else cut


STRATEGY = Strategy("coalesced", plan_coalesced, CoalescedOptions)
