"""The two ways in which the game writes a moment."""

from __future__ import annotations

from datetime import UTC, datetime

_NS = 1_000_000_000
NEVER = "0001-01-01T00:00:00Z"


def rfc3339(now_ns: int) -> str:
    """Write nanoseconds since 1970 the way Go does, without trailing zeros."""
    seconds, fraction = divmod(now_ns, _NS)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}".rstrip("0")
    return f"{moment}.{digits}Z" if digits else f"{moment}Z"


def plain(now_ns: int) -> str:
    """Write nanoseconds since 1970 as in the captain's log and the map."""
    return datetime.fromtimestamp(now_ns // _NS, UTC).strftime("%Y-%m-%d %H:%M:%S")
