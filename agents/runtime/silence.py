"""Answers with neither a word nor a call: why, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from agents.llm.types import Completion

REASONS: Mapping[str, str] = {
    "length": (
        "The answer was cut off at its token limit before any word or call. Raise "
        "max_tokens in the model settings, or lower the reasoning effort."
    ),
    "content_filter": (
        "The provider's content filter withheld the answer. Look at the newest "
        "messages of the turn's context, or choose another model."
    ),
}
OTHER = (
    "The model answered neither a word nor a call (finish reason: {reason}). Look at "
    "the turn's context, or choose another model."
)


def silence(answer: Completion, *, acted: bool) -> str:
    """Why an answer says nothing; empty where it says something.

    After calls that worked, an end without words is a good end: many models do so.
    """
    if answer.text.strip() or answer.tool_calls:
        return ""
    if answer.finish_reason in REASONS:
        return REASONS[answer.finish_reason]
    return "" if acted else OTHER.format(reason=answer.finish_reason or "none")
