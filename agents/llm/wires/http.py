"""The HTTP client of a call."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2

CONNECT_SECONDS = 10.0


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates takes longer than everything else: done once."""
    return httpx2.create_ssl_context()


def client() -> httpx2.AsyncClient:
    """A client for one call, to be closed after it.

    A connection per call costs little beside a model's answer, and nothing is left
    open in an event loop that ends. The whole call has its deadline elsewhere.
    """
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    return httpx2.AsyncClient(verify=_tls(), timeout=timeout, follow_redirects=True)
