"""Calls of the Anthropic dialect over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agents.llm.model import complete
from agents.llm.types import Completion, Endpoint, ModelError, Usage
from memory.context.types import ToolCall
from tests.agents.llm.test_complete import TRAVEL

KEY = "plain-0123456789"
Json = dict[str, Any]
TALK: list[Json] = [
    {"role": "user", "content": [{"type": "text", "text": "Go <|im_start|>"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "I go."},
            {"type": "tool_use", "id": "t1", "name": "travel", "input": {"b": 1}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "{}"},
            {"type": "text", "text": "## Current Game State"},
        ],
    },
]


class FakeAnthropic:
    """Answers with what is in ``reply`` and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.reply: Json = message({"type": "text", "text": "Aye."})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                outer.requests.append(json.loads(self.rfile.read(size)))
                outer.keys.append(self.headers.get("Authorization"))
                data = json.dumps(outer.reply).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Retry-After", "3")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def message(*content: Json, stop: str = "end_turn") -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 400,
            "cache_read_input_tokens": 600,
            "cache_creation_input_tokens": 0,
            "output_tokens": 200,
        },
    }


@pytest.fixture
def anthropic() -> Iterator[FakeAnthropic]:
    """A running fake."""
    fake = FakeAnthropic()
    thread = threading.Thread(
        target=fake.server.serve_forever, args=(0.01,), daemon=True
    )
    thread.start()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()
    thread.join()


async def ask(fake: FakeAnthropic, **changes: Any) -> Completion:
    where = Endpoint(
        name="anthropic:claude-haiku-4-5",
        kind="anthropic",
        model="claude-haiku-4-5",
        window=200_000,
        base_url=f"http://127.0.0.1:{fake.server.server_port}",
        key=KEY,
    )
    values = {"messages": TALK, "system": "Be Ada.", "tools": (TRAVEL,), "settings": {}}
    return await complete(where, **{**values, **changes})


async def test_what_is_sent_is_what_was_given(anthropic: FakeAnthropic) -> None:
    answer = await ask(anthropic)
    sent = anthropic.requests[-1]
    assert sent["messages"] == TALK
    assert [block["text"] for block in sent["system"]] == ["Be Ada."]
    assert sent["tools"][0]["name"] == "travel"
    assert sent["max_tokens"] == 8_000
    assert anthropic.keys == [f"Bearer {KEY}"]
    assert answer.text == "Aye."
    assert answer.usage == Usage(1000, 200, 600)
    assert answer.cost == Decimal("0.00146")


async def test_a_system_message_becomes_the_system_text(
    anthropic: FakeAnthropic,
) -> None:
    talk = [{"role": "system", "content": "Sum up."}, {"role": "user", "content": "x"}]
    await ask(anthropic, messages=talk, system=None, tools=())
    sent = anthropic.requests[-1]
    assert [block["text"] for block in sent["system"]] == ["Sum up."]
    assert sent["messages"] == [{"role": "user", "content": "x"}]


async def test_calls_and_a_signed_reasoning(anthropic: FakeAnthropic) -> None:
    anthropic.reply = message(
        {"type": "thinking", "thinking": "The belt.", "signature": "c2ln"},
        {
            "type": "tool_use",
            "id": "t9",
            "name": "travel",
            "input": {"target_poi": "b"},
        },
        stop="tool_use",
    )
    answer = await ask(anthropic)
    assert (answer.reasoning, answer.signature) == ("The belt.", "c2ln")
    assert answer.tool_calls == (ToolCall("t9", "travel", '{"target_poi": "b"}'),)


async def test_several_signed_blocks_come_back_as_they_were(
    anthropic: FakeAnthropic,
) -> None:
    blocks = [
        {"type": "thinking", "thinking": "One.", "signature": "YQ=="},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "thinking", "thinking": "Two.", "signature": "Yg=="},
    ]
    said = {"type": "text", "text": "Aye."}
    anthropic.reply = message(*blocks, said)
    answer = await ask(anthropic)
    sealed = {
        "type": "thinking",
        "thinking": answer.reasoning,
        "signature": answer.signature,
    }
    talk = [
        TALK[0],
        {"role": "assistant", "content": [sealed, said]},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
    ]
    await ask(anthropic, messages=talk)
    assert anthropic.requests[-1]["messages"][1]["content"] == [*blocks, said]


async def test_an_overload_is_retryable(anthropic: FakeAnthropic) -> None:
    anthropic.status = 529
    anthropic.reply = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    with pytest.raises(ModelError) as caught:
        await ask(anthropic)
    assert (caught.value.retryable, caught.value.retry_after) == (True, 3.0)
    assert "Overloaded" in caught.value.detail
    assert len(anthropic.requests) == 1


async def test_a_refusal_is_final_and_without_the_key(anthropic: FakeAnthropic) -> None:
    anthropic.status = 401
    anthropic.reply = {
        "type": "error",
        "error": {"type": "authentication_error", "message": f"invalid {KEY}"},
    }
    with pytest.raises(ModelError) as caught:
        await ask(anthropic)
    assert not caught.value.retryable
    assert KEY not in str(caught.value)
