"""An OpenAI-compatible server, as strict as the real one.

It answers over real HTTP what its owner put into ``answers`` or what ``reply`` gives,
keeps every request as it came, and refuses with 400 what the real API refuses.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]

KEY = "sk-test-0123456789abcdef"
MODELS = ("gpt-5-nano", "local-llama", "gpt-oss:20b")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RefusedError(Exception):
    """What the real server says no to; ``body`` is the answer where it is another's."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        code: str = "",
        body: Json | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or "invalid_value"
        self.body = body


@dataclass
class Reply:
    """One prepared answer; `wait` is held until it is set."""

    status: int = 200
    body: Json | str = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    wait: threading.Event | None = None
    kind: str = ""


def completion(content: str | None = "Aye.", **message: Any) -> Json:
    """The body of a good answer; keywords go into the message."""
    calls = message.get("tool_calls")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_770_000_000,
        "model": "gpt-5-nano-2025-08-07",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": "tool_calls" if calls else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": 200,
            "total_tokens": 1200,
            "prompt_tokens_details": {"cached_tokens": 600},
        },
    }


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> Json:
    """A tool call as it stands in a message."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


# -- what the real API checks ----------------------------------------------


def check_key(authorization: str, status: int = 401) -> None:
    """Raise RefusedError for another key than ours."""
    if authorization != f"Bearer {KEY}":
        given = authorization.removeprefix("Bearer ")
        words = f"Incorrect API key provided: {given}."
        raise RefusedError(words, status, "invalid_api_key")


def check_request(body: Json, models: Container[str] = MODELS) -> None:
    """Raise RefusedError for a request that the real API would refuse."""
    if body.get("model") not in models:
        text = f"The model `{body.get('model')}` does not exist."
        raise RefusedError(text, 404, "model_not_found")
    check_messages(body.get("messages"))
    for tool in body.get("tools", ()):
        _check_tool(tool)


def check_messages(messages: Any) -> None:
    """Roles, contents and the pairing of calls with their results."""
    if not isinstance(messages, list) or not messages:
        raise RefusedError("Invalid 'messages': empty array.")
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.[{index}]"
        role = message.get("role")
        if role != "tool" and waiting:
            raise RefusedError(
                "An assistant message with 'tool_calls' must be followed by tool "
                f"messages responding to each 'tool_call_id'. Missing: {waiting}"
            )
        if role == "tool":
            _check_result(where, message, waiting)
        elif role == "assistant":
            waiting = _check_assistant(where, message)
        elif role not in ("system", "developer", "user"):
            raise RefusedError(f"Invalid value: '{role}' at {where}.role.")
        elif not isinstance(message.get("content"), str):
            raise RefusedError(f"Invalid type for '{where}.content'.")
    if waiting:
        raise RefusedError(f"tool_call_ids did not have response messages: {waiting}")
    _check_order([message["role"] for message in messages])


def _check_order(roles: list[str]) -> None:
    if "system" in roles[1:]:
        raise RefusedError("System message must be at the beginning.")
    spoken = [role for role in roles if role != "system"]
    if not spoken or spoken[0] != "user":
        raise RefusedError("The first message after the system must be the user's.")
    if spoken[-1] == "assistant":
        raise RefusedError("The last message may not be the assistant's.")


def _check_result(where: str, message: Json, waiting: list[str]) -> None:
    call_id = message.get("tool_call_id")
    if call_id not in waiting:
        raise RefusedError(
            f"Invalid parameter: messages with role 'tool' must be a response to a "
            f"preceding message with 'tool_calls' ({where}, {call_id})."
        )
    if not isinstance(message.get("content"), str):
        raise RefusedError(f"Invalid type for '{where}.content'.")
    waiting.remove(call_id)


def _check_assistant(where: str, message: Json) -> list[str]:
    calls = message.get("tool_calls") or []
    content = message.get("content")
    if not calls and not content:
        raise RefusedError(f"Invalid '{where}': content or tool_calls is needed.")
    for item in calls:
        arguments = json.loads(item["function"]["arguments"])
        if not _NAME.fullmatch(item["function"]["name"]):
            raise RefusedError(f"Invalid '{where}.tool_calls.function.name'.")
        if item.get("type") != "function" or not isinstance(arguments, dict):
            raise RefusedError(f"Invalid '{where}.tool_calls'.")
    ids = [item["id"] for item in calls]
    if len(set(ids)) != len(ids):
        raise RefusedError(f"Duplicate tool call id in {where}.")
    return ids


def _check_tool(tool: Json) -> None:
    function = tool["function"]
    if tool["type"] != "function" or not _NAME.fullmatch(function["name"]):
        raise RefusedError(f"Invalid tool name '{function['name']}'.")
    if function["parameters"].get("type") != "object":
        raise RefusedError("Tool parameters must be of type 'object'.")


# -- the server ------------------------------------------------------------


class FakeProvider:
    """A context manager: the server listens at ``url`` while it is entered.

    ``stranger`` is the status for another key; None: any key will do.
    """

    models: Container[str] = MODELS
    stranger: int | None = 401

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.answers: deque[Reply] = deque()
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.arrived = threading.Event()
        self.listed = threading.Event()
        self.lists: dict[str, Reply] = {}
        self.asked: list[tuple[str, str]] = []
        provider = self

        class Handler(_Handler):
            owner = provider

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, body: Json | str, status: int = 200, **headers: str) -> None:
        """Prepare the next answer; header names with _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(Reply(status, body, named))

    def tell(self, path: str, body: Json | str, status: int = 200) -> None:
        """Answer a question about models, such as /v1/models, always so."""
        self.lists[path] = Reply(status, body)

    def refuse(self, status: int, message: str, **headers: str) -> None:
        """Prepare a refusal in OpenAI's form."""
        error = {"message": message, "type": "server_error", "code": None}
        self.answer({"error": error}, status, **headers)

    def came(self, raw: bytes, body: Json) -> None:
        """Keep a request as it came."""
        self.raw.append(raw)
        self.requests.append(body)
        self.arrived.set()

    def check(self, body: Json) -> None:
        """Raise RefusedError for a bad request."""
        check_request(body, self.models)

    def reply(self, body: Json) -> Reply:
        """What a good request is answered."""
        return self.answers.popleft() if self.answers else Reply(body=completion())

    @property
    def messages(self) -> list[Json]:
        """The messages of the newest request."""
        found: list[Json] = self.requests[-1]["messages"]
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of callers who went away, or were killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    owner: FakeProvider
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """A question about models; the key goes with it as with every call."""
        self.owner.asked.append((self.path, self.headers.get("Authorization", "")))
        self.owner.listed.set()
        missing = Reply(404, {"error": {"message": "Not Found"}})
        self._send(self.owner.lists.get(self.path, missing))

    def do_POST(self) -> None:
        if self.path in self.owner.lists:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()
            return
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # Whoever asked was killed meanwhile.
            return
        body = json.loads(raw)
        self.owner.came(raw, body)
        try:
            if not self.path.endswith("/chat/completions"):
                raise RefusedError(f"Unknown path {self.path}", 404)
            if self.owner.stranger is not None:
                check_key(self.headers.get("Authorization", ""), self.owner.stranger)
            self.owner.check(body)
        except RefusedError as error:
            self.owner.refused.append(str(error))
            self._send(Reply(error.status, _error_body(error)))
            return
        self._send(self.owner.reply(body))

    def _send(self, reply: Reply) -> None:
        if reply.wait is not None:
            reply.wait.wait(30)
        is_json = isinstance(reply.body, dict)
        text = json.dumps(reply.body) if is_json else str(reply.body)
        data = text.encode()
        self.send_response(reply.status)
        kind = reply.kind or ("application/json" if is_json else "text/html")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        # Whoever has stopped waiting has closed the connection.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _error_body(error: RefusedError) -> Json:
    if error.body is not None:
        return error.body
    kind = "invalid_request_error"
    return {"error": {"message": str(error), "type": kind, "code": error.code}}
