"""The pilot as a pydantic-ai model: it plays by rules, not by a language model.

It gets what any model gets: the messages of the view and the tools. It reads them
(`reading`), derives what it believes (`replay`, `beliefs`), and decides by the first
rule that applies (`rules_account`, `rules_space`). It stores nothing between two calls. The forgetful
captain is the pilot with one rule more (`forgetful`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

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

from memory.context.tokens import estimate_tokens
from memory.context.tool_calls import (
    GAME,
    GAME_HELP,
    get_sent_form,
    is_own_tool,
    unwrap_call,
)
from memory.context.types import UNDERSTOOD_TEXT, ToolCall, is_nudge, split_nudge
from sandbox.pilot import reading, situation, summary
from sandbox.pilot.forgetful import reread_state
from sandbox.pilot.grouped import (
    Described,
    Routes,
    find_routes,
    find_unread,
    fold_call,
    list_commands,
    list_takes,
    read_text,
    read_told,
    unfold_call,
)
from sandbox.pilot.one_message import is_one_message, read_one_message
from sandbox.pilot.orders import find_current_order, find_unanswered
from sandbox.pilot.reading import (
    Called,
    Entry,
    Heard,
    Said,
    Transcript,
    read_block,
    split_joined,
    split_state,
)
from sandbox.pilot.replay import ACTIONS, Replay, learn_block
from sandbox.pilot.reports import read_open_orders, report_orders
from sandbox.pilot.rules_account import (
    end_turn,
    enter_game,
    give_up,
    listen_for_news,
    wait_for_arrival,
)
from sandbox.pilot.rules_space import act_at_station, act_in_space
from sandbox.pilot.situation import Call, Decision, Situation
from sandbox.pilot.tasks import NOTE_NAME, follow_order, with_progress
from sandbox.pilot.words import parse_order

Rule = Callable[[Situation], Decision | None]

# The first rule with a decision wins: what an action came to is reported a tick later.
RULES: tuple[Rule, ...] = (
    end_turn,
    report_orders,
    give_up,
    enter_game,
    follow_order,
    wait_for_arrival,
    act_at_station,
    act_in_space,
    listen_for_news,
)
# It looks at everything before each step and at what came of it, and never gives up.
FORGETFUL_RULES: tuple[Rule, ...] = (
    enter_game,
    reread_state,
    *(rule for rule in RULES if rule not in (enter_game, give_up)),
)
CAPTAINS: Mapping[str, tuple[Rule, ...]] = {
    "pilot": RULES,
    "forgetful": FORGETFUL_RULES,
}

# In the state block where the program fetches events itself.
EVENTS_ARE_FETCHED = "Events are fetched for you"
# Mining is dull: notifications are fetched beside every third mine call only.
MINES_WITHOUT_NEWS = 3

_NAME = re.compile(r"\bYou are ([^,.;:\n]{1,80})|\b[Yy]our name is ([^,.;:\n]{1,80})")


@cache
def make_pilot(captain: str = "pilot") -> FunctionModel:
    """One of the `CAPTAINS`; there is one of each, since they have no state."""
    answer = partial(_answer, CAPTAINS[captain])
    return FunctionModel(answer, model_name=captain)


async def _answer(
    rules: Sequence[Rule], messages: list[ModelMessage], info: AgentInfo
) -> ModelResponse:
    tools: dict[str, Described] = {
        tool.name: {
            "description": tool.description or "",
            "parameters": tool.parameters_json_schema,
        }
        for tool in info.function_tools
    }
    transcript = _read_transcript(messages, tools)
    way = GAME if GAME in tools else ""
    listed = reading.read_catalogue(transcript.system) if way else {}
    tools |= read_told(transcript.entries)
    routes = find_routes(tools)
    offered = {name: frozenset(takes) for name, takes in listed.items()}
    offered |= list_commands(tools, routes)
    unread = find_unread(listed, tools)
    if summary.is_summary_asked(transcript):
        decision = Decision(text=summary.write_summary(transcript))
    elif unread and not any(map(reading.is_help, transcript.turn)):
        # What a group can do stands in its schema alone.
        thought = "I only know the names of these tools. I read what they can do."
        decision = Decision((Call(GAME_HELP, {"names": unread}),), thought=thought)
    else:
        decision = _decide(rules, transcript, offered, bool(routes))
    parts = list(_parts(decision, len(messages), routes, way))
    return ModelResponse(
        parts,
        usage=_estimate_usage(messages, info.function_tools, parts),
        finish_reason="tool_call" if decision.calls else "stop",
    )


def _decide(
    rules: Sequence[Rule],
    transcript: Transcript,
    tools: Mapping[str, frozenset[str]],
    grouped: bool,
) -> Decision:
    found = _NAME.search(transcript.system)
    name = (found[1] or found[2]).strip() if found else ""
    beliefs = Replay().run(transcript)
    learn_block(beliefs, read_block(transcript.state), placeless=grouped)
    captain = name or "Captain"
    order = find_current_order(transcript, captain)
    s = Situation(captain, beliefs, transcript, tools, order, grouped)
    decisions = filter(None, (rule(s) for rule in rules))
    decision = next(decisions, None) or Decision(
        text=situation.describe_refusals(transcript.calls_of_turn()),
        thought="I see nothing useful to do in this tick.",
    )
    return _with_acknowledgement(s, with_progress(s, _with_news(s, decision)))


def _with_news(s: Situation, decision: Decision) -> Decision:
    tool = "get_notifications"
    fetched = EVENTS_ARE_FETCHED in s.transcript.state
    if not decision.acts or fetched or not s.can_ask(tool) or not _is_news_due(s, tool):
        return decision
    return replace(decision, calls=(Call(tool, {}), *decision.calls))


def _is_news_due(s: Situation, tool: str) -> bool:
    """Whether notifications were not fetched in view, or actions were done since."""
    names = [c.name for c in s.transcript.calls() if not c.answer.is_error]
    if tool not in names:
        return bool(names) or s.beliefs.logged_in is True
    after = names[len(names) - names[::-1].index(tool) :]
    since = [name for name in after if name in ACTIONS]
    dull = all(name == "mine" for name in since)
    return len(since) >= MINES_WITHOUT_NEWS if dull else bool(since)


def _with_acknowledgement(s: Situation, decision: Decision) -> Decision:
    heard = find_unanswered(s.transcript)
    if not heard:
        return decision
    said = situation.acknowledge_order(parse_order(heard, s.name))
    return replace(decision, text=f"{said} {decision.text}".strip())


def _parts(
    decision: Decision, position: int, routes: Routes, way: str
) -> Iterator[ModelResponsePart]:
    """The parts of a message; a call's id is its place, so equal views give equal ids.

    ``way`` is the tool by way of which the game's are called, if that is how.
    """
    if decision.thought:
        yield ThinkingPart(decision.thought)
    if decision.text:
        yield TextPart(decision.text)
    for index, call in enumerate(decision.calls):
        tool, given = fold_call(call.name, call.arguments, routes)
        arguments = json.dumps(given, ensure_ascii=False)
        by = "" if is_own_tool(tool) else way
        made = ToolCall(f"pilot_{position}_{index}", tool, arguments, by)
        yield ToolCallPart(*get_sent_form(made), made.id)


def _read_transcript(
    messages: Sequence[ModelMessage], tools: Mapping[str, Described]
) -> Transcript:
    """Read the messages of a view; the newest state block counts."""
    system: list[str] = []
    entries: list[Entry] = []
    pending: dict[str, int] = {}
    state = named = note = ""
    for step, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            _add_own(entries, pending, message, step)
            continue
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                said, block = split_state(part.content)
                system.append(said)
                note = reading.find_note(said, NOTE_NAME) or note
            elif isinstance(part, UserPromptPart):
                text = str(part.content)
                heard, block, told = _hear(text, system, tools)
                if is_one_message(text):
                    note = reading.find_note(text, NOTE_NAME)
                entries += heard
                named = told or named
            else:
                block = ""
                if isinstance(part, ToolReturnPart):
                    block = _put_answer(entries, pending, part)
            state = block or state
    named_orders = read_open_orders(named)
    return Transcript("\n\n".join(system), entries, state, named_orders, note)


def _hear(
    text: str, system: Sequence[str], tools: Mapping[str, Described]
) -> tuple[Sequence[Entry], str, str]:
    """What a text of the user role tells, its state block, and what is open."""
    if is_one_message(text):
        listed = reading.read_catalogue("\n\n".join(system))
        found = read_one_message(text, listed, list_takes(tools))
        if told := read_told(found.entries):
            # What the commands take stands in the text itself.
            found = read_one_message(text, listed, list_takes({**tools, **told}))
        return found.entries, found.state, found.named
    said, block = split_state(text)
    named = split_nudge(said)[2] if is_nudge(said) else ""
    return [*map(Heard, split_joined(said))], block, named


def _add_own(
    entries: list[Entry], pending: dict[str, int], message: ModelResponse, step: int
) -> None:
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if not calls:
        said = [part.content for part in message.parts if isinstance(part, TextPart)]
        if said != [UNDERSTOOD_TEXT]:
            entries.append(Said("\n".join(said)))
    for call in calls:
        pending[call.tool_call_id] = len(entries)
        sent = ToolCall(call.tool_call_id, call.tool_name, call.args_as_json_str())
        made = unwrap_call(sent)
        arguments = reading.find_object(made.arguments)
        unanswered = reading.Answer("", unsure=True)
        command, own = unfold_call(made.name, arguments)
        entries.append(Called(command, own, unanswered, step))


def _put_answer(
    entries: list[Entry], pending: dict[str, int], part: ToolReturnPart
) -> str:
    """Put a result beside its call; the last of several counts (A31).

    The state block that is joined to it is returned.
    """
    said, block = split_state(part.model_response_str(wrap_if_error=False))
    index = pending.get(part.tool_call_id, -1)
    call = entries[index] if index >= 0 else None
    if isinstance(call, Called):
        read = reading.read_answer(said)
        entries[index] = replace(call, answer=read_text(call.name, read))
    return block


def _estimate_usage(
    messages: Sequence[ModelMessage],
    tools: Sequence[ToolDefinition],
    parts: Sequence[ModelResponsePart],
) -> RequestUsage:
    """Tokens by the estimate: no provider counts them for a script."""
    sent = sum(_estimate_part(part) for message in messages for part in message.parts)
    offered = [
        {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": tool.parameters_json_schema,
        }
        for tool in tools
    ]
    return RequestUsage(
        input_tokens=sent + (estimate_tokens(json.dumps(offered)) if offered else 0),
        output_tokens=sum(map(_estimate_part, parts)),
    )


def _estimate_part(part: object) -> int:
    if isinstance(part, ToolCallPart):
        texts = (part.tool_name, part.args_as_json_str())
        return sum(map(estimate_tokens, texts))
    return estimate_tokens(str(getattr(part, "content", "")))
