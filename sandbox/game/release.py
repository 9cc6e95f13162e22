"""Which version of the game this is."""

from __future__ import annotations

from typing import Any

VERSIONS = {"A": ("0.56.0", "2026-02-10"), "C": ("0.92.0", "2026-02-17")}
_HOW = {
    "A": "Actions are queued and carried out at the next tick; "
    "call get_notifications to learn what came of them.",
    "C": "An action answers when its tick has come, with what came of it.",
}


def release(era: str) -> dict[str, Any]:
    """The answer of get_version in an era."""
    version, date = VERSIONS[era]
    return {
        "version": version,
        "release_date": date,
        "notes": [
            "A local game for practice: one small galaxy, the same rules for everybody.",
            _HOW[era],
        ],
    }
