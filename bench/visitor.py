"""Visitors of a running server: what they fetch, what it weighs, and their sockets."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

from websockets.exceptions import InvalidMessage
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bench.processes import Server

SECONDS = 20
LOADED_LINKS = frozenset({"stylesheet", "icon", "preload", "modulepreload", "manifest"})
SOURCES = {"script": "src", "img": "src", "source": "src", "use": "href"}
_IN_CSS = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)|@import\s+["']([^"']+)["']""")
LIVE = re.compile(r'ws-connect="([^"]+)"')
#: What the page's script tells the socket: the versions of these parts.
PARTS = {"rows": "fleet-rows", "feed": "feed"}
PATIENCE = 60
TRIES = 6
#: How often each address is asked for, and the rest between two answers in seconds.
VISITS, PAUSE = 80, 0.15


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
            return Answer(
                response.url, len(raw), gzip.decompress(raw) if packed else raw
            )

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


# --- The weight of a page


@dataclass(frozen=True)
class Weight:
    """Bytes over the wire and unpacked, and how many requests they took."""

    sent: int
    plain: int
    requests: int


class Assets(HTMLParser):
    """Collects the addresses that a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the address of a tag that loads something."""
        given = dict(attrs)
        if tag == "link" and LOADED_LINKS & set((given.get("rel") or "").split()):
            self.found.append(given.get("href") or "")
        elif tag in SOURCES:
            self.found.append(given.get(SOURCES[tag]) or "")


def list_assets(html: str) -> list[str]:
    """The addresses that a page loads, in its order, each once."""
    parser = Assets()
    parser.feed(html)
    return _distinct(parser.found)


def list_css_assets(css: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return _distinct([one or other for one, other in _IN_CSS.findall(css)])


def weigh_page(visitor: Visitor, path: str) -> Weight:
    """Fetch a page and what it loads, compressed, nothing from a cache.

    Raises ValueError for an asset from another site.
    """
    page = visitor.get(path)
    answers = {page.url: page}
    waiting = [urljoin(page.url, one) for one in list_assets(page.body.decode())]
    while waiting:
        url = waiting.pop(0)
        if url in answers:
            continue
        if urlsplit(url).netloc != urlsplit(page.url).netloc:
            raise ValueError(f"the page loads {url} from another site")
        answer = answers[url] = visitor.get(url)
        if urlsplit(url).path.endswith(".css"):
            nested = list_css_assets(answer.body.decode())
            waiting += [urljoin(url, one) for one in nested]
    return Weight(
        sent=sum(answer.sent for answer in answers.values()),
        plain=sum(len(answer.body) for answer in answers.values()),
        requests=len(answers),
    )


def _distinct(addresses: list[str]) -> list[str]:
    fetched = (one.partition("#")[0] for one in addresses)
    return list(dict.fromkeys(one for one in fetched if one and not _is_inline(one)))


def _is_inline(address: str) -> bool:
    return address.startswith("data:")


# --- A signed-in visitor of the Fleet page


@dataclass(frozen=True)
class Site:
    """Where the server is, and the session of who looks, with the name of its cookie."""

    server: Server
    session: str
    cookie_name: str

    @property
    def cookie(self) -> str:
        """The Cookie header."""
        return f"{self.cookie_name}={self.session}"

    def visitor(self) -> Visitor:
        """A browser that has nothing in its cache."""
        return Visitor(self.server.origin, {"Cookie": self.cookie})

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

    @contextmanager
    def watch(self) -> Iterator[Viewer]:
        """Load the Fleet page, and open its socket as the page's script does."""
        page = gzip.decompress(self.get("/")).decode()
        viewer = self._open_socket(f"{self.server.socket}{socket_address(page)}")
        with viewer:
            yield viewer

    def _open_socket(self, address: str) -> Viewer:
        """A socket; a server that is too busy to answer in time is asked again."""
        for tried in range(TRIES):
            try:
                opened = connect(
                    address,
                    origin=Origin(self.server.origin),
                    additional_headers={"Cookie": self.cookie},
                    open_timeout=PATIENCE,
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

    def measure_first_frame(self) -> int:
        """The bytes that a new socket gets at once."""
        with self.watch() as viewer:
            viewer.recv(timeout=PATIENCE)
            return viewer.received


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
