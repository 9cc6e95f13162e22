"""Which version of the game this is."""

from __future__ import annotations

from typing import Any

VERSION = "0.56.0"
RELEASE: dict[str, Any] = {
    "version": VERSION,
    "release_date": "2026-02-10",
    "notes": [
        "A local game for practice: one small galaxy, the same rules for everybody.",
        "Actions are queued and carried out at the next tick; "
        "call get_notifications to learn what came of them.",
    ],
}
