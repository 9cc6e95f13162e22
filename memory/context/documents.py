"""The JSON form of a request and of its result.

Messages are in the chat-completions format with keys of our own beside it. A request
is read strictly: every error names the key and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from memory.context import registry
from memory.context.json_fields import (
    DocumentError,
    JsonFields,
    read_object,
    require_object,
)
from memory.context.message_documents import parse_messages
from memory.context.offered_tools import offer_tools
from memory.context.result_types import Assembly, LedgerLine, NoteLine
from memory.context.sections import LONGEST_NOTE, NoteNameError, clean_note_name
from memory.context.strategy import CommonOptions
from memory.context.text import clean_text
from memory.context.tokens import choose_counter
from memory.context.tool_calls import GAME, check_policy, unwrap_call
from memory.context.turn_digest import format_box
from memory.context.types import (
    COUNTERS,
    DEFAULT_STRATEGY,
    DIALECTS,
    AssemblyRequest,
    Budget,
    Described,
    Message,
    Note,
    OfferedTools,
    Summary,
)

StateRenderer = Callable[[Mapping[str, Any]], Callable[[int], str]]

_REQUEST_KEYS = frozenset(
    {
        "system",
        "messages",
        "pins",
        "notes",
        "summary",
        "state",
        "tool_policy",
        "strategy",
    }
    | {"options", "budget", "dialect", "counter", "mysis", "previous", "mission"}
    | {"turns_left", "max_turns", "data", "tools", "definitions", "signature"}
    | {"results", "usage"}
)
_LEDGER_KEYS = tuple(LedgerLine.__annotations__)
_TOOL_KEYS = ("name", "description", "parameters")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def parse_request(
    document: object, state_renderer: StateRenderer | None = None
) -> AssemblyRequest:
    """The request of a document; DocumentError names the key and the remedy.

    `state_renderer` turns the "state" object into a function that renders the block
    within a number of bytes; its ValueErrors become errors of the document. The
    function's attribute `tick_skew`, if it has one, goes into the statistics.
    """
    fields = JsonFields(require_object(document, "the document"), "", _REQUEST_KEYS)
    if "messages" not in fields.values:
        raise DocumentError("messages: missing; it is the list of stored messages")
    strategy = fields.text("strategy", DEFAULT_STRATEGY)
    options = fields.mapping("options")
    counter = fields.choice("counter", COUNTERS, "estimate")
    try:
        checked = registry.validate_options(strategy, options)
        policy = {
            name: check_policy(name, value)
            for name, value in fields.mapping("tool_policy").items()
        }
    except ValueError as error:
        raise DocumentError(str(error)) from None
    render_state, tick_skew = _state(fields, state_renderer)
    offered = _offer_tools(fields, checked)
    return AssemblyRequest(
        messages=_unwrap_calls(parse_messages(fields.values["messages"]), offered),
        system=fields.optional_text("system"),
        pins=tuple(fields.texts("pins")),
        notes=_notes(fields),
        summary=_summary(fields),
        render_state=render_state,
        tick_skew=tick_skew,
        tool_policy=policy,
        strategy=strategy,
        options=options,
        budget=_budget(fields),
        dialect=fields.choice("dialect", DIALECTS, "openai"),
        counter=counter,
        tools_tokens=offered.count_tokens(choose_counter(counter)) if offered else 0,
        offered=offered,
        mysis=clean_text(fields.text("mysis", "self")),
        previous=_previous(fields),
        mission=fields.optional_text("mission"),
        turns_left=fields.optional_whole("turns_left"),
        max_turns=fields.optional_whole("max_turns"),
        data=fields.mapping("data"),
        tools={} if offered else fields.mapping("tools"),
        definitions=fields.mapping("definitions"),
        signature=fields.optional_text("signature"),
        show_results=fields.flag("results"),
        usage=fields.flag("usage"),
    )


def build_result_document(assembly: Assembly) -> dict[str, Any]:
    """The assembly as JSON values.

    `system`, `impossible`, `notes`, `tools`, `catalogue` and `usage` are there only
    where they apply.
    """
    wanted = assembly.summary_wanted
    document: dict[str, Any] = {
        "status": assembly.status,
        "reason": assembly.reason,
        "messages": assembly.messages,
        "sources": assembly.sources,
        "synthetic": [asdict(entry) for entry in assembly.synthetic],
        "ledger": [
            {key: getattr(line, key) for key in _LEDGER_KEYS}
            for line in assembly.ledger
        ],
        "stats": assembly.stats,
        "warnings": assembly.warnings,
        "summary_wanted": wanted
        and {key: getattr(wanted, key) for key in ("first_id", "last_id", "request")}
        | ({"payback": wanted.payback.describe()} if wanted.payback else {}),
    }
    if assembly.dialect == "anthropic":
        document["system"] = assembly.system
    if assembly.offered is not None:
        document |= describe_tools(assembly.offered)
    if assembly.usage:
        document["usage"] = describe_usage(assembly.stats)
    if assembly.impossible is not None:
        document["impossible"] = asdict(assembly.impossible)
    if assembly.notes:
        document["notes"] = [describe_note_line(line) for line in assembly.notes]
    return document


def describe_note_line(line: NoteLine) -> dict[str, Any]:
    """What became of a note; its version only where it has one."""
    return {key: value for key, value in asdict(line).items() if value is not None}


def describe_tools(offered: OfferedTools) -> dict[str, Any]:
    """The tools as they are sent, and the text for them in the system message."""
    return {"tools": list(offered.sent), "catalogue": offered.catalogue}


def describe_usage(stats: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of compression (C6), and the box in which they are printed."""
    compression = stats["compression"]
    return {"compression": compression, "box": format_box(compression)}


# --- A request


def _summary(fields: JsonFields) -> Summary | None:
    given = fields.optional_object("summary", {"through_id", "text", "generation"})
    if given is None:
        return None
    return Summary(
        given.required_whole("through_id"),
        given.required_text("text"),
        given.whole("generation", 1),
    )


def _notes(fields: JsonFields) -> tuple[Note, ...]:
    """The notes, newest first."""
    given = fields.values.get("notes")
    if given is None:
        return ()
    if not isinstance(given, list):
        raise fields.wrong("notes", "a list of objects with name and text")
    notes = tuple(_note(entry, f"notes[{index}]") for index, entry in enumerate(given))
    _check_names("notes", [note.name for note in notes])
    return notes


def _note(entry: object, where: str) -> Note:
    fields = read_object(entry, where, {"name", "text"})
    name, text = fields.required_text("name"), fields.required_text("text")
    if len(text) > LONGEST_NOTE:
        raise DocumentError(
            f"{where}.text: has {len(text):,} characters, at most {LONGEST_NOTE:,} are "
            "taken"
        )
    try:
        return Note(clean_note_name(name), text)
    except NoteNameError as error:
        raise DocumentError(f"{where}.name: {error}") from None


def _check_names(where: str, names: Sequence[str]) -> None:
    """Raise DocumentError for a name that an earlier entry of a list has."""
    known = set[str]()
    for index, name in enumerate(names):
        if name in known:
            raise DocumentError(f'{where}[{index}].name: "{name}" is there already')
        known.add(name)


def _budget(fields: JsonFields) -> Budget:
    default = Budget()
    given = fields.optional_object("budget", {"tokens", "reserve"})
    if given is None:
        return default
    return Budget(
        given.whole("tokens", default.tokens), given.whole("reserve", default.reserve)
    )


def _previous(fields: JsonFields) -> list[Mapping[str, Any]] | None:
    given = fields.values.get("previous")
    if isinstance(given, dict):
        given = given.get("messages")
    if given is None:
        return None
    if not isinstance(given, list):
        raise DocumentError("previous: must be a list of messages, or null")
    return [require_object(m, f"previous[{i}]") for i, m in enumerate(given)]


def _state(
    fields: JsonFields, renderer: StateRenderer | None
) -> tuple[Callable[[int], str] | None, int]:
    given = fields.values.get("state")
    if given is None:
        return None, 0
    state = require_object(given, "state")
    if renderer is None:
        raise DocumentError("state: cannot be rendered here; leave it out")
    try:
        render = renderer(state)
    except ValueError as error:
        text = str(error)
        where = "" if text.startswith("state") else "state: "
        raise DocumentError(f"{where}{text}") from None
    return render, int(getattr(render, "tick_skew", 0))


# --- Its tools


def _offer_tools(fields: JsonFields, options: CommonOptions) -> OfferedTools | None:
    """The tools of a list, under the options; None where none or a map is given."""
    given = fields.values.get("tools")
    if not isinstance(given, list):
        return None
    known = [_tool(entry, f"tools[{index}]") for index, entry in enumerate(given)]
    _check_names("tools", [tool["name"] for tool in known])
    return offer_tools(known, options.tools, options.allow)


def _tool(entry: object, where: str) -> Described:
    fields = read_object(entry, where, _TOOL_KEYS)
    name = fields.required_text("name")
    if not _TOOL_NAME.fullmatch(name):
        raise fields.wrong("name", "1 to 64 letters, digits, _ and -")
    schema = fields.mapping("parameters") or {"type": "object", "properties": {}}
    _check_schema(schema, f"{where}.parameters")
    about = fields.optional_text("description") or ""
    return {"name": name, "description": about, "parameters": schema}


def _check_schema(schema: Mapping[str, Any], where: str) -> None:
    """Raise DocumentError for what a catalogue or a list of actions cannot be made of."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        raise DocumentError(f"{where}.properties: must be an object")
    if not isinstance(required, list):
        raise DocumentError(f"{where}.required: must be a list of names")
    for index, name in enumerate(required):
        if not isinstance(name, str):
            raise DocumentError(
                f"{where}.required[{index}]: must be the name of a parameter"
            )
    for name, each in properties.items():
        if not isinstance(each, (dict, bool)):
            raise DocumentError(f"{where}.properties.{name}: must be an object")
        if isinstance(each, dict) and not isinstance(each.get("enum", []), list):
            raise DocumentError(f"{where}.properties.{name}.enum: must be a list")


def _unwrap_calls(
    messages: tuple[Message, ...], offered: OfferedTools | None
) -> tuple[Message, ...]:
    """The messages with what was called by way of `game` as the calls that it made."""
    names = {tool["name"] for tool in offered.known} if offered else set()
    if offered is None or GAME in names:
        return messages
    return tuple(
        replace(m, tool_calls=tuple(map(unwrap_call, m.tool_calls)))
        if m.tool_calls
        else m
        for m in messages
    )
