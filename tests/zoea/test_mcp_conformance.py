"""MCP's own conformance suite against /mcp, as far as it concerns what is offered there."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.processes import Server
from tests.required import require
from zoea.auth import create_token

pytestmark = [
    pytest.mark.usefixtures("suite"),
    pytest.mark.django_db(transaction=True),
]
COMMAND = Path(sys.prefix) / "conformance/node_modules/.bin/conformance"

CONCERNS = ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")

# Why each of the others does not concern us.
OWN_TOOLS = "it calls a tool of the suite's own name, which we do not have"
NOTHING_OF_IT = "we offer nothing of the kind, and announce none of it"
WITHOUT_SESSIONS = "/mcp has no sessions, and sends nothing unasked"
OTHERS = {
    "tools-call-simple-text": OWN_TOOLS,
    "tools-call-image": OWN_TOOLS,
    "tools-call-audio": OWN_TOOLS,
    "tools-call-embedded-resource": OWN_TOOLS,
    "tools-call-mixed-content": OWN_TOOLS,
    "tools-call-error": OWN_TOOLS,
    "json-schema-2020-12": OWN_TOOLS,
    "tools-call-with-logging": WITHOUT_SESSIONS,
    "tools-call-with-progress": WITHOUT_SESSIONS,
    "tools-call-sampling": WITHOUT_SESSIONS,
    "tools-call-elicitation": WITHOUT_SESSIONS,
    "elicitation-sep1034-defaults": WITHOUT_SESSIONS,
    "elicitation-sep1330-enums": WITHOUT_SESSIONS,
    "server-sse-polling": WITHOUT_SESSIONS,
    "server-sse-multiple-streams": WITHOUT_SESSIONS,
    "logging-set-level": NOTHING_OF_IT,
    "completion-complete": NOTHING_OF_IT,
    "resources-list": NOTHING_OF_IT,
    "resources-read-text": NOTHING_OF_IT,
    "resources-read-binary": NOTHING_OF_IT,
    "resources-templates-read": NOTHING_OF_IT,
    "resources-subscribe": NOTHING_OF_IT,
    "resources-unsubscribe": NOTHING_OF_IT,
    "prompts-list": NOTHING_OF_IT,
    "prompts-get-simple": NOTHING_OF_IT,
    "prompts-get-with-args": NOTHING_OF_IT,
    "prompts-get-embedded-resource": NOTHING_OF_IT,
    "prompts-get-with-image": NOTHING_OF_IT,
}


@pytest.fixture(scope="module")
def suite() -> None:
    """The programs, as the Makefile fetches them."""
    require(COMMAND.exists(), f"there is no {COMMAND}: make test fetches it with npm")


@contextmanager
def signed(server: Server, token: str) -> Iterator[str]:
    """An address that passes all on to /mcp with a token, which the suite cannot send."""

    class Passing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            there = HTTPConnection("127.0.0.1", server.port, timeout=60)
            headers = {**self.headers, "Authorization": f"Bearer {token}"}
            there.request(self.command, self.path, body, headers)
            answer = there.getresponse()
            told = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)
            there.close()

        do_GET = do_DELETE = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as passing:
        threading.Thread(target=passing.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{passing.server_port}/mcp"
        finally:
            passing.shutdown()


def test_every_scenario_is_run_or_has_its_reason() -> None:
    listed = subprocess.run(
        [COMMAND, "list", "--server"], capture_output=True, text=True, check=True
    )
    found = [line[4:] for line in listed.stdout.splitlines() if line.startswith("  - ")]
    assert set(found) == {*CONCERNS, *OTHERS}


@pytest.mark.parametrize("scenario", CONCERNS)
def test_what_concerns_us_passes(server: Server, tmp_path: Path, scenario: str) -> None:
    token = create_token(name="suite", role="viewer")[1]
    with signed(server, token) as address:
        ended = subprocess.run(
            [COMMAND, "server", "--url", address, "--scenario", scenario,
             "--output-dir", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    checks = [
        one
        for file in tmp_path.rglob("checks.json")
        for one in json.loads(file.read_text())
    ]
    failed = [one for one in checks if one["status"] not in ("SUCCESS", "INFO")]
    assert (ended.returncode, failed) == (0, []), ended.stdout
    assert any(one["status"] == "SUCCESS" for one in checks)
