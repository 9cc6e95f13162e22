"""The benchmark's own reading and reckoning; nothing here measures time."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.progress import Progress

from bench import __main__, assembly, contexts, page
from bench.footprint import Process, by_name, footprint, name_of, pss_of
from bench.surroundings import environment
from bench.visitor import Visitor, unpack
from memory.context import registry

ROLLUP = """\
55d0c0000000-7ffd9c1d1000 ---p 00000000 00:00 0                          [rollup]
Rss:               10240 kB
Pss:                7001 kB
Pss_Dirty:          5120 kB
Pss_Anon:           4096 kB
"""
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


class Site(BaseHTTPRequestHandler):
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
    """The address of a running ``Site``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_the_assets_of_a_page_are_what_a_browser_fetches():
    assert page.assets_of(HTML) == [
        "/static/zoea.svg",
        "/static/a.css",
        "static/b.js",
        "/static/icons.svg",
    ]


def test_the_assets_of_a_style_sheet_are_imports_and_pictures():
    assert page.assets_in_css(CSS) == ["c.css", "d.png"]


def test_a_page_weighs_what_went_over_the_wire(site: str):
    weight = page.weigh(Visitor(site), "/")
    assert weight.requests == len(SITE)
    assert weight.plain == sum(len(body) for body in SITE.values())
    packed = [gzip.compress(body, mtime=0) for body in SITE.values()]
    assert weight.sent == sum(len(body) for body in packed)


def test_an_asset_from_another_site_is_refused(
    site: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(SITE, "/", b'<script src="http://127.0.0.2/x.js"></script>')
    with pytest.raises(ValueError, match="another site"):
        page.weigh(Visitor(site), "/")


def test_gzip_is_unpacked():
    assert unpack(gzip.compress(b"abc")) == b"abc"


def test_the_pss_line_is_found_among_its_likes():
    assert pss_of(ROLLUP) == 7001 * 1024


def test_a_rollup_without_a_pss_is_refused():
    with pytest.raises(ValueError, match="Pss"):
        pss_of("Rss: 12 kB\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/x/python", "manage.py", "up", "--port=0"], "up"),
        (["/x/python", "/y/manage.py", "procrastinate", "worker"], "worker"),
        (["/x/python", "/y/manage.py", "sandbox", "--port=1"], "sandbox"),
        (["/x/python", "-m", "daphne", "--fd=3"], "web"),
        (["/x/bin/postgres", "-D", "/data"], "PostgreSQL"),
        (["postgres: checkpointer "], "PostgreSQL"),
        (["/usr/bin/other"], "other"),
        ([], ""),
    ],
)
def test_a_process_is_named_by_its_command_line(words: list[str], name: str):
    assert name_of(words) == name


def test_processes_are_summed_by_name():
    found = by_name([Process(1, "a", 10), Process(2, "b", 1), Process(3, "a", 5)])
    assert found == {"a": (2, 15), "b": (1, 1)}


def test_this_very_process_has_a_footprint():
    own = [one for one in footprint([os.getpid()]) if one.pid == os.getpid()]
    assert own[0].pss > 1024 * 1024


def test_a_call_is_held_against_all_that_was_stored_by_then():
    history = [(3, 100), (5, 250), (9, 400)]
    system = {"role": "system", "content": "Obey."}
    call = {
        "messages": [system, {"role": "user", "content": "ä"}],
        "sources": [None, [3, 5]],
    }
    user = len('{"role":"user","content":"ä"}'.encode())
    prompt = contexts.bytes_of(system)
    assert contexts.compare(call, history) == (prompt + user, prompt + 250)


def test_a_call_that_shows_nothing_stored_has_no_history():
    call = {"messages": [], "sources": [None]}
    assert contexts.compare(call, [(3, 100)]) == (0, 0)


def test_a_stored_message_is_weighed_as_it_would_be_sent():
    memory = {
        "id": 1,
        "role": "tool",
        "content": "ok",
        "reasoning": "not sent",
        "tool_calls": [],
        "tool_call_id": "call_1",
    }
    sent = {"role": "tool", "content": "ok", "tool_call_id": "call_1"}
    assert contexts.wire_of(memory) == sent


def test_a_measured_program_sees_its_own_folder_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/x")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    found = environment(tmp_path)
    assert found["ZOEA_DATA"] == str(tmp_path)
    assert found["DATABASE_URL"] == ""
    assert "OPENAI_API_KEY" not in found


def test_all_but_the_longest_is_measured_unless_a_part_is_named():
    assert __main__.wishes_of([]).parts == [p for p in __main__.TITLES if p != "chaos"]
    assert __main__.wishes_of(["chaos"]).parts == ["chaos"]
    assert __main__.wishes_of(["core", "--play", "5"]).parts == ["core"]


def test_a_part_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        __main__.wishes_of(["cores"])
    assert "use fleet or core or turns or memory or surfaces" in capsys.readouterr().err


def test_only_the_named_part_is_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(assembly, "TARGETS", {2: 1.0})
    monkeypatch.setattr(__main__, "MEASURES", {"core": (assembly,)})
    with Progress(disable=True) as progress:
        found, processes = __main__.run(["core"], 60, progress)
    written = __main__.document(found, processes)
    assert {figure["part"] for figure in written["figures"]} == {"core"}
    names = [figure.name for figure in found["core"]]
    assert names == [f"assemble 2 messages: {name}" for name in registry.names()]
    assert processes == []
