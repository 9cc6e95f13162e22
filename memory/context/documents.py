"""The JSON form of a request and of a result: strict, with errors that name the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from memory.context import registry
from memory.context.fields import DocumentError, Fields, checked_object
from memory.context.message_documents import parse_messages
from memory.context.policy import check_policy
from memory.context.text import clean
from memory.context.types import (
    COUNTERS,
    DIALECTS,
    Assembly,
    AssemblyRequest,
    Budget,
    Summary,
)

__all__ = ["DocumentError", "StateRenderer", "parse_request", "result_document"]

StateRenderer = Callable[[Mapping[str, Any]], Callable[[int], str]]

_KEYS = frozenset(
    {
        "system",
        "messages",
        "pins",
        "summary",
        "state",
        "tool_policy",
        "strategy",
        "options",
        "budget",
        "dialect",
        "counter",
        "mysis",
        "previous",
        "mission",
        "turns_left",
        "max_turns",
        "data",
        "tools",
        "definitions",
    }
)


def parse_request(
    document: object, state_renderer: StateRenderer | None = None
) -> AssemblyRequest:
    """The request of a document; DocumentError names the key and the remedy.

    `state_renderer` turns the "state" object into the function that renders the block
    within a number of bytes; its ValueErrors become errors of the document. Where the
    function has an attribute `tick_skew`, that goes into the statistics.
    """
    fields = Fields(checked_object(document, "the document"), "", _KEYS)
    if "messages" not in fields.values:
        raise DocumentError("messages: missing; it is the list of stored messages")
    strategy = fields.text("strategy", registry.DEFAULT)
    options = fields.mapping("options")
    try:
        registry.validate_options(strategy, options)
        policy = {
            name: check_policy(name, value)
            for name, value in fields.mapping("tool_policy").items()
        }
    except ValueError as error:
        raise DocumentError(str(error)) from None
    render_state, tick_skew = _state(fields, state_renderer)
    return AssemblyRequest(
        messages=parse_messages(fields.values["messages"]),
        system=fields.optional_text("system"),
        pins=tuple(fields.texts("pins")),
        summary=_summary(fields),
        render_state=render_state,
        tick_skew=tick_skew,
        tool_policy=policy,
        strategy=strategy,
        options=options,
        budget=_budget(fields),
        dialect=fields.choice("dialect", DIALECTS, "openai"),
        counter=fields.choice("counter", COUNTERS, "estimate"),
        mysis=clean(fields.text("mysis", "self")),
        previous=_previous(fields),
        mission=fields.optional_text("mission"),
        turns_left=fields.optional_whole("turns_left"),
        max_turns=fields.optional_whole("max_turns"),
        data=fields.mapping("data"),
        tools=fields.mapping("tools"),
        definitions=fields.mapping("definitions"),
    )


def result_document(assembly: Assembly) -> dict[str, Any]:
    """The assembly as JSON values; `system` and `impossible` only where they apply."""
    wanted = assembly.summary_wanted
    document: dict[str, Any] = {
        "status": assembly.status,
        "reason": assembly.reason,
        "messages": assembly.messages,
        "sources": assembly.sources,
        "synthetic": [asdict(entry) for entry in assembly.synthetic],
        "ledger": [
            {
                "id": line.id,
                "disposition": line.disposition,
                "by": line.by,
                "reason": line.reason,
                "tokens_in": line.tokens_in,
                "tokens_out": line.tokens_out,
                "handle": line.handle,
            }
            for line in assembly.ledger
        ],
        "stats": assembly.stats,
        "warnings": assembly.warnings,
        "summary_wanted": wanted
        and {
            "first_id": wanted.first_id,
            "last_id": wanted.last_id,
            "request": wanted.request,
        },
    }
    if assembly.dialect == "anthropic":
        document["system"] = assembly.system
    if assembly.impossible is not None:
        document["impossible"] = asdict(assembly.impossible)
    return document


def _summary(fields: Fields) -> Summary | None:
    given = fields.optional_object("summary", {"through_id", "text", "generation"})
    if given is None:
        return None
    return Summary(
        given.required_whole("through_id"),
        given.required_text("text"),
        given.whole("generation", 1),
    )


def _budget(fields: Fields) -> Budget:
    given = fields.optional_object("budget", {"tokens", "reserve"})
    if given is None:
        return Budget()
    default = Budget()
    return Budget(
        given.whole("tokens", default.tokens), given.whole("reserve", default.reserve)
    )


def _previous(fields: Fields) -> list[Mapping[str, Any]] | None:
    given = fields.values.get("previous")
    if isinstance(given, dict):
        given = given.get("messages")
    if given is None:
        return None
    if not isinstance(given, list):
        raise DocumentError("previous: must be a list of messages, or null")
    return [checked_object(m, f"previous[{i}]") for i, m in enumerate(given)]


def _state(
    fields: Fields, renderer: StateRenderer | None
) -> tuple[Callable[[int], str] | None, int]:
    given = fields.values.get("state")
    if given is None:
        return None, 0
    state = checked_object(given, "state")
    if renderer is None:
        raise DocumentError("state: cannot be rendered here; leave it out")
    try:
        render = renderer(state)
    except ValueError as error:
        text = str(error)
        raise DocumentError(
            text if text.startswith("state") else f"state: {text}"
        ) from None
    return render, int(getattr(render, "tick_skew", 0))
