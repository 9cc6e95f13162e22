"""One signed-in visitor of a running server: pages, their times, and sockets."""

from __future__ import annotations

import gzip
import http.client
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import unescape
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from websockets.exceptions import InvalidMessage
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bench.visitor import Visitor
from tests.server import Server

LIVE = re.compile(r'ws-connect="([^"]+)"')
#: What the page's script tells the socket: the versions of these parts.
PARTS = {"rows": "fleet-rows", "feed": "feed"}
SECONDS = 60
TRIES = 6
#: How often each address is asked for, and the rest between two answers in seconds.
VISITS, PAUSE = 80, 0.15


@dataclass(frozen=True)
class Site:
    """Where the server is, and the session of who looks."""

    server: Server
    session: str

    @property
    def cookie(self) -> str:
        """The Cookie header."""
        return SimpleCookie({settings.SESSION_COOKIE_NAME: self.session}).output(
            header="", sep=""
        )

    def visitor(self) -> Visitor:
        """A browser that has nothing in its cache."""
        return Visitor(self.server.origin, {"Cookie": self.cookie})

    def get(self, path: str) -> bytes:
        """A page as it travels, over a connection of its own.

        Raises RuntimeError for any answer but 200.
        """
        web = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SECONDS)
        with closing(web):
            headers = {"Cookie": self.cookie, "Accept-Encoding": "gzip"}
            web.request("GET", path, headers=headers)
            answer = web.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}.")
        return body

    def answers(self, *paths: str) -> dict[str, list[float]]:
        """Milliseconds of each answer, the paths in turn, none while another waits."""
        found: dict[str, list[float]] = {path: [] for path in paths}
        for _ in range(VISITS):
            for path in paths:
                begun = time.perf_counter()
                self.get(path)
                found[path].append((time.perf_counter() - begun) * 1000)
                time.sleep(PAUSE)
        return found

    @contextmanager
    def looking(self) -> Iterator[Viewer]:
        """Load the Fleet page, and open its socket as the page's script does."""
        page = gzip.decompress(self.get("/")).decode()
        viewer = self._opened(f"{self.server.socket}{socket_of(page)}")
        with viewer:
            yield viewer

    def _opened(self, address: str) -> Viewer:
        """A socket; a server that is too busy to answer in time is asked again."""
        for tried in range(TRIES):
            try:
                opened = connect(
                    address,
                    origin=Origin(self.server.origin),
                    additional_headers={"Cookie": self.cookie},
                    open_timeout=SECONDS,
                    max_size=None,
                    create_connection=Viewer,
                )
            except InvalidMessage:
                # Daphne hangs up where a handshake takes more than five seconds.
                time.sleep(tried)
                continue
            assert isinstance(opened, Viewer)
            return opened
        raise RuntimeError(f"The server opened no socket in {TRIES} tries.")

    def first_frame(self) -> int:
        """The bytes that a new socket gets at once."""
        with self.looking() as viewer:
            viewer.recv(timeout=SECONDS)
            return viewer.received


def socket_of(page: str) -> str:
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


class Viewer(ClientConnection):
    """A socket that counts the bytes that came over the wire."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.received = 0
        super().__init__(*args, **options)
        take = self.protocol.receive_data

        def counted(data: bytes | bytearray) -> None:
            self.received += len(data)
            take(data)

        self.protocol.receive_data = counted  # type: ignore[method-assign]
