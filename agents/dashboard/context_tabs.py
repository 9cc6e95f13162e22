"""Two tabs of the context page: a coalesced view step by step, and the tools beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from agents.dashboard.context import EXCERPT, ShownContext
from agents.tool_catalogue import read_game_offer
from memory.assembly.prepare import PreparedRequest
from memory.context.documents import (
    describe_usage,
)
from memory.context.tokens import TokenCounter, choose_counter
from memory.context.tool_calls import build_policy_lookup, build_sanitizer
from memory.context.types import AssemblyRequest, Described, Message
from memory.redaction import HIDDEN, hide_secrets

# What may become of the schema of a tool.
IN_FULL, SHORTER, ONE_LINE, NOT_ALLOWED = (
    "in full",
    "shorter",
    "one line",
    "not offered",
)


# --- A coalesced view, step by step


@dataclass(frozen=True, slots=True)
class CoalescedStep:
    """A turn as the log has it, beside what a coalesced view tells of it (C7).

    A turn is one answer of the model with its results. ``notes`` say what is not told.
    """

    number: int
    messages: tuple[Message, ...]
    told: str
    notes: tuple[str, ...]

    @property
    def excerpt(self) -> str:
        """The calls, or the first words that were said."""
        made = [call.name for m in self.messages for call in m.tool_calls]
        said = " ".join(m.content for m in self.messages if m.role == "assistant")
        return ", ".join(made) or " ".join(said[:EXCERPT].split())


@dataclass(frozen=True, slots=True)
class CoalescedSteps:
    """All steps of a coalesced view, and its statistics as a box (C6)."""

    steps: tuple[CoalescedStep, ...]
    box: str


def lay_steps(prepared: PreparedRequest) -> CoalescedSteps:
    """The turns of a coalesced view in full, each beside what is told of it."""
    known = _hide_secrets(prepared.request)
    steps = (
        CoalescedStep(
            number,
            tuple(known[row] for row in turn.rows if row in known),
            turn.told,
            turn.notes,
        )
        for number, turn in enumerate(prepared.assembly.turns, 1)
    )
    return CoalescedSteps(tuple(steps), describe_usage(prepared.assembly.stats)["box"])


def _hide_secrets(request: AssemblyRequest) -> dict[int, Message]:
    """The messages by id as they may be read, by the rules of `hide_row_secrets`."""
    policy_of = build_policy_lookup(request.tool_policy)
    sanitize = build_sanitizer(request.messages, policy_of)
    shown: dict[int, Message] = {}
    secret: dict[str | None, bool] = {}
    for message in request.messages:
        calls = []
        for call in message.tool_calls:
            secret[call.id] = hides = policy_of(call.name, call.arguments) == "secret"
            said = HIDDEN if hides else hide_secrets(sanitize(call.arguments))
            calls.append(replace(call, arguments=said, original=""))
        hides = message.role == "tool" and secret.get(message.tool_call_id, False)
        said = HIDDEN if hides else hide_secrets(sanitize(message.content))
        shown[message.id] = replace(message, content=said, tool_calls=tuple(calls))
    return shown


# --- The tools that go beside the messages


@dataclass(frozen=True, slots=True)
class ShownTool:
    """One tool as the model is told of it; ``fate`` is what became of its schema.

    ``before`` are the tokens of the whole schema, ``after`` those that are sent for it.
    ``schema`` is what is sent, JSON indented to be read, or its one line.
    """

    name: str
    fate: str
    before: int
    after: int
    about: str
    schema: str


@dataclass(frozen=True, slots=True)
class ShownTools:
    """The tools of a call, with tokens in full (``before``) and as sent (``after``).

    ``listed`` are the tokens of the lines in the system message; ``cut`` counts the
    tools that are not offered. ``clashing`` are tools of the game under names of ours.
    """

    mode: str
    allow: tuple[str, ...] | None
    rows: tuple[ShownTool, ...]
    before: int
    after: int
    listed: int
    cut: int
    clashing: tuple[str, ...]

    @property
    def offered(self) -> int:
        """How many tools may be called."""
        return len(self.rows) - self.cut

    @property
    def saved(self) -> int:
        """How many per cent of the tokens in full are not sent."""
        kept = self.after + self.listed
        return round(100 * (1 - kept / self.before)) if self.before else 0


def show_tools(shown: ShownContext) -> ShownTools | None:
    """The tools of a context and what each costs; None where they are not known."""
    offered = shown.offered
    if offered is None:
        return None
    factor = shown.document["stats"].get("calibration", 1.0)
    count = choose_counter("estimate", factor)
    sent = {tool["name"]: tool for tool in offered.sent}
    lines = {line.split("(")[0]: line for line in offered.catalogue.splitlines()}
    known = {tool["name"]: tool for tool in offered.known}
    rows = tuple(
        _show_tool(known.get(name), sent.get(name), lines.get(name, ""), count)
        for name in {**known, **sent}
    )
    return ShownTools(
        mode=offered.mode,
        allow=offered.allow,
        rows=rows,
        before=count(json.dumps(offered.known)) if offered.known else 0,
        after=offered.count_tokens(count),
        listed=count(offered.catalogue),
        cut=sum(row.fate == NOT_ALLOWED for row in rows),
        clashing=read_game_offer().clashing,
    )


def _show_tool(
    known: Described | None, sent: Described | None, line: str, count: TokenCounter
) -> ShownTool:
    """A tool by what is known of it, what is sent, and its line in the system message."""
    tool = sent or known or {}
    before = count(json.dumps(known)) if known else 0
    schema = line or json.dumps(tool["parameters"], indent=2, ensure_ascii=False)
    if sent is None and not line:
        fate, after = NOT_ALLOWED, 0
    elif sent is None:
        fate, after = ONE_LINE, count(line)
    else:
        after = count(json.dumps(sent))
        fate = IN_FULL if known in (None, sent) else SHORTER
    about = tool["description"]
    return ShownTool(tool["name"], fate, before, after, about, schema)
