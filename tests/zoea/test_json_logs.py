"""Logs as JSON: one object a line, with the place in a turn, from every process."""

from __future__ import annotations

import io
import json
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents.db import run_in_db
from agents.models import Mysis, Turn
from agents.telemetry import enter_call, log_place, open_span
from sandbox.game.testing import SandboxServer
from tests.agents.conftest import nothing_left_open, provider, sandbox
from tests.agents.runtime.conftest import eve, fly
from tests.fakes.openai import FakeProvider, Reply, completion
from tests.otlp import Collector, collector
from tests.zoea.running import Up
from zoea.json_logs import JsonFormatter, read_line

__all__ = ["collector", "eve", "nothing_left_open", "provider", "sandbox"]
PASSWORD = "0123456789abcdef0123"


class Lines:
    """A root handler as `ZOEA_LOG_FORMAT=json` sets it up."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def read(self, logger: str = "") -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if line["logger"].startswith(logger)]


@pytest.fixture
def lines() -> Iterator[Lines]:
    found = Lines()
    handler = logging.StreamHandler(found.stream)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)


def test_an_exception_is_one_field_and_secrets_are_masked(lines: Lines) -> None:
    logger = logging.getLogger("other.library")
    try:
        raise ValueError(f"session_id: {PASSWORD}")
    except ValueError:
        logger.exception("Failed with\npassword=%s", PASSWORD)
    assert lines.stream.getvalue().count("\n") == 1
    [line] = lines.read("other.library")
    assert line["level"] == "ERROR"
    assert line["message"] == "Failed with\npassword=[hidden]"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("ValueError: session_id: [hidden]")
    assert PASSWORD not in lines.stream.getvalue()
    assert isinstance(line["process"], int)
    assert line["time"].endswith("+00:00")
    assert "mysis" not in line


def test_lines_of_other_threads_name_the_place(lines: Lines, db: None) -> None:
    logger = logging.getLogger("agents.any")

    async def work() -> None:
        with log_place(mysis=7, turn=9):
            await run_in_db(logger.warning, "before the first call")
            enter_call(2)
            await run_in_db(logger.warning, "in a thread")
        logger.warning("after it")

    async_to_sync(work)()
    first, second, last = lines.read("agents.any")
    assert (first["mysis"], first["turn"], "call" in first) == (7, 9, False)
    assert (second["mysis"], second["turn"], second["call"]) == (7, 9, 2)
    assert "turn" not in last


def test_a_line_names_its_trace(lines: Lines, collector: Collector) -> None:
    with open_span("any", {}):
        logging.getLogger("agents.any").warning("inside")
    [line] = lines.read("agents.any")
    [span] = collector.wait_for("any")
    assert line["trace_id"] == span.trace_id.hex()
    assert line["span_id"] == span.span_id.hex()


async def test_what_a_library_logs_in_a_turn_names_the_turn(
    lines: Lines,
    eve: Mysis,
    provider: FakeProvider,
    sandbox: SandboxServer,
    nothing_left_open: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "httpcore2")
    provider.answers += [Reply(body=completion("Aye."))]
    await fly(eve)
    turn = await Turn.objects.aget(mysis=eve)
    asked = [one for one in lines.read("httpcore2") if one.get("call")]
    assert asked
    assert {(one["mysis"], one["turn"], one["call"]) for one in asked} == {
        (eve.pk, turn.pk, 1)
    }


def test_what_a_line_says_in_either_form() -> None:
    assert read_line('{"message": "It ended."}') == "It ended."
    assert read_line("{'no': json}") == "{'no': json}"
    assert read_line("It ended.") == "It ended."


def test_every_line_of_every_process_is_one_object(tmp_path: Path) -> None:
    up = Up(tmp_path, "--port", "0", "--myses", "1", ZOEA_LOG_FORMAT="json")
    try:
        up.wait_for('"message": "Dashboard: http')
        status, errors = up.end(signal.SIGTERM)
    finally:
        up.clean_up()
    assert status == 0
    logs = {path.stem: path.read_text() for path in (tmp_path / "logs").glob("*.log")}
    assert {"worker", "web", "sandbox", "prepare"} <= set(logs)
    for text in ("".join(up.lines), errors, *logs.values()):
        for line in text.splitlines():
            assert {"time", "level", "logger", "message"} <= set(json.loads(line)), line
    assert json.loads(logs["sandbox"].splitlines()[0])["message"].startswith("sandbox")


def test_a_refusal_is_an_object_too(tmp_path: Path) -> None:
    up = Up(tmp_path, DATABASE_URL="sqlite://", ZOEA_LOG_FORMAT="json")
    try:
        line = json.loads(up.refused())
    finally:
        up.clean_up()
    assert line["level"] == "ERROR"
    assert "DATABASE_URL" in line["message"]
