"""What Daphne lacks: back-pressure, close reasons of WebSockets, bounded uploads.

Daphne hands every frame and every piece of an answer to the transport and never waits, so
a client that does not read makes the process grow. Here a consumer finds ``scope["flow"]``,
which tells whether the transport still takes data, and which also sends many small messages
without the detour through the server. An answer over HTTP waits by itself, and a client that
reads nothing of it for as long as one of a socket may is cut off.

An application that fails after its answer has begun makes Daphne begin another one, which
fails as well and ends the task that forgets closed connections. Here such a failure ends
its own connection, and so does any other in what Daphne does for one from time to time.

Daphne stores a whole request on disk before anybody looks at it, and then holds all of
it in memory. Here it stores no more than the largest body of its route and one byte, by
which the route sees that there was more, and few large bodies at the same time. The rest
is read and dropped: a client that is cut off while it sends could not read the answer
that says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any
from urllib.parse import unquote

from daphne import http_protocol
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings

from agents import process_memory
from zoea.api.gate import LARGER, MAX_BYTES, NO_ROOM
from zoea.auth import PREFIX, read_bearer
from zoea.proxies import HSTS, App, Scope, list_headers

# Bytes that the kernel may hold for one client beside the 64 KiB of the transport.
SEND_BUFFER = 128 * 1024
# A client that takes nothing for so many seconds does not read any more.
STALLED = 10.0
# Bytes of an answer that is large.
LARGE_ANSWER = 1024 * 1024
# Seconds that a client which does not read gets for the last that it is sent.
LAST_WORDS = 30
MAX_REASON = 123
FINAL_TEXT = 0x81
# One event goes to all clients at nearly the same time, so few are enough.
KEPT_FRAMES = 64
# Large bodies that are received or worked on at the same time, and the seconds after
# which one that is still coming makes way for another.
LARGE_ROOMS = 2
LONGEST_UPLOAD = 60.0
# One byte more than the largest of other bodies.
SMALL_ROOM = MAX_BYTES + 1

logger = logging.getLogger(__name__)


def install() -> None:
    """Make every Daphne of this process use ``FlowProtocol`` and ``BoundedRequest``."""
    WebSocketFactory.protocol = FlowProtocol
    http_protocol.WebRequest = BoundedRequest


def with_flow(app: App) -> App:
    """Put the connection's flow into ``scope["flow"]``; None under another server."""

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        await app({**scope, "flow": _current.get()}, receive, send)

    return wrapped


def with_patience(app: App) -> App:
    """Send an answer as fast as it is read; what a large one took of memory goes back."""

    async def wrapped(scope: Scope, receive: Any, send: Any) -> None:
        request, sent = _answered.get(), 0

        async def send_when_read(message: Any) -> None:
            nonlocal sent
            sent += len(message.get("body", b""))
            if request is not None and not await request.flow.is_read():
                request.cut_off()
            await send(message)

        try:
            await app(scope, receive, send_when_read)
        finally:
            if sent > LARGE_ANSWER:
                process_memory.collect_large()
                process_memory.trim()

    return wrapped


def _ends_alone(act: Callable[..., None]) -> Callable[..., None]:
    """Let a fault end the connection that it came of, and nothing else of the server."""

    @wraps(act)
    def wrapped(protocol: Any, *args: Any) -> None:
        try:
            act(protocol, *args)
        except Exception:
            logger.exception("A connection failed.")
            if protocol.transport is not None:
                protocol.transport.abortConnection()

    return wrapped


class Flow:
    """Whether a transport takes more data; a push producer in Twisted's terms."""

    def __init__(self, write: Callable[[bytes], None] | None = None) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._write = write

    def send(self, *texts: str) -> bool:
        """Send texts straight to the transport; False where they must go through ASGI.

        For each client the way through ASGI costs more than all else, and the frames
        are the same for every client of a process.
        """
        if self._write is None:
            return False
        self._write(_encode_frames(texts))
        return True

    @property
    def is_open(self) -> bool:
        """Whether more may be sent at once."""
        return self._open.is_set()

    async def drained(self) -> None:
        """Wait until the transport has sent what it holds, or is gone."""
        await self._open.wait()

    async def is_read(self) -> bool:
        """Wait until more may be sent; False where the client takes nothing for too long."""
        if self.is_open:
            return True
        try:
            await asyncio.wait_for(self.drained(), STALLED)
        except TimeoutError:
            return False
        return True

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._open.clear()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty again."""
        self._open.set()

    def stopProducing(self) -> None:
        """The connection is lost."""
        self._open.set()


class FlowProtocol(WebSocketProtocol):  # type: ignore[misc]
    """A Daphne WebSocket whose application can wait for its client."""

    flow: Flow
    handle_exception = _ends_alone(WebSocketProtocol.handle_exception)
    check_timeouts = _ends_alone(WebSocketProtocol.check_timeouts)

    def onConnect(self, request: Any) -> Any:
        """Start the application, whose task inherits the context variable."""
        self.flow = Flow(self._write_frame)
        token = _current.set(self.flow)
        try:
            return super().onConnect(request)
        finally:
            _current.reset(token)

    def onOpen(self) -> None:
        """Register the flow in place of the HTTP channel that was upgraded."""
        super().onOpen()
        self.transport.unregisterProducer()
        self.transport.registerProducer(self.flow, True)
        _limit_kernel(self.transport)

    def _write_frame(self, frame: bytes) -> None:
        if self.state != self.STATE_OPEN:
            return
        rest = frame[_send_now(self.transport, frame) :]
        if rest:
            self.transport.write(rest)

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Do as Daphne does, but let a close frame carry any code and a reason."""
        opened = self.state == self.STATE_OPEN
        if message.get("type") != "websocket.close" or not opened:
            super().handle_reply(message)
            return
        if not self.flow.is_open:
            self.closeHandshakeTimeout = LAST_WORDS
        # Not sendClose: it refuses 1011 and 1013, which mean "come back".
        self.sendCloseFrame(
            code=message.get("code") or 1000,
            reasonUtf8=_clip_reason(message.get("reason") or ""),
        )


class BoundedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """A Daphne request that stores one byte more than its route takes at most.

    Its answer waits for its client, and ends with its connection where it cannot go on.
    """

    room = SMALL_ROOM
    stored = 0
    is_complete = False
    check_timeouts = _ends_alone(http_protocol.WebRequest.check_timeouts)

    def gotLength(self, length: int | None) -> None:
        """Find out how much is stored: the headers have come, the body has not."""
        super().gotLength(length)
        self.requestHeaders.removeHeader(NO_ROOM)
        self.room = self._find_most_bytes() + 1

    def _find_most_bytes(self) -> int:
        if not self._names_somebody():
            # A stranger is refused anyhow.
            return MAX_BYTES
        # The request learns its own path only after the body.
        path = unquote(self.channel._path.partition(b"?")[0])
        return LARGER.get(path, MAX_BYTES)

    def _names_somebody(self) -> bool:
        """Whether it brings a token or a session; whether they are right is seen later."""
        tokens = self.requestHeaders.getRawHeaders("authorization", [])
        return settings.SESSION_COOKIE_NAME.encode() in self.received_cookies or any(
            read_bearer(each).startswith(PREFIX) for each in tokens
        )

    def handleContentChunk(self, data: bytes) -> None:
        """Store what there is room for; drop the rest."""
        if self.stored + len(data) > SMALL_ROOM < self.room and not rooms.take(self):
            self.refuse_room()
        kept = data[: max(0, self.room - self.stored)]
        if kept:
            self.stored += len(kept)
            super().handleContentChunk(kept)

    def refuse_room(self) -> None:
        """Keep as little as of any other body, and let the route say why."""
        self.room = SMALL_ROOM
        self.stored = min(self.stored, SMALL_ROOM)
        self.content.truncate(self.stored)
        self.content.seek(self.stored)
        self.requestHeaders.setRawHeaders(NO_ROOM, ["1"])

    def process(self) -> Any:
        """Hand the request on: all of it has come. Its application knows it by context."""
        self.is_complete = True
        self.flow = Flow()
        token = _answered.set(self)
        try:
            return super().process()
        finally:
            _answered.reset(token)

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Do as Daphne does, and listen to the transport from the answer's begin on."""
        gone = self.finished or self.channel is None
        if message.get("type") == "http.response.start" and not (gone or self.producer):
            _limit_kernel(self.transport)
            self.registerProducer(self.flow, True)
            # Of the answer before this one, which nobody has read yet.
            if self.channel._waitingForTransport:
                self.flow.pauseProducing()
        super().handle_reply(message)

    @_ends_alone
    def handle_exception(self, exception: BaseException) -> None:
        """Answer 500, or end an answer that has begun: its client sees it is not whole."""
        if self._response_started:
            self.cut_off()
        else:
            super().handle_exception(exception)

    def basic_error(self, *args: Any) -> None:
        """Answer what no application does, with the headers of all answers."""
        for name, value in list_headers():
            if name != HSTS:
                self.responseHeaders.setRawHeaders(name, [value])
        super().basic_error(*args)

    def cut_off(self) -> None:
        """End the connection, and forget what is not sent."""
        self.transport.abortConnection()

    def finish(self) -> None:
        """End the answer; what much data took of memory goes back."""
        channel = self.channel
        self.unregisterProducer()
        super().finish()
        if not channel.persistent:
            # Twisted would wait for ever until the rest is read.
            channel.setTimeout(LAST_WORDS)
        if rooms.give_back(self):
            process_memory.trim()

    def connectionLost(self, reason: Any) -> None:
        """Forget the request; its application waits for nobody any more."""
        if self.is_complete:
            self.flow.stopProducing()
        rooms.give_back(self)
        super().connectionLost(reason)


class LargeRooms:
    """Who has room for a large body: a few requests of this process at a time."""

    def __init__(self) -> None:
        self._since: dict[BoundedRequest, float] = {}

    def take(self, request: BoundedRequest) -> bool:
        """Give a request room, also that of one that has been sending for too long."""
        if request in self._since:
            return True
        if len(self._since) >= LARGE_ROOMS:
            self._end_longest_upload()
        if len(self._since) >= LARGE_ROOMS:
            return False
        self._since[request] = time.monotonic()
        return True

    def give_back(self, request: BoundedRequest) -> bool:
        """Take the room of a request away; False where it had none."""
        return self._since.pop(request, None) is not None

    def _end_longest_upload(self) -> None:
        limit = time.monotonic() - LONGEST_UPLOAD
        for request, since in self._since.items():
            if since < limit and not request.is_complete:
                request.refuse_room()
                self.give_back(request)
                return


rooms = LargeRooms()

_current: ContextVar[Flow | None] = ContextVar("flow", default=None)
_answered: ContextVar[BoundedRequest | None] = ContextVar("answered", default=None)


def _limit_kernel(transport: Any) -> None:
    """Have the kernel hold little for a client, so that it shows soon whether it reads."""
    handle = getattr(transport, "socket", None)
    if handle is not None:
        with contextlib.suppress(OSError):
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)


def _send_now(transport: Any, data: bytes) -> int:
    """Hand data to the kernel; returns how many bytes it took.

    The transport itself would wait for its reactor before every frame, which costs
    several times as much as sending it. While the transport holds data, which goes
    first, and for a transport of another kind, this sends nothing.
    """
    # An unknown transport counts as one that holds something.
    held = getattr(transport, "_tempDataLen", 1) or len(transport.dataBuffer)
    if held or not transport.connected or transport.disconnecting:
        return 0
    sent = transport.writeSomeData(data)
    # For a lost connection it is an object, not a number.
    return sent if isinstance(sent, int) else 0


@lru_cache(maxsize=KEPT_FRAMES)
def _encode_frames(texts: tuple[str, ...]) -> bytes:
    """The frames of some texts, to be sent in one write."""
    return b"".join(map(_encode_frame, texts))


def _encode_frame(text: str) -> bytes:
    """A text as one unmasked, uncompressed frame (RFC 6455, section 5.2)."""
    payload = text.encode()
    size = len(payload)
    if size < 126:
        return bytes((FINAL_TEXT, size)) + payload
    if size < 2**16:
        return bytes((FINAL_TEXT, 126)) + size.to_bytes(2, "big") + payload
    return bytes((FINAL_TEXT, 127)) + size.to_bytes(8, "big") + payload


def _clip_reason(reason: str) -> bytes | None:
    """Cut a reason to what a close frame may carry; None for none."""
    short = reason.encode()[:MAX_REASON].decode(errors="ignore")
    return short.encode() or None
