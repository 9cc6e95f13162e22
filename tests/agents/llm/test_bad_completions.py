"""Answers that no provider should give: each one clear error, or a plain completion."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agents.llm.complete import complete
from agents.llm.model_types import (
    MOST_CALLS,
    Completion,
    CompletionRequest,
    Endpoint,
    Kind,
    ModelError,
    ModelTimeoutError,
)
from agents.llm.wires.http import LARGEST
from tests.agents.llm.test_complete import TRAVEL
from tests.fakes.anthropic import message
from tests.fakes.openai import call, completion

Json = dict[str, Any]
Body = Callable[[Any], None]
WIRES: tuple[Kind, ...] = ("openai", "anthropic", "ollama")
MODELS = {"anthropic": "claude-haiku-4-5", "openai": "gpt-5-nano", "ollama": "qwen3:4b"}
MORE = 64 * LARGEST
"""Far more bytes than are read, so that reading on would be seen."""


class Stranger:
    """A server that answers with whatever bytes a test writes."""

    def __init__(self) -> None:
        self.body: Body = lambda wire: None
        self.headers: dict[str, str] = {"Content-Type": "application/json"}
        self.status = 200
        self.written = 0
        self.calls = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.calls += 1
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    outer.body(self.wfile)
                except OSError:
                    # Whoever has read enough has closed the connection.
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def says(self, body: Json | str | bytes) -> None:
        """Answer with this."""
        text = json.dumps(body) if isinstance(body, dict) else body
        data = text.encode() if isinstance(text, str) else text
        self.body = lambda wire: wire.write(data)


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """A running stranger."""
    found = Stranger()
    serve = threading.Thread(
        target=found.server.serve_forever, args=(0.01,), daemon=True
    )
    serve.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    serve.join()


async def ask(stranger: Stranger, wire: Kind, **settings: Any) -> Completion:
    """One call of a wire."""
    return await ask_at(stranger.server.server_port, wire, **settings)


async def ask_at(port: int, wire: Kind, **settings: Any) -> Completion:
    path = "" if wire == "anthropic" else "/v1"
    where = Endpoint(
        f"lab:{MODELS[wire]}",
        wire,
        MODELS[wire],
        8_192,
        f"http://127.0.0.1:{port}{path}",
        "sk-abc-0123456789",
    )
    blocks = [{"type": "text", "text": "Hi"}] if wire == "anthropic" else "Hi"
    messages = [{"role": "user", "content": blocks}]
    return await complete(
        CompletionRequest(where, messages, "Be Ada.", (TRAVEL,), settings)
    )


async def failing(stranger: Stranger, wire: Kind, **settings: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(stranger, wire, **settings)
    error = caught.value
    assert error.remedy
    assert error.retryable
    assert len(error.detail) < 700
    assert "sk-abc" not in f"{error} {error.__cause__!r}"
    # What reads it is told no library's inner life.
    assert "pydantic.dev" not in error.detail
    assert stranger.calls == 1
    return error


@pytest.mark.parametrize(
    ("wire", "kind"),
    [("openai", "text/html"), ("anthropic", "application/json"), ("ollama", "")],
)
@pytest.mark.parametrize(
    "body",
    [
        "<!doctype html><html><title>Sign in</title></html>",
        '{"id": "x", "choices": [{"message": {"role": "assi',
        '{"id": "msg_1", "type": "message", "content": [{"type": "te',
        "",
        "null",
        "[]",
        '"hello"',
        "{}",
        b"\xff\xfe\x00",
        "[" * 20_000,
    ],
    ids=["html", "half", "half-2", "nothing", "null", "list", "text", "empty", "bytes",
         "deep"],
)  # fmt: skip
async def test_no_completion(
    stranger: Stranger, wire: Kind, kind: str, body: str | bytes
) -> None:
    stranger.headers = {"Content-Type": kind} if kind else {}
    stranger.says(body)
    error = await failing(stranger, wire)
    assert "no completion" in error.detail
    assert "base URL" in error.remedy


@pytest.mark.parametrize(
    ("wire", "status"), [("openai", 200), ("anthropic", 500), ("ollama", 200)]
)
async def test_more_than_any_model_writes(
    stranger: Stranger, wire: Kind, status: int
) -> None:
    """10 MB or without end: it is not read to its end, and fills no memory."""

    def endless(wire: Any) -> None:
        wire.write(b'{"id": "')
        while stranger.written < MORE:
            stranger.written += wire.write(b"x" * 65_536)

    stranger.status = status
    stranger.body = endless
    error = await failing(stranger, wire)
    assert "4,000,000 bytes" in error.detail
    assert "max_tokens" in error.remedy
    assert stranger.written < MORE


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_packed_answer_is_not_unpacked(stranger: Stranger, wire: Kind) -> None:
    """Nobody asked for it: 60 kB would become 60 MB."""
    stranger.headers["Content-Encoding"] = "gzip"
    stranger.says(gzip.compress(b" " * 60_000_000))
    await failing(stranger, wire)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_an_answer_that_drips(stranger: Stranger, wire: Kind) -> None:
    """Bytes keep coming, so nothing is silent; the time of the whole call counts."""
    over = threading.Event()

    def drip(wire: Any) -> None:
        while not over.wait(0.02):
            wire.write(b" ")
            wire.flush()

    stranger.body = drip
    error = await failing(stranger, wire, timeout=2)
    over.set()
    assert isinstance(error, ModelTimeoutError)
    assert "2 seconds" in error.detail


@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_that_breaks(stranger: Stranger, wire: Kind) -> None:
    stranger.headers["Content-Length"] = "1000"
    stranger.says('{"id": ')
    await failing(stranger, wire)


# -- strange, but an answer ------------------------------------------------


@pytest.mark.parametrize("content", [None, "", [], "   "])
async def test_an_empty_answer(stranger: Stranger, content: Any) -> None:
    stranger.says(completion(content))
    answer = await ask(stranger, "openai")
    assert (answer.text.strip(), answer.tool_calls) == ("", ())
    assert answer.usage.input == 1000


async def test_an_empty_answer_of_anthropic(stranger: Stranger) -> None:
    stranger.says(message())
    answer = await ask(stranger, "anthropic")
    assert (answer.text, answer.reasoning, answer.tool_calls) == ("", "", ())


async def test_of_two_hundred_calls_the_first_are_taken(stranger: Stranger) -> None:
    calls = [call("travel", '{"target_poi": 7}', f"c{n}") for n in range(200)]
    stranger.says(completion(None, tool_calls=calls))
    answer = await ask(stranger, "openai")
    taken = [f"c{n}" for n in range(MOST_CALLS)]
    assert [made.id for made in answer.tool_calls] == taken
    assert answer.dropped == 200 - MOST_CALLS
    uses = [
        {"type": "tool_use", "id": f"t{n}", "name": "travel", "input": {"a": n}}
        for n in range(200)
    ]
    stranger.says(message(*uses, stop="tool_use"))
    answer = await ask(stranger, "anthropic")
    assert (len(answer.tool_calls), answer.dropped) == (MOST_CALLS, 200 - MOST_CALLS)


@pytest.mark.parametrize(
    ("made", "name", "arguments"),
    [
        (call("travel", '{"target_poi": '), "travel", '{"target_poi":'),
        (call("travel", "not json"), "travel", "not json"),
        (call("travel", "[1, 2]"), "travel", "[1, 2]"),
        (call("no_such_tool", "{}"), "no_such_tool", "{}"),
        (call("functions.travel to <b>", "{}"), "functions_travel_to__b_", "{}"),
        (call("x" * 500, "{}"), "x" * 64, "{}"),
        (call("", "{}"), "unknown", "{}"),
        ({"id": None, "type": "function", "function": {"name": "mine"}}, "mine", "{}"),
        (
            {"id": "a", "type": "function",
             "function": {"name": "mine", "arguments": {"ore": "iron"}}},
            "mine",
            '{"ore": "iron"}',
        ),
        (
            {"id": "a", "type": "function", "function": {"name": None, "arguments": None}},
            "unknown",
            "{}",
        ),
    ],
)  # fmt: skip
async def test_a_call_that_cannot_be_made(
    stranger: Stranger, made: Json, name: str, arguments: str
) -> None:
    """The tool chain tells the model what is wrong with it; here nothing is lost."""
    stranger.says(completion(None, tool_calls=[made]))
    answer = await ask(stranger, "openai")
    assert [(c.name, c.arguments) for c in answer.tool_calls] == [(name, arguments)]
    assert answer.tool_calls[0].id
    assert len(answer.tool_calls[0].id) <= 40


@pytest.mark.parametrize("wire", WIRES)
async def test_only_what_never_left_is_surely_free(
    stranger: Stranger, wire: Kind
) -> None:
    stranger.headers["Content-Length"] = "5000"
    stranger.says('{"id": ')
    assert not (await failing(stranger, wire)).surely_free
    with pytest.raises(ModelError, match="could not be reached") as caught:
        await ask_at(9, wire)
    assert caught.value.retryable
    assert caught.value.surely_free
