"""A provider that plays the whole fleet, and fails as providers fail.

It speaks the OpenAI wire, refuses what the real API refuses, and keeps what it has
refused. A Mysis is known to it by the name of its model.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.agents.llm.fake_provider import FakeProvider, Json, Reply, call, completion

WINDOW = 12_000
"""Tokens that a request may have, at four bytes each."""

BUSY, BROKEN, FULL = 0.02, 0.02, 0.005
ENDING = 0.6
NOBODY = "Not logged in. Use register or login."


@dataclass(frozen=True)
class Wish:
    """A tool that is called, and how its arguments are made."""

    tool: str
    arguments: Callable[[random.Random, str], Json] = lambda chance, word: {}


def _to(poi: str) -> Wish:
    return Wish("travel", lambda chance, word: {"target_poi": poi})


def _some(tool: str) -> Wish:
    return Wish(
        tool,
        lambda chance, word: {"item_id": "ore_iron", "quantity": chance.randint(1, 4)},
    )


MENU = (
    *[Wish("mine")] * 5,
    Wish("undock"),
    Wish("dock"),
    _to("sol_belt"),
    _to("sol_station"),
    *[_some("sell")] * 2,
    _some("jettison"),
    _some("deposit_items"),
    _some("buy"),
    Wish("refuel"),
    *[Wish("captains_log_add", lambda chance, word: {"entry": word})] * 3,
    *[Wish(name) for name in ("get_status", "get_cargo", "get_nearby", "get_system")],
    Wish("no_such_tool"),
)


class Mind(FakeProvider):
    """Answers every Mysis from its own chance, so that plays can be told apart."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.models = _Anybody()
        self.done: Counter[str] = Counter()
        self._seed = seed
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()

    def came(self, raw: bytes, body: Json) -> None:
        """Keep nothing: a long run has too many of them."""

    def reply(self, body: Json) -> Reply:
        """A failure, or what this Mysis wants to do next."""
        name = str(body["model"])
        with self._lock:
            self._asked[name] += 1
            number = self._asked[name]
        chance = random.Random(f"{self._seed}:{name}:{number}")  # noqa: S311
        kind, reply = self._failure(chance, body) or ("answer", None)
        self.done[kind] += 1
        return reply or Reply(body=self._answer(chance, name, number, body))

    def _failure(self, chance: random.Random, body: Json) -> tuple[str, Reply] | None:
        roll = chance.random()
        if roll < BUSY:
            text = {"error": {"message": "Rate limit reached.", "code": "rate_limit"}}
            return "429", Reply(429, text, {"Retry-After": "1"})
        if roll < BUSY + BROKEN:
            return "502", Reply(502, "<html><title>502 Bad Gateway</title></html>")
        tokens = len(json.dumps(body)) // 4
        if tokens > WINDOW or roll < BUSY + BROKEN + FULL:
            return "overflow", Reply(400, _too_long(max(tokens, WINDOW + 1)))
        return None

    def _answer(
        self, chance: random.Random, name: str, number: int, body: Json
    ) -> Json:
        word = f"{name}.{number}"
        if _is_nobody(body):
            given = {"username": f"Cap {word}", "empire": "solarian"}
            return completion(None, tool_calls=[_call("register", given, word)])
        # The state block stands after what the tools said.
        acted = any(m["role"] == "tool" for m in body["messages"][-3:])
        if acted and chance.random() < ENDING:
            return completion(f"Enough for now ({word}).")
        calls = []
        for place in range(chance.choice((1, 1, 2, 3))):
            wish = chance.choice(MENU)
            each = f"{word}.{place}"
            calls.append(_call(wish.tool, wish.arguments(chance, each), each))
        return completion("Going on.", tool_calls=calls)


class _Anybody:
    """All models there are."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith("cap")


def _call(tool: str, arguments: Json, word: str) -> Json:
    return call(tool, json.dumps(arguments), f"call_{word}")


def _is_nobody(body: Json) -> bool:
    """Whether the state block, which no tool has said, tells of no account."""
    said = (m for m in body["messages"] if m["role"] in ("user", "system"))
    return any(NOBODY in str(message["content"]) for message in said)


def _too_long(tokens: int) -> Json:
    text = (
        f"This model's maximum context length is {WINDOW} tokens. However, your "
        f"messages resulted in {tokens} tokens."
    )
    return {"error": {"message": text, "code": "context_length_exceeded"}}
