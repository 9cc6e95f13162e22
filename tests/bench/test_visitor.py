"""What a visitor fetches and weighs, and the socket that a page opens."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.test import Client

from agents.consumers.dashboard import make_page
from agents.dashboard.live.fleet_page import FleetPage
from agents.events import START
from bench.pages.scenes import make_resting_myses
from bench.visitor import (
    Visitor,
    list_assets,
    list_css_assets,
    socket_address,
    weigh_page,
)

HTML = """<!doctype html><html><head>
<link rel="icon" href="/static/zoea.svg"><link rel="canonical" href="/elsewhere">
<link rel="stylesheet" href="/static/a.css"><link rel="stylesheet" href="/static/a.css">
<script src="static/b.js" defer></script><script>let inline = 1</script></head>
<body><a href="/other/">a link loads nothing</a>
<img src="data:image/png;base64,AAAA"><svg><use href="#here"/></svg>
<svg><use href="/static/icons.svg#there"/></svg></body></html>"""
CSS = "@import 'c.css'; p { background: url(\"d.png\") } i { mask: url(data:x) }"
SITE = {
    "/": HTML.encode(),
    "/static/zoea.svg": b"<svg/>" * 50,
    "/static/a.css": CSS.encode(),
    "/static/b.js": b"let a = 1;" * 50,
    "/static/c.css": b"",
    "/static/d.png": b"not really a picture",
    "/static/icons.svg": b"<svg/>",
}


class PageServer(BaseHTTPRequestHandler):
    """Serves ``SITE``, compressed for those who take it."""

    def do_GET(self) -> None:
        body = SITE[self.path]
        packed = "gzip" in self.headers.get("Accept-Encoding", "")
        sent = gzip.compress(body, mtime=0) if packed else body
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    """The address of a running ``PageServer``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), PageServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_the_assets_of_a_page_are_what_a_browser_fetches():
    assert list_assets(HTML) == [
        "/static/zoea.svg",
        "/static/a.css",
        "static/b.js",
        "/static/icons.svg",
    ]


def test_the_assets_of_a_style_sheet_are_imports_and_pictures():
    assert list_css_assets(CSS) == ["c.css", "d.png"]


def test_a_page_weighs_what_went_over_the_wire(site: str):
    weight = weigh_page(Visitor(site), "/")
    assert weight.requests == len(SITE)
    assert weight.plain == sum(len(body) for body in SITE.values())
    packed = [gzip.compress(body, mtime=0) for body in SITE.values()]
    assert weight.sent == sum(len(body) for body in packed)


def test_an_asset_from_another_site_is_refused(
    site: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(SITE, "/", b'<script src="http://127.0.0.2/x.js"></script>')
    with pytest.raises(ValueError, match="another site"):
        weigh_page(Visitor(site), "/")


def test_gzip_is_unpacked(site: str):
    answer = Visitor(site).get("/static/a.css")
    assert answer.body == SITE["/static/a.css"]
    assert answer.sent == len(gzip.compress(answer.body, mtime=0))


@pytest.mark.django_db
def test_the_socket_is_asked_for_as_the_script_asks(admin_client: Client):
    make_resting_myses(2)
    address = socket_address(admin_client.get("/").content.decode())
    asked = make_page(address.partition("?")[2].encode())
    assert isinstance(asked, FleetPage)
    assert 'id="fleet-rows"' not in "".join(asked.draw_all(START))
