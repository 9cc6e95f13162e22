"""How a call of the game server can fail, told apart by what may have happened.

Refusals by the game itself (a full hold, a wrong name) are no errors here: they
are answers.
"""

from __future__ import annotations


class GameCallError(Exception):
    """A call that brought no answer. ``detail`` is one sentence for people."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class GameUnreachableError(GameCallError):
    """The server cannot be reached; nothing was executed.

    ``retry_after`` is in seconds, None where the server asked for nothing.
    """

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class SessionLostError(GameCallError):
    """The server no longer knows the MCP session; nothing was executed."""


class RateLimitedError(GameCallError):
    """The server asks to wait; nothing was executed. ``retry_after`` in seconds."""

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class ReplyLostError(GameCallError):
    """The call went out and no readable reply came: its outcome is unknown."""


class ProtocolRefusalError(GameCallError):
    """The server answered with a JSON-RPC error instead of a tool result."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code
