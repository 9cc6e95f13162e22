"""The HTTP client of a model call; its answers are bounded in size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache

import httpx2

CONNECT_SECONDS = 10.0

# Bytes of an answer that are read. The longest that models write are under 1 MB.
LARGEST = 4_000_000

# Once: it takes longer than everything else.
_load_certificates = cache(httpx2.create_ssl_context)


class TooLargeError(Exception):
    """An answer is larger than any completion; the rest of it is not read."""

    def __init__(self) -> None:
        super().__init__(f"more than {LARGEST:,} bytes")


class RedirectedError(httpx2.RemoteProtocolError):
    """An answer sends us elsewhere; ``address`` is where, without login and query.

    It is empty where the answer names none that can be read.
    """

    def __init__(self, url: httpx2.URL | None) -> None:
        self.address = _describe(url) if url is not None else ""
        super().__init__(f"redirects to {self.address or 'no address'}")


def _describe(url: httpx2.URL) -> str:
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.host}{port}{url.path}"


def open_client() -> httpx2.AsyncClient:
    """A client for one call, to be closed after it.

    A connection per call costs little beside a model's answer, and nothing is left
    open in an event loop that ends. The whole call has its deadline elsewhere.
    """

    async def bound(response: httpx2.Response) -> None:
        _refuse_redirect(response)
        # A packed body of a few bytes could unpack to gigabytes; none was asked for.
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise httpx2.RemoteProtocolError("the answer is packed without being asked")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream)

    return httpx2.AsyncClient(
        verify=_load_certificates(),
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [bound]},
    )


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error instead of filling the memory."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > LARGEST:
                raise TooLargeError
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _refuse_redirect(response: httpx2.Response) -> None:
    """Follow no redirect: key and messages are for the address that somebody typed."""
    if response.has_redirect_location:
        try:
            target = response.request.url.join(response.headers["Location"])
        except httpx2.InvalidURL:
            target = None
        raise RedirectedError(target)
