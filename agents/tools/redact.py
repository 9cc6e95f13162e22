"""Keeps passwords and session ids out of what the game answers."""

from __future__ import annotations

from dataclasses import replace

from agents.tools.request import CallNext, Outcome, Request
from memory.redaction import HIDDEN, SECRET_KEYS, clean_text, clean_value

__all__ = ["HIDDEN", "SECRET_KEYS", "clean_text", "clean_value", "redact"]


async def redact(request: Request, call_next: CallNext) -> Outcome:
    """Take every secret out of what comes back."""
    outcome = await call_next(request)
    secrets = request.seat.secrets
    blocks = tuple(clean_text(block, secrets) for block in outcome.blocks)
    return replace(outcome, blocks=blocks)
