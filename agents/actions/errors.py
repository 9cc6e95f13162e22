"""What a write is refused with, and the check of every text."""

from __future__ import annotations

from memory.gamestate.parse import clean_text as without_odd_characters

MAX_TEXT = 100_000


class ActionError(Exception):
    """A write that cannot be done: one sentence that names the remedy."""

    def __init__(self, detail: str, *, code: str, status: int = 409) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status


def clean_text(text: str, field: str) -> str:
    """Text as it is stored: valid, not empty, of a bounded length."""
    kept = without_odd_characters(text).replace("\r\n", "\n").replace("\r", "\n")
    if not kept.strip():
        raise ActionError(
            f"{field} is empty: write something.", code="empty", status=422
        )
    if len(kept) > MAX_TEXT:
        raise ActionError(
            f"{field} has {len(kept):,} characters, at most {MAX_TEXT:,} are taken.",
            code="too_long",
            status=422,
        )
    return kept
