"""The making of a summary in a turn: asked, checked, and committed or refused.

Nothing is changed until a summary is good: a refusal, a timeout, a stop or a crash
leaves the log and its summaries as they were (I23). At most two attempts are made in
a turn, then the turn goes on without (I24).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.budgets import BudgetSpentError
from agents.llm.overflow import is_overflow
from agents.llm.types import (
    Completion,
    Endpoint,
    ModelError,
    ModelTimeoutError,
    Tool,
)
from agents.tools.crossing import cross
from memory.compactions import Effort, Outdated
from memory.context.summary_prompt import SummaryRefused, read_summary
from memory.preview import Prepared as View

from . import answers, calls, records, summaries
from .asking import ask
from .calls import Wish
from .records import Begun, VoidedError
from .summaries import Wanted

ATTEMPTS = 2
SECONDS = 60.0
#: Tokens of an answer beside its summary: tags, and thoughts before them.
MARGIN = 1_000
#: With these a provider refuses a request that it has no room for.
TOO_LONG = (400, 413, 422)
logger = logging.getLogger(__name__)

CORRECTION = "\n\nYour first answer was refused: {reason} Answer again, and mend that."


@dataclass(slots=True)
class Making:
    """How far the making of one summary has come."""

    begun: Begun
    endpoint: Endpoint
    tools: Sequence[Tool]
    wanted: Wanted
    effort: Effort
    failure: str = ""
    correction: str = ""
    done: bool = False
    hopeless: bool = False


async def compact(
    begun: Begun, endpoint: Endpoint, tools: Sequence[Tool], view: View
) -> int:
    """Make the summary that a view asks for, and keep it, or keep why there is none.

    Gives how many requests were made for it.

    Raises VoidedError when the Mysis was stopped meanwhile, BudgetSpentError where a
    budget has no room, and ModelError where the provider is out of order: then the
    turn's own call would fail no less.
    """
    await cross(records.doing, begun, "summarising")
    making = Making(
        begun,
        endpoint,
        tools,
        await cross(summaries.wanted, view),
        Effort(begun.number, begun.model),
    )
    try:
        await _make(making)
    except (ModelError, VoidedError, BudgetSpentError):
        raise
    except Exception as error:
        # Whatever it is, it must not come back with every turn.
        if not isinstance(error, Outdated):
            logger.exception("A summary failed", exc_info=error)
        making.failure = str(error) or type(error).__name__
    if not making.done:
        failed = (begun, making.wanted, making.failure, making.effort)
        await cross(summaries.fail, *failed)
    return making.effort.attempts


async def _make(making: Making) -> None:
    while making.effort.attempts < ATTEMPTS and not making.hopeless:
        text = await _attempt(making)
        if text:
            made = (making.begun, making.wanted, text, making.effort)
            await cross(summaries.commit, *made)
            making.done = True
            return


async def _attempt(making: Making) -> str:
    """One request; empty, with a reason noted, where it gave no good summary."""
    making.effort.attempts += 1
    last = making.effort.attempts >= ATTEMPTS
    try:
        text = _read(await _ask(making))
        summaries.check(text, making.wanted, with_literals=not last)
        return text
    except SummaryRefused as error:
        making.failure = str(error)
        making.correction = CORRECTION.format(reason=error)
    except ModelError as error:
        if not _was_too_long(error):
            raise
        making.failure = str(error)
        if not last:
            await _fold_less(making)
    return ""


def _was_too_long(error: ModelError) -> bool:
    too_slow = isinstance(error, ModelTimeoutError)
    return too_slow or is_overflow(error) or error.status in TOO_LONG


async def _fold_less(making: Making) -> None:
    """Ask for the older half only: the request was too long, or took too long.

    What is left out of it stays in the view, so no order is lost. Where less is not
    worth a summary, the same request is not made again.
    """
    half = max(1, making.wanted.folded // 2)
    view = await cross(calls.look, making.begun, fold_tokens=half)
    if view.assembly.summary_wanted:
        making.wanted = await cross(summaries.wanted, view)
    else:
        making.hopeless = True


async def _ask(making: Making) -> Completion:
    wanted = making.wanted
    request = _request(wanted, making.correction)
    wish = Wish(
        making.endpoint,
        making.effort.attempts,
        wanted.count(json.dumps(request)),
        wanted.limit,
        summary=True,
    )
    opened = await cross(calls.open_summary, making.begun, wish)
    answer, latency = await ask(
        making.endpoint,
        opened,
        messages=request,
        system=wanted.system,
        tools=making.tools,
        settings=_settings(making.begun.model_settings, wanted.limit),
    )
    making.effort.add(
        tokens=(answer.usage.input, answer.usage.output, answer.usage.cached),
        cost=answer.cost,
        latency_ms=latency,
    )
    await cross(answers.record_usage, opened, answer, latency)
    return answer


def _settings(own: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The Mysis's own settings; a short limit of its answers must not cut a summary."""
    settings = {**own, "timeout": SECONDS}
    most = own.get("max_tokens")
    if isinstance(most, int):
        settings["max_tokens"] = max(most, limit + MARGIN)
    return settings


def _request(wanted: Wanted, correction: str) -> list[dict[str, Any]]:
    """The request; after a refusal with the reason at its very end."""
    if not correction:
        return wanted.request
    *before, prompt = wanted.request
    content = prompt["content"]
    if isinstance(content, str):
        return [*before, {**prompt, "content": content + correction}]
    block = {"type": "text", "text": correction.strip()}
    return [*before, {**prompt, "content": [*content, block]}]


def _read(answer: Completion) -> str:
    if answer.tool_calls:
        raise SummaryRefused("The answer calls a tool in place of a summary.")
    return read_summary(answer.text)
