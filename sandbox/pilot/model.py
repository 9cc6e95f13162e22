"""A pilot that plays by rules instead of by a language model.

It is called like any model and is given no more than one: the messages of the
view and the tools. What it knows, it reads there (`transcript`, `block`,
`answers`), puts together under one rule of what counts as known (`beliefs`), and
acts on with a list of rules (`plan`). It keeps nothing between two calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from memory.context.tokens import estimate
from sandbox.pilot import reading, situation, summary
from sandbox.pilot.orders import current_order, heard_now, parse
from sandbox.pilot.reading import (
    Called,
    Entry,
    Heard,
    Said,
    Transcript,
    read_block,
    split_state,
)
from sandbox.pilot.replay import ACTIONS, Replay, lay_over
from sandbox.pilot.rules_account import account, duty, errand, listen, over, under_way
from sandbox.pilot.rules_space import at_station, in_space
from sandbox.pilot.situation import Call, Decision, Situation

# SECTION The pilot's rules in their order: the first that has something to say wins.

Rule = Callable[[Situation], Decision | None]

RULES: tuple[Rule, ...] = (
    over,
    account,
    errand,
    under_way,
    duty,
    at_station,
    in_space,
    listen,
)

EVENTS_ARE_FETCHED = "Events are fetched for you"
"""What the state block says where the program fetches events itself."""

MINES_WITHOUT_NEWS = 3
"""Mining is dull: news are fetched beside every third swing only."""


def decide(
    name: str, transcript: Transcript, tools: Mapping[str, frozenset[str]]
) -> Decision:
    """The next message of captain ``name``."""
    beliefs = Replay().run(transcript)
    lay_over(beliefs, read_block(transcript.state))
    s = Situation(name, beliefs, transcript, tools, current_order(transcript))
    found = (decision for rule in RULES if (decision := rule(s)) is not None)
    decision = next(found, None) or Decision(
        text=situation.stuck(transcript.calls_of_turn()),
        thought="I see nothing useful to do in this tick.",
    )
    return _answering(s, _with_news(s, decision))


def _with_news(s: Situation, decision: Decision) -> Decision:
    """Fetch notifications beside an action when an outcome is still unheard of."""
    tool = "get_notifications"
    if not decision.acts or tool not in s.tools or s.asked(tool):
        return decision
    if EVENTS_ARE_FETCHED in s.transcript.state:
        return decision
    if not _is_news_due(s, tool):
        return decision
    return replace(decision, calls=(Call(tool, {}), *decision.calls))


def _is_news_due(s: Situation, tool: str) -> bool:
    """Whether the last look is out of view, or something has been done since."""
    names = [c.name for c in s.transcript.calls() if not c.answer.is_error]
    if tool not in names:
        return bool(names) or s.beliefs.logged_in is True
    last = len(names) - 1 - names[::-1].index(tool)
    since = [name for name in names[last + 1 :] if name in ACTIONS]
    dull = all(name == "mine" for name in since)
    return len(since) >= MINES_WITHOUT_NEWS if dull else bool(since)


def _answering(s: Situation, decision: Decision) -> Decision:
    """Say at once that an order, or a word, was heard."""
    heard = heard_now(s.transcript)
    if not heard:
        return decision
    found = parse(heard)
    said = situation.acknowledge(*found) if found else "I hear you."
    return replace(decision, text=f"{said} {decision.text}".strip())


# SECTION The pilot as a pydantic-ai model.

_NAME = re.compile(r"\bYou are ([^,.;:\n]{1,80})|\b[Yy]our name is ([^,.;:\n]{1,80})")


@cache
def pilot_model() -> FunctionModel:
    """The one pilot; it has no state."""
    return FunctionModel(answer, model_name="pilot")


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Decide on the next message from what a model would be sent."""
    transcript = transcript_of(messages)
    tools = {tool.name: _arguments(tool) for tool in info.function_tools}
    if summary.is_asked_for(transcript):
        decision = Decision(text=summary.write(transcript))
    else:
        decision = decide(name_in(transcript.system), transcript, tools)
    parts = list(_parts(decision, len(messages)))
    return ModelResponse(
        parts,
        usage=_usage(messages, info.function_tools, parts),
        finish_reason="tool_call" if decision.calls else "stop",
    )


def _arguments(tool: ToolDefinition) -> frozenset[str]:
    return frozenset(tool.parameters_json_schema.get("properties") or ())


def _parts(decision: Decision, position: int) -> Iterator[ModelResponsePart]:
    """A call's id is its place in the view, so that the same view gives the same."""
    if decision.thought:
        yield ThinkingPart(decision.thought)
    if decision.text:
        yield TextPart(decision.text)
    for index, call in enumerate(decision.calls):
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        yield ToolCallPart(call.name, arguments, f"pilot_{position}_{index}")


def name_in(system: str) -> str:
    """The captain's name in a system prompt."""
    found = _NAME.search(system)
    name = (found[1] or found[2]).strip() if found else ""
    return name or "Captain"


def transcript_of(messages: Sequence[ModelMessage]) -> Transcript:
    """The messages as the pilot reads them; the newest state block counts."""
    system: list[str] = []
    entries: list[Entry] = []
    pending: dict[str, int] = {}
    state = ""
    for step, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            entries += _own(message, step, pending, len(entries))
            continue
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                said, block = split_state(part.content)
                system.append(said)
            elif isinstance(part, UserPromptPart):
                said, block = split_state(str(part.content))
                entries += [Heard(said)] if said else []
            else:
                block = ""
                if isinstance(part, ToolReturnPart):
                    _answered(entries, pending, part)
            state = block or state
    return Transcript("\n\n".join(system), entries, state)


def _own(
    message: ModelResponse, step: int, pending: dict[str, int], start: int
) -> list[Entry]:
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if not calls:
        said = [part.content for part in message.parts if isinstance(part, TextPart)]
        return [Said("\n".join(said))]
    for index, call in enumerate(calls):
        pending[call.tool_call_id] = start + index
    return [
        Called(
            call.tool_name, _object(call.args), reading.Answer("", unsure=True), step
        )
        for call in calls
    ]


def _object(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        return reading.object_in(arguments)
    return arguments or {}


def _answered(
    entries: list[Entry], pending: dict[str, int], part: ToolReturnPart
) -> None:
    """Put a result to its call; the last of several counts (A31)."""
    index = pending.get(part.tool_call_id)
    call = entries[index] if index is not None else None
    if index is not None and isinstance(call, Called):
        read = reading.read(part.model_response_str(wrap_if_error=False))
        entries[index] = Called(call.name, call.arguments, read, call.step)


def _usage(
    messages: Sequence[ModelMessage],
    tools: Sequence[ToolDefinition],
    parts: Sequence[ModelResponsePart],
) -> RequestUsage:
    """Tokens by the estimate: nobody else counts them for a script."""
    sent = sum(_tokens(part) for message in messages for part in message.parts)
    offered = [
        {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": tool.parameters_json_schema,
        }
        for tool in tools
    ]
    return RequestUsage(
        input_tokens=sent + (estimate(json.dumps(offered)) if offered else 0),
        output_tokens=sum(map(_tokens, parts)),
    )


def _tokens(part: object) -> int:
    if isinstance(part, ToolCallPart):
        return estimate(part.tool_name) + estimate(part.args_as_json_str())
    content = getattr(part, "content", "")
    return estimate(content if isinstance(content, str) else str(content))
