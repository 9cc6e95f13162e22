"""The queue of a game session: what happened and was not read yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

QUEUE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Event:
    """What happened, in the words of a notification that has no recipient yet."""

    data: dict[str, Any]
    msg_type: str = "ok"
    category: str = "system"


@dataclass(frozen=True, slots=True)
class Notification:
    """One event; `type` is its category, `msg_type` says what happened."""

    id: str
    type: str
    timestamp: str
    msg_type: str
    data: dict[str, Any]

    def view(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "timestamp": self.timestamp,
            "msg_type": self.msg_type,
            "data": self.data,
        }


@dataclass(slots=True)
class Mailbox:
    """Holds the last hundred notifications; the oldest gives way."""

    waiting: deque[Notification] = field(
        default_factory=lambda: deque(maxlen=QUEUE_LENGTH)
    )

    def put(self, notification: Notification) -> None:
        self.waiting.append(notification)

    def read(
        self, limit: int, types: Collection[str], clear: bool
    ) -> tuple[list[Notification], int]:
        """Give the oldest of the wanted types, and how many of them are left."""
        wanted = [item for item in self.waiting if not types or item.type in types]
        given = wanted[:limit]
        if clear:
            gone = {id(item) for item in given}
            kept = [item for item in self.waiting if id(item) not in gone]
            self.waiting.clear()
            self.waiting.extend(kept)
        return given, len(wanted) - len(given)
