"""The HTTP client of a call, whose answers are bounded in size."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import cache

import httpx2

CONNECT_SECONDS = 10.0
LARGEST = 4_000_000
"""Bytes of an answer that are read. The longest that models write are under 1 MB."""


class TooLargeError(Exception):
    """An answer is larger than any completion; the rest of it is not read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most:,} bytes")


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates takes longer than everything else: done once."""
    return httpx2.create_ssl_context()


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error instead of filling the memory."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._most:
                raise TooLargeError(self._most)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def client(most: int = LARGEST) -> httpx2.AsyncClient:
    """A client for one call, to be closed after it.

    A connection per call costs little beside a model's answer, and nothing is left
    open in an event loop that ends. The whole call has its deadline elsewhere.
    """

    async def bound(response: httpx2.Response) -> None:
        # A packed body of a few bytes could unpack to gigabytes; none was asked for.
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise httpx2.RemoteProtocolError("the answer is packed without being asked")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, most)

    return httpx2.AsyncClient(
        verify=_tls(),
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        follow_redirects=True,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [bound]},
    )
