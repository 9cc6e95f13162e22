"""A browser's share of HTTP: one site, its cookies, and bodies as they travel."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

SECONDS = 20


@dataclass(frozen=True)
class Answer:
    """What came over the wire: ``sent`` bytes, and the same unpacked."""

    url: str
    sent: int
    body: bytes


class Visitor:
    """Fetches from one site, with its cookies, and ``headers`` of one's own."""

    def __init__(self, site: str, headers: Mapping[str, str] = {}) -> None:
        self.site = site
        self._headers = {"Accept-Encoding": "gzip", **headers}
        self._opener: OpenerDirector = build_opener(HTTPCookieProcessor())

    def get(self, path: str) -> Answer:
        """GET a path or an address, compressed where the server can."""
        url = urljoin(self.site, path)
        request = Request(url, headers=self._headers)  # noqa: S310 (our own address)
        with self._opener.open(request, timeout=SECONDS) as response:
            raw: bytes = response.read()
            packed = response.headers.get("Content-Encoding", "") == "gzip"
            return Answer(response.url, len(raw), unpack(raw) if packed else raw)

    def json(self, path: str) -> Any:
        """GET a JSON document."""
        return json.loads(self.get(path).body)

    def items(self, path: str) -> list[dict[str, Any]]:
        """All the items of a list of the API, page after page."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.json(f"{path}?limit=200{cursor}")
            found += page["items"]
            if page["next"] is None:
                return found
            cursor = f"&cursor={page['next']}"


def unpack(body: bytes) -> bytes:
    """The content of a gzip body."""
    return zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
