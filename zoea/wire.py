"""What Daphne's WebSockets lack here: back-pressure, and close reasons.

Daphne hands every frame to the transport and never waits, so a client that does
not read makes the process grow. This protocol tells the application whether the
transport still takes data: the consumer finds ``scope["flow"]`` and waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

App = Callable[[Any, Any, Any], Awaitable[None]]

# What the kernel may hold for one client beside the 64 KiB of the transport.
SEND_BUFFER = 128 * 1024
# A client that was dropped for not reading gets this long to read why.
LAST_WORDS = 30
MAX_REASON = 123

_current: ContextVar[Flow | None] = ContextVar("flow", default=None)


class Flow:
    """Whether a socket's transport takes more data just now.

    A push producer in Twisted's terms, of which only the pauses matter.
    """

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        """Whether more may be sent at once."""
        return self._open.is_set()

    async def drained(self) -> None:
        """Wait until the transport has sent what it holds, or is gone."""
        await self._open.wait()

    def pauseProducing(self) -> None:
        """Called by the transport when its buffer is full."""
        self._open.clear()

    def resumeProducing(self) -> None:
        """Called by the transport when its buffer is empty again."""
        self._open.set()

    def stopProducing(self) -> None:
        """Called by the transport when the connection is lost."""
        self._open.set()


class FlowProtocol(WebSocketProtocol):  # type: ignore[misc]
    """A Daphne WebSocket whose application can wait for its client."""

    flow: Flow

    def onConnect(self, request: Any) -> Any:
        """Start the application; its task inherits the context set here."""
        self.flow = Flow()
        token = _current.set(self.flow)
        try:
            return super().onConnect(request)
        finally:
            _current.reset(token)

    def onOpen(self) -> None:
        """Put the flow in the place of the HTTP channel that was upgraded."""
        super().onOpen()
        self.transport.unregisterProducer()
        self.transport.registerProducer(self.flow, True)
        handle = getattr(self.transport, "socket", None)
        if handle is not None:
            with contextlib.suppress(OSError):
                handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def handle_reply(self, message: dict[str, Any]) -> None:
        """As Daphne does, but a close frame carries any code and its reason."""
        opened = self.state == self.STATE_OPEN
        if message.get("type") != "websocket.close" or not opened:
            super().handle_reply(message)
            return
        if not self.flow.is_open:
            self.closeHandshakeTimeout = LAST_WORDS
        # Not sendClose: that one refuses 1011 and 1013, which mean "come back".
        self.sendCloseFrame(
            code=message.get("code") or 1000,
            reasonUtf8=clip(message.get("reason") or ""),
        )


def clip(reason: str) -> bytes | None:
    """A reason within what a close frame may carry; None for none."""
    short = reason.encode()[:MAX_REASON].decode(errors="ignore")
    return short.encode() or None


def with_flow(app: App) -> App:
    """Give the application its connection's flow; None under another server."""

    async def wrapped(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await app({**scope, "flow": _current.get()}, receive, send)

    return wrapped


def install() -> None:
    """Let every Daphne of this process speak through ``FlowProtocol``."""
    WebSocketFactory.protocol = FlowProtocol
