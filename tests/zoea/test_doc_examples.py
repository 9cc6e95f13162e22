"""Every example of the documents runs, or is listed here with the reason why not."""

from __future__ import annotations

import doctest
import json
import logging
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from jsonschema import Draft202012Validator

from agents.actions import pins
from agents.alerts.send import SIGNATURE, sign_body
from agents.context_inputs import preview_context
from agents.events import Kind, append
from agents.models import ModelCall, Order, Pin, Turn
from agents.telemetry import enter_call, log_place
from bench.processes import Server, database_url, run_server
from memory.assembly.prepare import record_call
from memory.models import Memory
from sandbox.game.testing import SandboxServer
from tests.agents.alerts.receiver import Receiver
from tests.factories import make_memory, make_mysis, make_turn
from tests.programs import Program
from tests.zoea.documents import ROOT, Block, list_blocks, read_document
from zoea.api import api
from zoea.auth import API_ROOT
from zoea.json_logs import JsonFormatter

# Generous: a busy machine must not fail a test.
SECONDS = 600
BLOCKS = list(list_blocks())
NOT_RUN: Mapping[tuple[str, str], str] = {
    (
        "README.md",
        "make up",
    ): "tests/zoea/test_up.py starts what `make up` starts",
    (
        "README.md",
        "export OPENAI_API_KEY=...",
    ): "it needs keys, a real provider and the real game",
    ("docs/benchmarks.md", "make bench-peers"): "it takes half an hour",
    (
        "docs/operations.md",
        "DATABASE_URL=... ZOEA_SECRET_KEY=... SPACEMOLT_MCP_URL=... \\",
    ): "it runs until it is ended",
    (
        "docs/operations.md",
        ".venv/bin/python manage.py backup ~/zoea.dump",
    ): "tests/zoea/test_backup.py runs it",
    (
        "docs/operations.md",
        'mkdir -p -m 700 "${ZOEA_DATA:-.zoea}"',
    ): "tests/zoea/test_backup.py runs it",
    (
        "docs/operations.md",
        "map $http_upgrade $connection_upgrade {",
    ): "tests/zoea/test_proxies.py gives it to nginx",
    (
        "docs/operations.md",
        "scrape_configs:",
    ): "it is for a Prometheus server",
    (
        "docs/operations.md",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 make up",
    ): "it runs until it is ended",
    (
        "sandbox/README.md",
        "python -m sandbox.game --port 8765",
    ): "they run until they are ended",
    ("bench/README.md", "make bench"): "they take minutes to hours",
}
# What is no example: output, formulas and addresses.
SHOWN = "text"
# The JSON documents, by their first line, and the answer that they are part of.
ANSWERS: Mapping[str, str] = {
    '{"items": [{"id": 41, ': "/audit",
    '{"id": 812, ': "/events",
    '{"id": null, ': "",
    '{"time": ': "",
}
# The programs in Python, by what stands in one alone.
PURE, SIGNED, SEARCHED, WATCHED = (
    "\nrequest =",
    "is_from_zoea",
    "zoea_search_messages",
    "sync.client",
)
RUN = [block for block in BLOCKS if not block.why and block.language != SHOWN]


def blocks_in(*languages: str) -> pytest.MarkDecorator:
    found = [block for block in RUN if block.language in languages]
    return pytest.mark.parametrize("block", found, ids=str)


def test_what_is_not_run_says_why_here_as_there():
    marked = {
        (block.document, block.first_line.partition("  ")[0]): block.why
        for block in BLOCKS
        if block.why
    }
    assert marked == NOT_RUN


def find_program(part: str) -> Block:
    [block] = [each for each in RUN if each.language == "python" and part in each.text]
    return block


def test_every_program_in_python_is_one_that_a_test_runs():
    run = [find_program(part) for part in (PURE, SIGNED, SEARCHED, WATCHED)]
    found = [block for block in RUN if block.language == "python"]
    assert sorted(map(str, run)) == sorted(map(str, found))


def test_every_example_is_in_a_language_that_is_run():
    assert {block.language for block in RUN} == {"sh", "python", "json"}
    for document in {block.document for block in BLOCKS}:
        # An indented block is not marked as anything.
        assert "\n    make " not in read_document(document)
        assert "\n    python " not in read_document(document)


# --- What stands alone


@blocks_in("json")
def test_a_json_document_is_what_the_program_gives(block: Block):
    document = json.loads(block.text)
    [route] = [at for begin, at in ANSWERS.items() if block.text.startswith(begin)]
    if not route:
        return
    described = json.loads(json.dumps(api.get_openapi_schema()))
    answer = described["paths"][API_ROOT + route]["get"]["responses"]["200"]
    schema = answer["content"]["application/json"]["schema"]
    if route == "/events":
        document = {"items": [document], "next": None}
    whole = {**schema, "components": described["components"]}
    Draft202012Validator(whole).validate(document)


def test_the_pure_core_is_used_as_the_documents_say():
    program = find_program(PURE)
    code = program.text
    output = BLOCKS[BLOCKS.index(program) + 1]
    assert (output.document, output.language) == (program.document, SHOWN)
    assert len(code.split(PURE)[0].splitlines()) <= 10
    done = subprocess.run(
        # Isolated: nothing but the standard library, and this folder.
        [sys.executable, "-I", "-S", "-"],
        input=f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}",
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.stdout, done.stderr) == (output.text, "")


def test_the_signature_of_an_alert_is_checked_as_the_documents_say():
    names: dict[str, Any] = {}
    exec(find_program(SIGNED).text, names)  # noqa: S102 (an example of our own)
    header = sign_body(b"{}", "secret")
    assert f"`{SIGNATURE}`" in read_document("docs/alerts.md")
    assert names["is_from_zoea"](b"{}", header, "secret")
    assert not names["is_from_zoea"](b"{ }", header, "secret")


def test_a_line_of_a_log_is_what_the_formatter_writes():
    [block] = [each for each in RUN if each.text.startswith('{"time": ')]
    shown = json.loads(block.text)
    with log_place(mysis=shown["mysis"], turn=shown["turn"]):
        enter_call(shown["call"])
        record = logging.makeLogRecord(
            {
                "name": shown["logger"],
                "levelname": shown["level"],
                "msg": shown["message"],
                "process": shown["process"],
                "created": datetime.fromisoformat(shown["time"]).timestamp(),
            }
        )
        assert JsonFormatter().format(record) == block.text.rstrip("\n")


# --- What is asked of a running fleet


@dataclass(frozen=True)
class Place:
    """Where the examples run: a server with a game, a folder, and what they call it."""

    server: Server
    receiver: Receiver
    token: str
    folder: Path

    def name_here(self, text: str) -> str:
        """The text with the addresses and secrets of this place."""
        for written, here in {
            "http://127.0.0.1:8000": self.server.origin,
            "ws://127.0.0.1:8000": self.server.socket,
            "https://ntfy.sh": self.receiver.url,
            "zoea_...": self.token,
            ".venv/bin/python manage.py": f"{sys.executable} {ROOT / 'manage.py'}",
        }.items():
            text = text.replace(written, here)
        return text

    def environment(self) -> dict[str, str]:
        """The environment of a program that meets the same fleet."""
        here = {"DATABASE_URL": database_url(), "ZOEA_TOKEN": self.token}
        return {**os.environ, **here, "PYTHONPATH": str(ROOT)}

    def register(self, name: str) -> None:
        """Give a Mysis an account in the game, of its own name."""
        arguments = {"username": name, "empire": "solarian"}
        body = json.dumps({"tool": "register", "arguments": arguments})
        asked = urllib.request.Request(  # noqa: S310 (our own server)
            f"{self.server.origin}{API_ROOT}/myses/{name}/command",
            body.encode(),
            {
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:  # noqa: S310
            assert not json.load(answer)["is_error"]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script that ends with its first failure."""
        begin = 'set -euo pipefail\ncurl() { command curl --fail-with-body -S "$@"; }\n'
        return subprocess.run(
            ["bash", "-c", self.name_here(f"{begin}{ASKING}{script}")],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


[ASKING] = [
    "".join(line + "\n" for line in block.text.splitlines()[:2])
    for block in RUN
    if block.text.startswith("export Z=")
]


@pytest.fixture(scope="module")
def game() -> Iterator[SandboxServer]:
    with SandboxServer(tick=0.5) as running:
        yield running


@pytest.fixture(scope="module")
def flying(django_db_setup: None, game: SandboxServer) -> Iterator[Server]:
    """A server whose commands go to a game."""
    with run_server(SPACEMOLT_MCP_URL=game.url) as running:
        yield running


@pytest.fixture
def place(transactional_db: None, flying: Server, tmp_path: Path) -> Iterator[Place]:
    program = Program(name="docs")
    with Receiver() as receiver:
        found = Place(flying, receiver, program.secret, tmp_path)
        _make_fleet()
        yield found


def _make_fleet() -> None:
    """What the examples name: Ada with message 1234, order 12, pin 3, turn 1; Brahe."""
    for model, number in ((Memory, 1234), (Order, 12), (Pin, 3), (Turn, 1)):
        _number_from(model, number)
    ada = make_mysis(name="Ada", model="pilot", group="miners", tags=["scout"])
    make_mysis(name="Brahe")
    make_memory(ada, content="Mine some iron ore.")
    pins.add_pin(mysis=ada, text="Never attack.", by="operator:grace")
    turn = make_turn(ada, outcome="done")
    call = ModelCall.objects.create(turn=turn, number=1, model="pilot")
    record_call(call_id=call.pk, prepared=preview_context(ada))
    make_memory(ada, role="assistant", content="I mine.", turn=turn)
    append(Kind.TURN_FINISHED, mysis_id=ada.pk, data={"outcome": "done"})


def _number_from(model: type[Model], number: int) -> None:
    """Give the next row of a table this number."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s, false)",
            [table, number],
        )


@blocks_in("sh")
def test_a_shell_example_runs(place: Place, block: Block):
    if "/command" in block.text:
        place.register("Ada")
    console = block.text.startswith("$ ")
    script, wanted = block.text, ""
    if console:
        first, _, wanted = block.text.removeprefix("$ ").partition("\n")
        script = f"{first} 2>&1"
    done = place.run(script)
    assert done.returncode == 0, done.stdout + done.stderr
    check = doctest.OutputChecker().check_output
    assert not console or check(wanted, done.stdout, doctest.ELLIPSIS), done.stdout


@pytest.mark.parametrize(("named", "ends"), [(SEARCHED, True), (WATCHED, False)])
def test_a_python_example_talks_to_the_fleet(place: Place, named: str, ends: bool):
    code = find_program(named).text
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", place.name_here(code)],
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    if not ends:
        # It listens for as long as it runs.
        process.kill()
    _, errors = process.communicate(timeout=SECONDS)
    assert "iron ore" in said if ends else "turn.finished" in said, errors
    assert process.returncode == 0 or not ends, errors
