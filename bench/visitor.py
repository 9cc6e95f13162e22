"""A signed-in visitor of a running server: what they fetch, and where their sockets are."""

from __future__ import annotations

import gzip
import http.client
import re
import time
from contextlib import closing
from dataclasses import dataclass
from html import unescape
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

from bench.processes import Server

LIVE = re.compile(r'ws-connect="([^"]+)"')
#: What the page's script tells the socket: the versions of these parts.
PARTS = {"rows": "fleet-rows", "feed": "feed"}
PATIENCE = 60
#: How often each address is asked for, and the rest between two answers in seconds.
VISITS, PAUSE = 80, 0.15


@dataclass(frozen=True)
class Site:
    """Where the server is, and the session of who looks, with the name of its cookie."""

    server: Server
    session: str
    cookie_name: str

    @property
    def cookie(self) -> str:
        return f"{self.cookie_name}={self.session}"

    def get(self, path: str) -> bytes:
        """A page as it travels, over a connection of its own.

        Raises RuntimeError for any answer but 200.
        """
        web = http.client.HTTPConnection(
            "127.0.0.1", self.server.port, timeout=PATIENCE
        )
        with closing(web):
            headers = {"Cookie": self.cookie, "Accept-Encoding": "gzip"}
            web.request("GET", path, headers=headers)
            answer = web.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}.")
        return body

    def time_answers(self, *paths: str) -> dict[str, list[float]]:
        """Milliseconds of each answer, the paths in turn, none while another waits."""
        found: dict[str, list[float]] = {path: [] for path in paths}
        for _ in range(VISITS):
            for path in paths:
                begun = time.perf_counter()
                self.get(path)
                found[path].append((time.perf_counter() - begun) * 1000)
                time.sleep(PAUSE)
        return found

    def find_socket(self, path: str) -> str:
        """Load a page as a browser does; the address of its socket."""
        page = gzip.decompress(self.get(path)).decode()
        return f"{self.server.socket}{socket_address(page)}"

    def plan_dashboards(self, *addresses: str) -> dict[str, Any]:
        """What ``open_clients`` takes to open these sockets as a browser does."""
        headers = {"Cookie": self.cookie, "Origin": self.server.origin}
        return {
            "streams": [],
            "after": 0,
            "dashboards": list(addresses),
            "headers": headers,
        }


def sign_in(link: str) -> Site:
    """Use the link of ``up`` as a browser does."""
    jar = CookieJar()
    with build_opener(HTTPCookieProcessor(jar)).open(link, timeout=60) as page:
        page.read()
    session = next(each for each in jar if "session" in each.name)
    server = Server(urlsplit(link).port or 80, 0)
    return Site(server, session.value or "", session.name)


def socket_address(page: str) -> str:
    """The address of a loaded page's socket."""
    address = LIVE.search(page)
    if address is None:
        raise RuntimeError("The page opens no socket.")
    versions = {
        name: found[1]
        for name, part in PARTS.items()
        if (found := re.search(rf'id="{part}" data-v="([0-9a-f]+)"', page))
    }
    return f"{unescape(address[1])}&{urlencode(versions)}"
