"""`coalesced`: the whole history in one user message, as seed 004 writes it (C2-C10).

What is fixed comes first, what grows next, what changes last (A28, A29).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.context.strategies.snapshot_window import is_error_result
from memory.context.strategy import CommonOptions, Strategy, option
from memory.context.text import clean_text, find_safe_cut, shorten_text
from memory.context.tool_calls import parse_arguments
from memory.context.types import NUDGE_TEXT, AssemblyRequest
from memory.context.units import (
    Fate,
    History,
    Item,
    Plan,
    Unit,
    build_program_unit,
    find_asked_schemas,
    find_schema_items,
)

NAME = "single-user-coalesced"
FINAL_TURN = "FINAL WORK TURN: finish now and give your final answer."
_UNKNOWN_PROGRAM = "(unknown program)"
_FATE = Fate("coalesced", "coalesced", "Told in one message with the whole history.")
# C10: how much of a value one line shows.
_MOST_ITEMS = 3
_MOST_CHARS = 60
_DEPTH = 6
_COLUMN = 33


@dataclass(frozen=True, slots=True)
class CoalescedOptions(CommonOptions):
    """How many of the newest prints and calls are shown (C2)."""

    println_limit: int = option(15, "Newest prints that are shown.", minimum=0)
    tool_call_limit: int = option(20, "Newest tool calls that are shown.", minimum=0)


@dataclass(slots=True)
class _Digest:
    """What there is to tell of the turns; calls and prints of failed ones are none."""

    turns: int = 0
    calls: list[str] = field(default_factory=list)
    prints: list[Item] = field(default_factory=list)
    failed: int = 0
    error: Item | None = None
    program: str = ""


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many calls and prints are shown, and the tokens that one text may take."""

    prints: int
    calls: int
    tokens: int | None = None


def plan_coalesced(history: History, options: CoalescedOptions) -> Plan:
    """One message instead of the log; the log itself where a run has one turn only."""
    if history.request.max_turns == 1:
        why = "One turn only, so there is nothing to coalesce."
        return Plan(history.units, status="disabled", reason=why)
    if not history.units and not _has_input(history.request):
        return Plan(())
    found = _digest_turns(history.units, history)
    for limits in _narrow_limits(options, history):
        text = _write_message(found, limits, history)
        if history.count(text) <= history.room:
            break

    def build_unit(content: str) -> tuple[Unit, ...]:
        tokens = history.count(content)
        return (build_program_unit(content, tokens, "coalesced", required=True),)

    return Plan(
        build_unit(text),
        {row: _FATE for each in history.units for row in each.sources},
        covers_intent=True,
        exempt_newest=True,
        attach_state=lambda state: build_unit(f"{text}\n\n{state}"),
        compression=_count_shown(found, limits),
    )


def _has_input(request: AssemblyRequest) -> bool:
    beside = (request.tools, request.data, request.definitions)
    return any(beside) or bool((request.mission or "").strip())


def _narrow_limits(options: CoalescedOptions, history: History) -> Iterator[_Limits]:
    prints, calls = options.println_limit, options.tool_call_limit
    yield _Limits(prints, calls)
    for share in (8, 16, 32, 64):
        yield _Limits(prints, calls, max(1, history.room // share))
    while prints or calls:
        prints, calls = prints // 2, calls // 2
        yield _Limits(prints, calls, max(1, history.room // 8))
    for share in (4, 8, 16, 32):
        yield _Limits(0, 0, max(1, history.room // share))


def _write_message(found: _Digest, limits: _Limits, history: History) -> str:
    request = history.request
    prints = found.prints[-limits.prints :] if limits.prints else []
    shown = found.calls[-limits.calls :] if limits.calls else []
    output = "\n".join(_cut_text(item, limits, history) for item in prints)
    calls = "\n".join(f";   {line}" for line in shown)
    sections = {
        ";; === tool/ ===": [_format_tool(*each) for each in request.tools.items()],
        ";; === data/ ===": [
            _add_comment(f"data/{name}", _describe_value(value))
            for name, value in request.data.items()
        ],
        ";; === user/ (your prelude) ===": [
            _add_comment(name, f"= {_describe_value(value)}")
            for name, value in request.definitions.items()
        ],
    }
    parts = [
        *_quote_orders(limits, history),
        *(
            history.sanitize("\n".join([header, *lines]))
            for header, lines in sections.items()
            if lines
        ),
        *_quote_schemas(limits, history),
        f";; Tool calls made:\n{calls}" if calls else "",
        f";; Output:\n{output}" if output else "",
        _format_error(found, limits, history),
        _turns_left(request.turns_left),
    ]
    text = "\n\n".join(part for part in parts if part)
    return text or history.sanitize(request.nudge or "").strip() or NUDGE_TEXT


def _quote_orders(limits: _Limits, history: History) -> list[str]:
    """The mission, and the newest order where it is another (I17)."""
    orders = [unit.items[0] for unit in history.units if unit.intent]
    given = history.sanitize(history.request.mission or "")
    if given.strip():
        newer = [item for item in orders[-1:] if item.content != given]
        return [given, *(_cut_text(item, limits, history) for item in newer)]
    people = {m.id for m in history.request.messages if m.origin == "human"}
    first = next((item for item in orders if item.source in people), None)
    shown = [first] if first is not None else []
    shown += [item for item in orders[-1:] if item is not first]
    return [_cut_text(item, limits, history) for item in shown]


def _quote_schemas(limits: _Limits, history: History) -> list[str]:
    """What `game_help` answered in this turn; without it no call could follow."""
    return [
        f";; game_help:\n{_cut_text(item, limits, history)}"
        for unit in find_asked_schemas(history.units)
        for item in find_schema_items(unit)
    ]


def _format_error(found: _Digest, limits: _Limits, history: History) -> str:
    """The error of the newest turn, if that failed; older ones are history (C5)."""
    if found.error is None:
        return ""
    said = _cut_text(found.error, limits, history)
    return f";; Error:\n;   {found.program}\n{said}"


def _turns_left(turns: int | None) -> str:
    if turns is None:
        return ""
    return f"Turns left: {turns}" if turns > 0 else FINAL_TURN


# --- Turns: what they did, said and got wrong (C2, C5, C6, A29)


def _digest_turns(units: Sequence[Unit], history: History) -> _Digest:
    """What to tell of the turns: an assistant message with its results is one."""
    found = _Digest()
    for unit in units:
        if unit.role != "assistant":
            continue
        found.turns += 1
        errors = [i for i in unit.items[1:] if not i.filled and is_error_result(i)]
        found.error = errors[-1] if errors else None
        if errors:
            found.failed += 1
            found.program = _to_line(unit.items[0].content) or _UNKNOWN_PROGRAM
            continue
        if unit.items[0].content.strip():
            found.prints.append(unit.items[0])
        _digest_calls(unit, history, found)
    return found


def _digest_calls(unit: Unit, history: History, found: _Digest) -> None:
    results = {item.call: item for item in unit.items[1:]}
    for index, call in enumerate(unit.items[0].calls):
        if history.policy_of(call.name) == "print":
            said = results.get(index)
            if said is not None and said.content.strip() and not said.filled:
                found.prints.append(said)
        else:
            found.calls.append(_format_call(call.name, parse_arguments(call.arguments)))


def _count_shown(found: _Digest, limits: _Limits) -> dict[str, object]:
    """The dictionary of C6, for what is shown under these limits."""
    calls, prints = len(found.calls), len(found.prints)
    calls_shown, prints_shown = min(calls, limits.calls), min(prints, limits.prints)
    return {
        "enabled": True,
        "strategy": NAME,
        "turns_compressed": found.turns,
        "tool_calls_total": calls,
        "tool_calls_shown": calls_shown,
        "tool_calls_dropped": calls - calls_shown,
        "printlns_total": prints,
        "printlns_shown": prints_shown,
        "printlns_dropped": prints - prints_shown,
        "error_turns_collapsed": found.failed - (found.error is not None),
    }


def _cut_text(item: Item, limits: _Limits, history: History) -> str:
    if limits.tokens is None or item.source is None:
        return item.content
    handle = history.handle(item.source)
    cut = shorten_text(item.content, limits.tokens, history.count, handle)
    return item.content if cut is None else cut


def format_box(compression: dict[str, object]) -> str:
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


def _format_count(compression: dict[str, object], what: str) -> str:
    total, shown, dropped = (
        compression[f"{what}_{part}"] for part in ("total", "shown", "dropped")
    )
    return f"{shown}/{total} shown" + (f" ({dropped} dropped)" if dropped else "")


# --- Values and signatures, each in one line (C10)


def _format_value(value: Any, depth: int = _DEPTH) -> str:
    """The value clipped to three items and sixty characters; `_` fields are hidden."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote_text(value)
    if isinstance(value, Mapping):
        if depth <= 0:
            return "{...}"
        entries = [
            f":{k} {_format_value(v, depth - 1)}" for k, v in _visible_entries(value)
        ]
        return "{" + ", ".join(_clip_parts(entries)) + "}"
    if isinstance(value, list):
        if depth <= 0:
            return "[...]"
        items = [_format_value(v, depth - 1) for v in value[:4]]
        return "[" + " ".join(_clip_parts(items)) + "]"
    return str(value)[:_MOST_CHARS]


def _quote_text(text: str) -> str:
    cut = text = clean_text(text)
    if len(text) > _MOST_CHARS:
        cut = text[: find_safe_cut(text, _MOST_CHARS)] + "..."
    return json.dumps(cut, ensure_ascii=False)


def _clip_parts(parts: list[str]) -> list[str]:
    return parts if len(parts) <= _MOST_ITEMS else [*parts[:_MOST_ITEMS], "..."]


def _visible_entries(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(str(k), v) for k, v in value.items() if not str(k).startswith("_")]


def _format_call(name: str, arguments: Mapping[str, Any]) -> str:
    values = [_format_value(value) for _, value in _visible_entries(arguments)]
    return f"{name}({', '.join(_clip_parts(values))})"


def _format_tool(name: str, tool: object) -> str:
    parameters, comment = _find_signature(tool)
    call = " ".join([f"tool/{name}", *parameters])
    return _add_comment(f"({call})", comment)


def _add_comment(text: str, comment: str) -> str:
    return f"{text.ljust(_COLUMN - 1)} ; {comment}" if comment else text


def _describe_value(value: object) -> str:
    if isinstance(value, list):
        sample = f", sample: {_format_value(value[0])}" if value else ""
        return f"list[{len(value)}]{sample}"
    if isinstance(value, Mapping):
        return f"map[{len(value)}], sample: {_format_value(value)}"
    return _format_value(value)


def _find_signature(tool: object) -> tuple[list[str], str]:
    """The names of the parameters, and what follows the semicolon."""
    if isinstance(tool, str):
        return _parse_parameters(tool) if "->" in tool else [], _to_line(tool)
    if not isinstance(tool, Mapping):
        return [], ""
    given = tool.get("signature")
    if isinstance(given, str):
        return _parse_parameters(given), _to_line(given)
    for key in ("parameters", "inputSchema", "input_schema"):
        schema = tool.get(key)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(properties, Mapping):
            typed = (f"{name}:{_find_type(p)}" for name, p in properties.items())
            return list(properties), _to_line(", ".join(typed))
    return [], _to_line(str(tool.get("description") or ""))


def _find_type(schema: object) -> object:
    return schema.get("type", "any") if isinstance(schema, Mapping) else "any"


def _parse_parameters(signature: str) -> list[str]:
    """`query:string, n:int -> string` has the parameters query and n."""
    inputs = signature.partition("->")[0].strip().strip("()")
    return [part.split(":")[0].strip() for part in inputs.split(",") if part.strip()]


def _to_line(text: str) -> str:
    return " ".join(text.split())[:200]


STRATEGY = Strategy("coalesced", plan_coalesced, CoalescedOptions)
