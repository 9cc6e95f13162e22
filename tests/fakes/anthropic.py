"""An Anthropic server, as strict as the real one.

It answers over real HTTP what its owner put into ``answers`` or what ``reply`` gives,
keeps every request as it came, and refuses with the status and words of the real API
what that one refuses.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections import deque
from collections.abc import Container, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
Answer = tuple[int, Json, dict[str, str]]

KEY = "plain-0123456789"
MODELS = ("claude-haiku-4-5",)
SIGNATURES = ("c2ln", "YQ==", "Yg==", "aGlkZGVu")
"""The seals that this server made: any other is refused."""
MOST_MARKS = 4
WINDOW = 200_000
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KEYS = {
    "model", "messages", "system", "tools", "tool_choice", "max_tokens", "temperature",
    "top_p", "stream", "thinking", "stop_sequences",
}  # fmt: skip


class RefusedError(Exception):
    """What the real server says no to."""

    def __init__(
        self, message: str, status: int = 400, kind: str = "invalid_request_error"
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def message(*content: Json, stop: str = "end_turn") -> Json:
    """The body of a good answer."""
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


# -- what the real API checks ----------------------------------------------


def check_key(headers: Message[str, str]) -> None:
    """Raise RefusedError for a wrong key, and for one that goes out as a token."""
    if "Authorization" in headers:
        raise RefusedError("Invalid bearer token", 401, "authentication_error")
    if headers.get("X-Api-Key") != KEY:
        raise RefusedError("invalid x-api-key", 401, "authentication_error")


def check_request(body: Json, models: Container[str] = MODELS) -> None:
    """Raise RefusedError for a request that the real API would refuse."""
    if extra := body.keys() - _KEYS:
        raise RefusedError(f"{min(extra)}: Extra inputs are not permitted")
    if body.get("model") not in models:
        raise RefusedError(f"model: {body.get('model')}", 404, "not_found_error")
    if not isinstance(body.get("max_tokens"), int):
        raise RefusedError("max_tokens: Field required")
    marks = [*_check_tools(body.get("tools", [])), *_check_system(body.get("system"))]
    marks += check_messages(body.get("messages"))
    if len(marks) > MOST_MARKS:
        raise RefusedError(
            "A maximum of 4 blocks with cache_control may be provided. "
            f"Found {len(marks)}."
        )


def _check_tools(tools: list[Json]) -> Iterator[Json]:
    names = [tool["name"] for tool in tools]
    if len(set(names)) != len(names):
        raise RefusedError("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if not _NAME.fullmatch(tool["name"]):
            raise RefusedError(f"tools.{index}.custom.name: String should match")
        if tool["input_schema"].get("type") != "object":
            raise RefusedError(
                f"tools.{index}.custom.input_schema.type: Field required"
            )
        yield from _mark(f"tools.{index}", tool)


def _check_system(system: Any) -> Iterator[Json]:
    if system is None or isinstance(system, str):
        return
    for index, block in enumerate(system):
        yield from _check_text(f"system.{index}", block)
        yield from _mark(f"system.{index}", block)


def check_messages(messages: Any) -> list[Json]:
    """Roles, blocks and the pairing of calls with results; gives the cache marks."""
    if not isinstance(messages, list) or not messages:
        raise RefusedError("messages: at least one message is required")
    if messages[0].get("role") != "user":
        raise RefusedError('messages: first message must use the "user" role')
    if messages[-1].get("role") != "user":
        raise RefusedError(
            "This model does not support assistant message prefill. The conversation "
            "must end with a user message."
        )
    marks: list[Json] = []
    seen: set[str] = set()
    waiting: list[str] = []
    before = ""
    for index, said in enumerate(messages):
        where = f"messages.{index}"
        if said.get("role") not in ("user", "assistant"):
            raise RefusedError(f"{where}.role: Input should be 'user' or 'assistant'")
        if said["role"] == before:
            raise RefusedError(
                "messages: roles must alternate between user and assistant"
            )
        before = said["role"]
        blocks = _blocks(where, said["content"])
        _answered(where, before, blocks, waiting)
        for place, block in enumerate(blocks):
            marks += _check_block(f"{where}.content.{place}", before, block, seen)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return marks


def _blocks(where: str, content: Any) -> list[Json]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise RefusedError(f"{where}: all messages must have non-empty content")
    return content


def _answered(where: str, role: str, blocks: list[Json], waiting: list[str]) -> None:
    results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
    if missing := [call for call in waiting if call not in results]:
        raise RefusedError(
            f"{where}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(missing)}."
        )
    if odd := [call for call in results if call not in waiting]:
        raise RefusedError(
            f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {odd[0]}"
        )
    if len(set(results)) != len(results):
        raise RefusedError(f"{where}: each tool_use must have a single result.")
    if role == "user" and [b["type"] for b in blocks[: len(results)]].count(
        "tool_result"
    ) != len(results):
        raise RefusedError(f"{where}: `tool_result` blocks must come first")


def _check_block(where: str, role: str, block: Json, seen: set[str]) -> list[Json]:
    kind = block["type"]
    if kind == "text":
        list(_check_text(where, block))
    elif kind == "tool_use" and role == "assistant":
        _check_call(where, block, seen)
    elif kind == "tool_result" and role == "user":
        if block.get("is_error") and not block.get("content"):
            raise RefusedError(
                f"{where}: content cannot be empty if `is_error` is true"
            )
    elif kind == "thinking" and role == "assistant":
        _check_seal(where, block.get("signature"))
    elif kind == "redacted_thinking" and role == "assistant":
        _check_seal(where, block.get("data"))
    else:
        raise RefusedError(f"{where}: {kind} blocks are not allowed here")
    return list(_mark(where, block))


def _check_text(where: str, block: Json) -> Iterator[Json]:
    if not block["text"]:
        raise RefusedError(f"{where}: text content blocks must be non-empty")
    if not block["text"].strip():
        raise RefusedError(
            f"{where}: text content blocks must contain non-whitespace text"
        )
    return iter(())


def _check_call(where: str, block: Json, seen: set[str]) -> None:
    if not _ID.fullmatch(block["id"]):
        raise RefusedError(f"{where}.id: String should match pattern '{_ID.pattern}'")
    if not _NAME.fullmatch(block["name"]):
        raise RefusedError(f"{where}.tool_use.name: String should match pattern")
    if block["id"] in seen:
        raise RefusedError(f"{where}: `tool_use` ids must be unique")
    if not isinstance(block["input"], dict):
        raise RefusedError(f"{where}.input: Input should be a valid dictionary")
    seen.add(block["id"])


def _check_seal(where: str, seal: Any) -> None:
    if not seal:
        raise RefusedError(f"{where}.thinking.signature: Field required")
    if seal not in SIGNATURES:
        raise RefusedError(f"{where}: Invalid `signature` in `thinking` block")


def _mark(where: str, block: Json) -> Iterator[Json]:
    mark = block.get("cache_control")
    if mark is None:
        return
    if mark.get("type") != "ephemeral" or "thinking" in str(block.get("type")):
        raise RefusedError(f"{where}.cache_control: not allowed")
    yield mark


# -- the server ------------------------------------------------------------


class FakeAnthropic:
    """A context manager: the server listens at ``url`` while it is entered."""

    models: Container[str] = MODELS

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.answers: deque[Answer] = deque()
        self.requests: list[Json] = []
        self.keys: list[str | None] = []
        fake = self

        class Handler(_Handler):
            owner = fake

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, body: Json, status: int = 200, **headers: str) -> None:
        """Prepare the next answer; header names with _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, body, named))

    def came(self, body: Json, key: str) -> None:
        """Keep a request as it came."""
        self.requests.append(body)
        self.keys.append(key)

    def reply(self, body: Json) -> Answer:
        """What a good request is answered: status, body, headers."""
        plain = message({"type": "text", "text": "Aye."})
        return self.answers.popleft() if self.answers else (200, plain, {})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: FakeAnthropic

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # Whoever asked was killed meanwhile.
            return
        body = json.loads(raw)
        self.owner.came(body, self.headers.get("X-Api-Key", ""))
        try:
            check_key(self.headers)
            check_request(body, self.owner.models)
        except RefusedError as error:
            self.owner.refused.append(str(error))
            self._send(error.status, _error_body(error), {})
            return
        self._send(*self.owner.reply(body))

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        try:
            check_key(self.headers)
            if not self.path.startswith("/v1/models/") or name not in self.owner.models:
                raise RefusedError(f"model: {name}", 404, "not_found_error")
        except RefusedError as error:
            self.owner.refused.append(str(error))
            self._send(error.status, _error_body(error), {})
            return
        told = {"id": name, "type": "model", "max_input_tokens": WINDOW}
        self._send(200, told, {})

    def _send(self, status: int, body: Json, headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _error_body(error: RefusedError) -> Json:
    return {"type": "error", "error": {"type": error.kind, "message": str(error)}}
