"""The provider of a run over HTTP: the OpenAI wire, and Anthropic's.

Each refuses what the real one refuses, and keeps what it has refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from bench.chaos.mind import NOBODY, WINDOW, Anybody, Decision, Json, Mind, Seen
from tests.agents.llm.fake_anthropic import SIGNATURES, Answer, FakeAnthropic
from tests.agents.llm.fake_anthropic import message as said
from tests.agents.llm.fake_provider import FakeProvider, Reply, call, completion

WAIT = {"Retry-After": "1"}


class OpenAI(FakeProvider):
    """Asks the mind what to answer."""

    models = Anybody()

    def __init__(self, mind: Mind) -> None:
        super().__init__()
        self._mind = mind

    def came(self, raw: bytes, body: Json) -> None:
        """Keep nothing: a long run has too many of them."""

    def reply(self, body: Json) -> Reply:
        """What this Mysis wants, or how it fails."""
        found = self._mind.decide(str(body["model"]), _seen_here(body))
        match found.kind:
            case "429":
                text = {"message": "Rate limit reached.", "code": "rate_limit"}
                return Reply(429, {"error": text}, WAIT)
            case "502":
                return Reply(502, "<html><title>502 Bad Gateway</title></html>")
            case "overflow":
                return Reply(400, {"error": _too_long(found.tokens)})
        calls = [
            call(one.tool, json.dumps(one.arguments), f"call_{one.word}")
            for one in found.calls
        ]
        return Reply(body=completion(found.text or None, tool_calls=calls))


class Anthropic(FakeAnthropic):
    """The same, with reasoning that is sealed now and then."""

    models = Anybody()

    def __init__(self, mind: Mind) -> None:
        super().__init__()
        self._mind = mind

    def came(self, body: Json, key: str) -> None:
        """Keep nothing."""

    def reply(self, body: Json) -> Answer:
        """What this Mysis wants, or how it fails."""
        found = self._mind.decide(str(body["model"]), _seen_there(body))
        match found.kind:
            case "429":
                return 429, _error("rate_limit_error", "Slow down."), WAIT
            case "502":
                return 529, _error("overloaded_error", "Overloaded"), {}
            case "overflow":
                text = f"prompt is too long: {found.tokens} tokens > {WINDOW} maximum"
                return 400, _error("invalid_request_error", text), {}
        stop = "tool_use" if found.calls else "end_turn"
        return 200, said(*_blocks(found), stop=stop), {}


def _seen_here(body: Json) -> Seen:
    messages = body["messages"]
    told = (m["content"] for m in messages if m["role"] in ("user", "system"))
    # The state block stands after what the tools said.
    acted = any(m["role"] == "tool" for m in messages[-3:])
    return Seen(_tokens(body), acted, _is_nobody(told))


def _seen_there(body: Json) -> Seen:
    """No tool has said what tells of no account: results are left out."""
    users = [m["content"] for m in body["messages"] if m["role"] == "user"]
    blocks = [b for one in users if isinstance(one, list) for b in one]
    told = [b for b in blocks if b["type"] != "tool_result"]
    plain = [one for one in users if isinstance(one, str)]
    newest = users[-1] if isinstance(users[-1], list) else []
    acted = any(b["type"] == "tool_result" for b in newest)
    return Seen(_tokens(body), acted, _is_nobody([body.get("system"), *plain, *told]))


def _blocks(found: Decision) -> list[Json]:
    blocks: list[Json] = []
    if len(found.calls) > 1:
        seal = SIGNATURES[len(found.calls) % len(SIGNATURES)]
        thought = "Two at once, then."
        blocks.append({"type": "thinking", "thinking": thought, "signature": seal})
    if found.text:
        blocks.append({"type": "text", "text": found.text})
    for one in found.calls:
        key = f"toolu_{one.word.replace('.', '_')}"
        blocks.append(
            {"type": "tool_use", "id": key, "name": one.tool, "input": one.arguments}
        )
    return blocks


def _tokens(body: Json) -> int:
    return len(json.dumps(body)) // 4


def _is_nobody(told: Iterable[object]) -> bool:
    """Whether the state block tells of no account."""
    return any(NOBODY in str(text) for text in told)


def _too_long(tokens: int) -> Json:
    text = (
        f"This model's maximum context length is {WINDOW} tokens. However, your "
        f"messages resulted in {tokens} tokens."
    )
    return {"message": text, "code": "context_length_exceeded"}


def _error(kind: str, text: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": text}}
