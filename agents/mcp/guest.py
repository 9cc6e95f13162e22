"""Who asks over MCP, as the gate in front has found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guest:
    """A caller. ``by`` is how the log names them, ``role`` what they are.

    ``may_send``: whether they may write to Myses. ``throttle`` counts one write and
    gives the seconds to wait before it may be done, 0 for none.
    """

    by: str
    role: str
    may_send: bool
    throttle: Callable[[], float]
