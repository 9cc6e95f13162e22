"""Who asks over MCP, as the gate in front has found out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.actions import ActionError
from agents.context_inputs import known_tools, preview
from agents.dashboard.context import preview_document
from agents.tools.guard import ArgumentsError, check_arguments
from agents.tools.own_tool_answers import (
    Answer,
    LocalRefusedError,
    Scope,
    json_answer,
    secret_tools,
)
from agents.tools.own_tools import ANSWERS, FOR_PROGRAMS, SENDING, tool
from agents.tools.request import Tool
from memory.gamestate.values import clean_text, storable


@dataclass(frozen=True, slots=True)
class Guest:
    """A caller. ``by`` is how the log names them, ``role`` what they are.

    ``may_send``: whether they may write to Myses. ``throttle`` counts one write and
    gives the seconds to wait before it may be done, 0 for none.
    """

    by: str
    role: str
    may_send: bool
    throttle: Callable[[], float]


# SECTION What programs may call over MCP, and what it answers; all of it sync.


class RefusedError(Exception):
    """A call that cannot be done; the text says why."""


def _preview(arguments: Mapping[str, Any], reach: Scope) -> Answer:
    """What the next call of a Mysis would be sent, message by message."""
    mysis = reach.target(arguments.get("mysis_id"))
    try:
        prepared = preview(mysis, strategy=arguments.get("strategy"))
    except ActionError as error:
        raise LocalRefusedError(error.detail) from error
    return json_answer(preview_document(prepared))


_PREVIEW = tool(
    "zoea_preview_context",
    "What the next model call of a Mysis would be sent, message by message, with what "
    "became of every stored message and why. Writes nothing.",
    {
        "mysis_id": {
            "type": ["integer", "string"],
            "description": "The number or the name of a Mysis",
        },
        "strategy": {
            "type": "string",
            "description": "Another strategy than that of its policy",
        },
    },
    ["mysis_id"],
)

TOOLS: Mapping[str, Tool] = {**FOR_PROGRAMS, _PREVIEW.spec.name: _PREVIEW}
_ANSWERS: Mapping[str, Callable[[Mapping[str, Any], Scope], Answer]] = {
    **ANSWERS,
    _PREVIEW.spec.name: _preview,
}


def offered(guest: Guest) -> list[Tool]:
    """The tools that a caller may use."""
    return [
        each for name, each in TOOLS.items() if guest.may_send or name not in SENDING
    ]


def call(name: str, given: Mapping[str, Any], guest: Guest) -> Answer:
    """Call one tool; raises RefusedError."""
    found = TOOLS.get(name)
    if found is None:
        listed = ", ".join(each.spec.name for each in offered(guest))
        raise RefusedError(f"There is no tool {name[:100]!r}. There are {listed}.")
    if name in SENDING:
        _check_role(guest)
    try:
        arguments = _cleaned(given, found)
        check_arguments(arguments, found)
        return _ANSWERS[name](arguments, _reach(guest))
    except (ArgumentsError, LocalRefusedError) as error:
        raise RefusedError(str(error)) from error


def _check_role(guest: Guest) -> None:
    if not guest.may_send:
        raise RefusedError(f"This needs the role operator; yours is {guest.role}.")
    wait = guest.throttle()
    if wait:
        seconds = max(1, math.ceil(wait))
        raise RefusedError(f"Too many requests: try again in {seconds} s.")


def _cleaned(given: Mapping[str, Any], found: Tool) -> dict[str, Any]:
    """Arguments that a store takes; null for an optional one is none."""
    required = found.spec.parameters["required"]
    return {
        clean_text(key): storable(value)
        for key, value in given.items()
        if value is not None or key in required
    }


def _reach(guest: Guest) -> Scope:
    policies = ((row["name"], row["policy"]) for row in known_tools())
    return Scope(guest.by, secret=secret_tools(policies))
