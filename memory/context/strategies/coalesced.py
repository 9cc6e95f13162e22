"""Values and signatures as seed 004 writes them, short enough for one line (C10)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.context.strategies.snapshot_window import says_error
from memory.context.strategy import CommonOptions, Strategy, option
from memory.context.text import clean, safe_cut, shorten
from memory.context.tool_calls import load_object
from memory.context.types import NUDGE_TEXT, AssemblyRequest
from memory.context.units import Fate, History, Item, Plan, Unit

MOST_ITEMS = 3
MOST_CHARS = 60
_DEPTH = 6
_COLUMN = 33


def literal(value: Any, depth: int = _DEPTH) -> str:
    """The value clipped to three items and sixty characters; `_` fields are hidden."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        if depth <= 0:
            return "{...}"
        entries = [f":{k} {literal(v, depth - 1)}" for k, v in shown(value)]
        return "{" + ", ".join(clipped(entries)) + "}"
    if isinstance(value, list):
        if depth <= 0:
            return "[...]"
        return "[" + " ".join(clipped([literal(v, depth - 1) for v in value[:4]])) + "]"
    return str(value)[:MOST_CHARS]


def quoted(text: str) -> str:
    """A text in quotes on one line, its end cut off where it is long."""
    cut = text = clean(text)
    if len(text) > MOST_CHARS:
        cut = text[: safe_cut(text, MOST_CHARS)] + "..."
    return json.dumps(cut, ensure_ascii=False)


def clipped(parts: list[str]) -> list[str]:
    """The first three, and dots for the others."""
    return parts if len(parts) <= MOST_ITEMS else [*parts[:MOST_ITEMS], "..."]


def shown(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The entries that are not hidden."""
    return [(str(k), v) for k, v in value.items() if not str(k).startswith("_")]


def call_line(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call as the model might have written it."""
    values = [literal(value) for _, value in shown(arguments)]
    return f"{name}({', '.join(clipped(values))})"


def tool_line(name: str, tool: object) -> str:
    """A tool with its parameters, and its signature or description as a comment."""
    parameters, comment = _signature(tool)
    call = " ".join([f"tool/{name}", *parameters])
    return _commented(f"({call})", comment)


def data_line(name: str, value: object) -> str:
    """What a value is, with a sample, without the value itself."""
    return _commented(f"data/{name}", _kind(value))


def definition_line(name: str, value: object) -> str:
    """A name that the agent defined, with what it holds."""
    return _commented(name, f"= {_kind(value)}")


def _commented(text: str, comment: str) -> str:
    return f"{text.ljust(_COLUMN - 1)} ; {comment}" if comment else text


def _kind(value: object) -> str:
    if isinstance(value, list):
        sample = f", sample: {literal(value[0])}" if value else ""
        return f"list[{len(value)}]{sample}"
    if isinstance(value, Mapping):
        return f"map[{len(value)}], sample: {literal(value)}"
    return literal(value)


def _signature(tool: object) -> tuple[list[str], str]:
    """The names of the parameters, and what follows the semicolon."""
    if isinstance(tool, str):
        return _named(tool) if "->" in tool else [], _line(tool)
    if not isinstance(tool, Mapping):
        return [], ""
    given = tool.get("signature")
    if isinstance(given, str):
        return _named(given), _line(given)
    for key in ("parameters", "inputSchema", "input_schema"):
        schema = tool.get(key)
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(properties, Mapping):
            return list(properties), _line(", ".join(_typed(properties)))
    return [], _line(str(tool.get("description") or ""))


def _typed(properties: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}:{schema.get('type', 'any') if isinstance(schema, Mapping) else 'any'}"
        for name, schema in properties.items()
    ]


def _named(signature: str) -> list[str]:
    """`query:string, n:int -> string` has the parameters query and n."""
    inputs = signature.partition("->")[0].strip().strip("()")
    return [part.split(":")[0].strip() for part in inputs.split(",") if part.strip()]


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


# SECTION Turns as seed 004 counts them: what they did, said and got wrong (C2, C5, C6, A29).

NAME = "single-user-coalesced"
UNKNOWN = "(unknown program)"


@dataclass(slots=True)
class Digest:
    """What the turns leave to tell. Failed turns give neither calls nor prints."""

    turns: int = 0
    calls: list[str] = field(default_factory=list)
    prints: list[Item] = field(default_factory=list)
    failed: int = 0
    error: Item | None = None
    program: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many calls and prints are shown, and the tokens that one text may take."""

    prints: int
    calls: int
    tokens: int | None = None


def digest(units: Sequence[Unit], history: History) -> Digest:
    """Go through the turns; an assistant message with its results is one."""
    found = Digest()
    for unit in units:
        if unit.role != "assistant":
            continue
        found.turns += 1
        errors = [item for item in unit.items[1:] if _failed(item)]
        found.error = errors[-1] if errors else None
        if errors:
            found.failed += 1
            found.program = " ".join(unit.items[0].content.split())[:200] or UNKNOWN
            continue
        if unit.items[0].content.strip():
            found.prints.append(unit.items[0])
        _take_calls(unit, history, found)
    return found


def _failed(item: Item) -> bool:
    return not item.filled and says_error(item)


def _take_calls(unit: Unit, history: History, found: Digest) -> None:
    results = {item.call: item for item in unit.items[1:]}
    for index, call in enumerate(unit.items[0].calls):
        if history.policy_of(call.name) == "print":
            said = results.get(index)
            if said is not None and said.content.strip() and not said.filled:
                found.prints.append(said)
        else:
            found.calls.append(call_line(call.name, load_object(call.arguments)))


def newest(entries: list[str], limit: int) -> list[str]:
    """The newest so many; none for 0 (A29)."""
    return entries[-limit:] if limit else []


def statistics(found: Digest, limits: Limits) -> dict[str, object]:
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


def text_of(item: Item, limits: Limits, history: History) -> str:
    """What is sent of a row: all of it, or head and tail with its handle."""
    if limits.tokens is None or item.source is None:
        return item.content
    handle = history.handle(item.source)
    cut = shorten(item.content, limits.tokens, history.count, handle)
    return item.content if cut is None else cut


def box(compression: dict[str, object]) -> str:
    """The boxed text form of the statistics (C6, C7)."""
    calls = _shown(compression, "tool_calls")
    prints = _shown(compression, "printlns")
    rows = (
        ("Strategy:", compression["strategy"]),
        ("Turns:", f"{compression['turns_compressed']} compressed"),
        ("Tool calls:", calls),
        ("Printlns:", prints),
        ("Errors:", f"{compression['error_turns_collapsed']} turn(s) collapsed"),
    )
    lines = [f"|   {name:<13} {value}" for name, value in rows]
    return "\n".join(["+- Compression " + "-" * 43 + "+", *lines, "+" + "-" * 57 + "+"])


def _shown(compression: dict[str, object], what: str) -> str:
    total, shown, dropped = (
        compression[f"{what}_{part}"] for part in ("total", "shown", "dropped")
    )
    return f"{shown}/{total} shown" + (f" ({dropped} dropped)" if dropped else "")


# SECTION `coalesced`: the whole history in one user message (C3, C4, A28).

FINAL_TURN = "FINAL WORK TURN: finish now and give your final answer."
_FATE = Fate("coalesced", "coalesced", "Told in one message with the whole history.")


@dataclass(frozen=True, slots=True)
class CoalescedOptions(CommonOptions):
    """How many of the newest prints and calls are shown (C2)."""

    println_limit: int = option(15, "Newest prints that are shown.", minimum=0)
    tool_call_limit: int = option(20, "Newest tool calls that are shown.", minimum=0)


def coalesced(history: History, options: CoalescedOptions) -> Plan:
    """One message: what is fixed first, what grows next, what changes last."""
    if history.request.max_turns == 1:
        why = "One turn only, so there is nothing to coalesce."
        return Plan(history.units, status="disabled", reason=why)
    if not history.units and not _given(history.request):
        return Plan(())
    found = digest(history.units, history)
    for limits in _narrowing(options, history):
        text = _text(found, limits, history)
        if history.count(text) <= history.room:
            break

    def unit(content: str) -> tuple[Unit, ...]:
        item = Item("user", content, history.count(content), kind="coalesced")
        return (Unit((item,), start=-1, required=True),)

    return Plan(
        unit(text),
        {row: _FATE for each in history.units for row in each.sources},
        covers_intent=True,
        exempt_newest=True,
        attach_state=lambda state: unit(f"{text}\n\n{state}"),
        compression=statistics(found, limits),
    )


def _given(request: AssemblyRequest) -> bool:
    """Whether there is something to tell beside the log."""
    beside = (request.tools, request.data, request.definitions)
    return any(beside) or bool((request.mission or "").strip())


def _narrowing(options: CoalescedOptions, history: History) -> Iterator[Limits]:
    """The limits as given; then less and less, for what does not fit the budget."""
    prints, calls = options.println_limit, options.tool_call_limit
    yield Limits(prints, calls)
    for share in (8, 16, 32, 64):
        yield Limits(prints, calls, max(1, history.room // share))
    while prints or calls:
        prints, calls = prints // 2, calls // 2
        yield Limits(prints, calls, max(1, history.room // 8))
    for share in (4, 8, 16, 32):
        yield Limits(0, 0, max(1, history.room // share))


def _text(found: Digest, limits: Limits, history: History) -> str:
    request = history.request
    prints = found.prints[-limits.prints :] if limits.prints else []
    output = "\n".join(text_of(item, limits, history) for item in prints)
    calls = "\n".join(f";   {line}" for line in newest(found.calls, limits.calls))
    parts = [
        *_orders(limits, history),
        _section(";; === tool/ ===", request.tools, tool_line, history),
        _section(";; === data/ ===", request.data, data_line, history),
        _section(
            ";; === user/ (your prelude) ===",
            request.definitions,
            definition_line,
            history,
        ),
        f";; Tool calls made:\n{calls}" if calls else "",
        f";; Output:\n{output}" if output else "",
        _error(found, limits, history),
        _turns_left(request.turns_left),
    ]
    text = "\n\n".join(part for part in parts if part)
    return text or history.sanitize(request.nudge or "").strip() or NUDGE_TEXT


def _orders(limits: Limits, history: History) -> list[str]:
    """The mission, and the newest order where it is another (I17)."""
    orders = [unit.items[0] for unit in history.units if unit.intent]
    given = history.sanitize(history.request.mission or "")
    if given.strip():
        newer = [item for item in orders[-1:] if item.content != given]
        return [given, *(text_of(item, limits, history) for item in newer)]
    people = {m.id for m in history.request.messages if m.origin == "human"}
    first = next((item for item in orders if item.source in people), None)
    shown = [first] if first is not None else []
    if orders and orders[-1] is not first:
        shown.append(orders[-1])
    return [text_of(item, limits, history) for item in shown]


def _section(
    header: str,
    entries: Mapping[str, object],
    line: Callable[[str, object], str],
    history: History,
) -> str:
    lines = [line(name, value) for name, value in entries.items()]
    return history.sanitize("\n".join([header, *lines])) if lines else ""


def _error(found: Digest, limits: Limits, history: History) -> str:
    """The error of the newest turn, if that failed; older ones are history (C5)."""
    if found.error is None:
        return ""
    said = text_of(found.error, limits, history)
    return f";; Error:\n;   {found.program}\n{said}"


def _turns_left(turns: int | None) -> str:
    if turns is None:
        return ""
    return f"Turns left: {turns}" if turns > 0 else FINAL_TURN


STRATEGY = Strategy("coalesced", coalesced, CoalescedOptions)
