"""What was answered to a recorded call, and whether another answer calls the same."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agents.llm.model_types import Completion
from memory.assembly.log_rows import read_rows_by_id, to_message
from memory.context.types import Message, ToolCall
from memory.game_calls import is_secret_call
from memory.gamestate.values import parse_text, repair_text
from memory.models import Memory, Role, SentContext
from memory.models.secret_tools import read_secret_tools
from memory.redaction import HIDDEN, hide_secrets
from memory.search.results import hide_row_secrets

# Characters of a text that a step keeps, and of a value that a difference names.
LONGEST_TEXT, LONGEST_VALUE = 100_000, 80
OTHER_ARGUMENTS = "has other arguments"


class Called(NamedTuple):
    """A tool call as it is compared, and as a step keeps it where it may be shown."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What a call brought: ``message`` as views have it, None where it said nothing.

    ``document`` is what a step keeps of it.
    """

    message: Message | None
    calls: tuple[Called, ...]
    document: dict[str, Any]

    def with_made(self, answer: Completion) -> Message | None:
        """The message as it would stand in the log if it had been said otherwise.

        Its calls keep their recorded ids, by which their results name them.
        """
        if self.message is None:
            return None
        pairs = zip(self.message.tool_calls, answer.tool_calls, strict=True)
        return replace(
            self.message,
            content=answer.text,
            reasoning=answer.reasoning or None,
            signature=answer.signature,
            signed=bool(answer.signature),
            tool_calls=tuple(replace(made, id=then.id) for then, made in pairs),
        )


def read_answer(sent: SentContext, until: int) -> RecordedAnswer | None:
    """What a call was answered, among the messages up to an id; None where nothing was."""
    call = sent.call
    if call.error:
        return None
    rows = Memory.objects.filter(
        mysis_id=sent.mysis_id,
        turn_id=call.turn_id,
        role=Role.ASSISTANT,
        pk__gt=sent.last_id or 0,
        pk__lte=until,
    )
    row = rows.order_by("pk").first()
    if row is None and not call.output_tokens:
        return None
    message = to_message(read_rows_by_id([row.pk])[row.pk]) if row else None
    shown = hide_row_secrets(row, read_secret_tools()) if row else None
    called = tuple(read_called(message.tool_calls if message else ()))
    document = {
        **_describe_said(
            shown.content if shown else "", shown.reasoning if shown else "", called
        ),
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "cached_tokens": call.cached_tokens,
        "cost": str(call.cost),
        "latency_ms": call.latency_ms,
    }
    return RecordedAnswer(message, called, document)


def describe_made(answer: Completion, latency_ms: int) -> dict[str, Any]:
    """What a step keeps of an answer that was made."""
    used = answer.usage
    return {
        **_describe_said(answer.text, answer.reasoning, read_called(answer.tool_calls)),
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cached_tokens": used.cached,
        "cost": str(answer.cost),
        "latency_ms": latency_ms,
    }


def _describe_said(
    text: str, reasoning: str, calls: Sequence[Called]
) -> dict[str, Any]:
    return {
        "text": hide_secrets(repair_text(text))[:LONGEST_TEXT],
        "reasoning": hide_secrets(repair_text(reasoning))[:LONGEST_TEXT],
        "calls": [call._asdict() for call in hide_called(calls, read_secret_tools())],
    }


def hide_called(calls: Iterable[Called], secret: Collection[str]) -> list[Called]:
    """Calls as they may be shown: those of secret tools without their arguments (A11)."""
    return [
        call._replace(arguments=HIDDEN) if is_secret_call(*call, secret) else call
        for call in calls
    ]


def read_called(calls: Sequence[ToolCall]) -> list[Called]:
    """Calls as they are compared: without secrets, as the log has them."""
    return [
        Called(repair_text(call.name), hide_secrets(repair_text(call.arguments)))
        for call in calls
    ]


# --- The same calls or not


def find_difference(
    recorded: Sequence[Called], made: Sequence[Called], secret: Collection[str] = ()
) -> str:
    """Why these are not the same calls in the same order; empty where they are.

    The order and the spelling of arguments do not count. Of calls of ``secret`` tools
    no value is named.
    """
    for place, (then, now) in enumerate(zip(recorded, made, strict=False), 1):
        if then.name != now.name:
            return f"Call {place} is {now.name}; recorded was {then.name}."
        if (words := _compare_arguments(then.arguments, now.arguments)) is not None:
            if any(is_secret_call(*call, secret) for call in (then, now)):
                words = OTHER_ARGUMENTS
            return f"Call {place}, {now.name}, {words}."
    if len(recorded) == len(made):
        return ""
    if not made:
        return f"It calls nothing; recorded was {_list_names(recorded)}."
    if not recorded:
        return f"It calls {_list_names(made)}; recorded was no call."
    return f"It makes {len(made)} calls; recorded were {len(recorded)}."


def _list_names(calls: Sequence[Called]) -> str:
    return ", ".join(call.name for call in calls)


def _compare_arguments(then: str, now: str) -> str | None:
    """What differs between two texts of arguments; None where they say the same."""
    before, after = parse_text(then or "{}"), parse_text(now or "{}")
    if _spell(before) == _spell(after):
        return None
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return OTHER_ARGUMENTS
    for name in {**before, **after}:
        if _spell(before.get(name)) != _spell(after.get(name)):
            now_given = _quote(after, name)
            return f"has {name} {now_given}; recorded was {_quote(before, name)}"
    return OTHER_ARGUMENTS


def _quote(arguments: Mapping[str, Any], name: str) -> str:
    if name not in arguments:
        return "not given"
    text = json.dumps(arguments[name], ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _spell(value: Any) -> str:
    """A value as a text that is the same for the same value: 2.0 is 2, true is not 1."""
    return json.dumps(_round(value), sort_keys=True)


def _round(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _round(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_round(each) for each in value]
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole else value
