"""The guard step: only allowed tools with fitting arguments are called.

Models invent both; the answer says what would be right, so that the next try succeeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from jsonschema.exceptions import ValidationError, best_match

from agents.tools.game_calls import add_schemas, find_callable
from agents.tools.request import (
    FILLED_IN,
    UNUSABLE,
    CallNext,
    Outcome,
    Request,
    Tool,
    make_refusal,
)
from memory.context.offered_tools import allows_call
from memory.context.tool_calls import GAME, is_own_tool
from memory.gamestate.values import make_storable, parse_text, repair_text

LONGEST_VALUE = 80
MOST_NAMES = 40

# With one of these a schema may allow arguments beside its properties.
OPEN = ("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref")


class ArgumentsError(Exception):
    """Arguments that do not fit; the text names the argument and the remedy."""


async def guard(request: Request, call_next: CallNext) -> Outcome:
    """Turn a call of an unknown tool, or with bad arguments, into an error result."""
    tool, offered = request.tool, request.offered
    if tool is None:
        near = _find_near(request)
        refusal = make_refusal("unknown_tool", _unknown_tool(request, near))
        return add_schemas(refusal, request, near)
    if offered and not tool.local and not _is_allowed(request, offered.allow):
        return make_refusal("tool_not_allowed", _forbidden_tool(request))
    try:
        arguments = read_arguments(request.raw, tool)
    except ArgumentsError as error:
        refusal = make_refusal("invalid_arguments", str(error))
        return add_schemas(refusal, request, [_find_meant(request)])
    return await call_next(replace(request, arguments=arguments))


def _is_allowed(request: Request, allow: tuple[str, ...] | None) -> bool:
    return allows_call(request.name, request.command.name, allow)


def _find_near(request: Request) -> list[str]:
    return get_close_matches(request.name, find_callable(request), n=3, cutoff=0.5)


def _find_meant(request: Request) -> str:
    """The tool whose arguments were wrong; one that `game` was to call, if it names one."""
    given = parse_text(request.raw) if request.name == GAME else None
    command = given.get("command") if isinstance(given, dict) else None
    return command if isinstance(command, str) else request.name


def _forbidden_tool(request: Request) -> str:
    allowed = [name for name in find_callable(request) if not is_own_tool(name)]
    there = f"Of the game's there are {', '.join(allowed[:MOST_NAMES])}." * bool(
        allowed
    )
    return f"The context policy does not allow {request.name}. {there}".strip()


def read_arguments(raw: str, tool: Tool) -> dict[str, Any]:
    """Parse a model's JSON text and check it; none at all is an empty object."""
    try:
        value = json.loads(raw, parse_constant=_no_constant) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(
            f"The arguments of {tool.spec.name} are not valid JSON "
            f"({_reason(error)}). Send one object, such as {_example(tool)}."
        ) from error
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise ArgumentsError(
            f"The arguments of {tool.spec.name} must be one JSON object, such as "
            f"{_example(tool)}."
        )
    return check_arguments(value, tool)


def check_arguments(given: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """Arguments without what the account step fills in, and null for an optional one.

    Texts that the database would refuse are repaired. Raises ArgumentsError for the
    first argument that does not fit the schema.
    """
    properties = tool.spec.parameters.get("properties", {})
    required = tool.spec.parameters.get("required", [])
    arguments: dict[str, Any] = {
        repair_text(key): make_storable(item)
        for key, item in given.items()
        if (tool.local or key not in FILLED_IN)
        and (item is not None or key in required)
    }
    for name in required:
        if name not in arguments:
            raise ArgumentsError(
                f"Argument '{name}' is missing. Call {tool.spec.name} with "
                f"{_example(tool)}."
            )
    if not any(tool.spec.parameters.get(key) for key in OPEN):
        for name in arguments:
            if name not in properties:
                raise ArgumentsError(_unknown_argument(name, tool))
    if (error := _find_error(arguments, tool)) is not None:
        raise ArgumentsError(_unfit(error, tool))
    return arguments


def _find_error(arguments: Mapping[str, Any], tool: Tool) -> ValidationError | None:
    errors = tool.validator.iter_errors(arguments) if tool.validator else ()
    error: ValidationError | None = None
    with suppress(*UNUSABLE):
        error = best_match(errors)
    return error


def _unfit(error: ValidationError, tool: Tool) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    value = _brief(error.instance)
    where = f"Argument '{path}'" if path else "The arguments"
    wanted = f"{error.validator}: {_brief(error.validator_value)}"
    return (
        f"{where} of {tool.spec.name} cannot be {value} ({wanted}). "
        f"Call it with {_example(tool)}."
    )


def _unknown_argument(name: str, tool: Tool) -> str:
    known = list(tool.spec.parameters.get("properties", {}))
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f" Did you mean '{near[0]}'?" if near else ""
    takes = f"takes {_example(tool)}" if known else "takes no arguments"
    return (
        f"Unknown argument '{name[:LONGEST_VALUE]}'.{meant} {tool.spec.name} {takes}."
    )


def _unknown_tool(request: Request, near: Sequence[str]) -> str:
    shown = near or sorted(find_callable(request))[:MOST_NAMES]
    lead = "Did you mean" if near else "There are"
    end = "?" if near else "."
    return f"There is no tool '{request.name[:LONGEST_VALUE]}'. {lead} {', '.join(shown)}{end}"


def _example(tool: Tool) -> str:
    properties = tool.spec.parameters.get("properties", {})
    required = tool.spec.parameters.get("required", [])
    if not properties:
        return "{}"
    ordered = sorted(properties, key=lambda name: name not in required)
    parts = [
        f'"{name}": <{_kind(properties[name])}{"" if name in required else ", optional"}>'
        for name in ordered
    ]
    return "{" + ", ".join(parts) + "}"


def _kind(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "enum" in schema:
        return "one of " + _brief(schema["enum"])
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else _brief(kind)


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    return str(error) if isinstance(error, ValueError) else "nested too deep"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
