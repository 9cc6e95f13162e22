"""One message on its way in or out: what a row holds beside its place in the log."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memory.context.types import DEFAULT_ORIGINS, ROLES
from memory.gamestate.parse import storable


class TransferError(Exception):
    """A history that cannot be read or stored; one line that says where and why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One message. ``created_at`` is None where the source does not tell it.

    ``broadcast_at`` is when the broadcast that it delivers was sent, ``raw`` the same
    message with its secrets, where it held some.
    """

    role: str
    origin: str
    content: str = ""
    sender: str = ""
    reasoning: str = ""
    signature: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tool_call_id: str = ""
    tool_name: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False
    pending: bool = False
    tick: int | None = None
    created_at: datetime | None = None
    broadcast_at: datetime | None = None
    raw: Line | None = None


def default_origin(role: str) -> str:
    """The origin that a role suggests; the role is one of the known ones."""
    return next(DEFAULT_ORIGINS[known] for known in ROLES if known == role)


def call_of(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call as rows hold it."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def object_of(value: object) -> dict[str, Any]:
    """A JSON object, of itself or of its text; empty for everything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    kept = storable(value)
    return kept if isinstance(kept, dict) else {}


# As databases of Go programs write it, with or without a fraction and a zone.
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?\s*"
    r"(Z|[+-]\d\d:?\d\d)?(?:\s+\w+)?(?:\s+m=\S+)?"
)


def moment(value: object) -> datetime | None:
    """A point in time, of a text or of seconds since 1970; None for neither."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        found = _MOMENT.fullmatch(str(value).strip())
        if found is None:
            return None
        day, time, fraction, zone = found.groups()
        micros = f"{(fraction or '0')[:6]:0<6}"
        zone = "+00:00" if zone in (None, "Z") else zone
        return datetime.fromisoformat(f"{day}T{time}.{micros}{zone}")
    except (ValueError, OverflowError, OSError):
        return None
