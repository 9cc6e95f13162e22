"""What Daphne's WebSockets lack here: back-pressure, and close reasons.

Daphne hands every frame to the transport and never waits, so a client that does
not read makes the process grow. This protocol tells the application whether the
transport still takes data: the consumer finds ``scope["flow"]`` and waits. By it a
consumer of many small messages also sends them, without the way through the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from daphne import http_protocol
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

from zoea.api.gate import LARGEST

App = Callable[[Any, Any, Any], Awaitable[None]]

# What the kernel may hold for one client beside the 64 KiB of the transport.
SEND_BUFFER = 128 * 1024
# A client that was dropped for not reading gets this long to read why.
LAST_WORDS = 30
MAX_REASON = 123
FINAL_TEXT = 0x81
# As one event goes to all clients at nearly the same time, few have to be kept.
KEPT_FRAMES = 64

_current: ContextVar[Flow | None] = ContextVar("flow", default=None)


class Flow:
    """Whether a socket's transport takes more data just now.

    A push producer in Twisted's terms, of which only the pauses matter.
    """

    def __init__(self, write: Callable[[bytes], None] | None = None) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._write = write

    def send(self, *texts: str) -> bool:
        """Send texts straight to the transport; False where they must go by ASGI.

        The way through the consumer, the server and the protocol costs more for each
        client than all else; the frames are the same for every client of a process.
        """
        if self._write is None:
            return False
        self._write(frames_of(texts))
        return True

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
        self.flow = Flow(self._write_frame)
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

    def _write_frame(self, frame: bytes) -> None:
        if self.state != self.STATE_OPEN:
            return
        rest = frame[send_now(self.transport, frame) :]
        if rest:
            self.transport.write(rest)

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


def send_now(transport: Any, data: bytes) -> int:
    """Hand data to the kernel; how many bytes of it it took.

    The transport itself would wait until its reactor says that the socket takes more,
    for every frame anew, which costs several times as much as to send it. What it holds
    already goes first, so then, and for a transport of another kind, nothing is taken.
    """
    # An unknown transport counts as one that holds something.
    held = getattr(transport, "_tempDataLen", 1) or len(transport.dataBuffer)
    if held or not transport.connected or transport.disconnecting:
        return 0
    sent = transport.writeSomeData(data)
    # A lost connection is told by an object in place of a number.
    return sent if isinstance(sent, int) else 0


@lru_cache(maxsize=KEPT_FRAMES)
def frames_of(texts: tuple[str, ...]) -> bytes:
    """Each text as a frame, all of them to be sent in one write."""
    return b"".join(map(frame_of, texts))


def frame_of(text: str) -> bytes:
    """A text as a whole, unmasked and uncompressed frame (RFC 6455, section 5.2)."""
    payload = text.encode()
    size = len(payload)
    if size < 126:
        return bytes((FINAL_TEXT, size)) + payload
    if size < 2**16:
        return bytes((FINAL_TEXT, 126)) + size.to_bytes(2, "big") + payload
    return bytes((FINAL_TEXT, 127)) + size.to_bytes(8, "big") + payload


def clip(reason: str) -> bytes | None:
    """A reason within what a close frame may carry; None for none."""
    short = reason.encode()[:MAX_REASON].decode(errors="ignore")
    return short.encode() or None


def with_flow(app: App) -> App:
    """Give the application its connection's flow; None under another server."""

    async def wrapped(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await app({**scope, "flow": _current.get()}, receive, send)

    return wrapped


def install_flow() -> None:
    """Let every Daphne of this process speak through ``FlowProtocol``."""
    WebSocketFactory.protocol = FlowProtocol


# SECTION What Daphne's HTTP lacks here: an end to what it takes in.
#
# Daphne keeps a whole request on disk before anybody looks at it, also a stranger's. This
# keeps no more than the largest body that any route takes, and one byte, by which the
# route sees that there was more. The rest is read and let go of: who would be cut off in
# the middle of sending could not read the answer that says why.


class BoundedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """A Daphne request of which only so much is kept."""

    kept = 0

    def handleContentChunk(self, data: bytes) -> None:
        """Keep what there is room for."""
        room = LARGEST + 1 - self.kept
        if room > 0:
            self.kept += min(room, len(data))
            super().handleContentChunk(data[:room])


def install_intake() -> None:
    """Let every Daphne of this process take in requests so."""
    http_protocol.WebRequest = BoundedRequest
