"""What the models of the whole fleet want, and their two providers over HTTP.

A Mysis is known by the name of its model, and has its own chance: so plays can be told
apart afterwards. Each provider refuses what the real one refuses, and keeps what it has
refused.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from memory.gamestate.render import split_state
from tests.fakes.anthropic import SIGNATURES, Answer, FakeAnthropic, message
from tests.fakes.openai import FakeProvider, Reply, call, completion

Json = dict[str, Any]

WINDOW = 32_000
"""Tokens that a request may have, at four bytes each."""
WAIT = {"Retry-After": "1"}

BUSY, BROKEN, FULL = 0.02, 0.02, 0.005
ENDING = 0.6
NOBODY = "Not logged in. Use register or login."


@dataclass(frozen=True)
class MenuItem:
    """A tool that is called, and how its arguments are made."""

    tool: str
    arguments: Callable[[random.Random, str], Json] = lambda chance, word: {}


def _travel_to(poi: str) -> MenuItem:
    return MenuItem("travel", lambda chance, word: {"target_poi": poi})


def _few(tool: str) -> MenuItem:
    return MenuItem(
        tool,
        lambda chance, word: {"item_id": "ore_iron", "quantity": chance.randint(1, 4)},
    )


MENU = (
    *[MenuItem("mine")] * 5,
    MenuItem("undock"),
    MenuItem("dock"),
    _travel_to("sol_belt"),
    _travel_to("sol_station"),
    *[_few("sell")] * 2,
    _few("jettison"),
    _few("deposit_items"),
    _few("buy"),
    MenuItem("refuel"),
    *[MenuItem("captains_log_add", lambda chance, word: {"entry": word})] * 3,
    *[
        MenuItem(name)
        for name in ("get_status", "get_cargo", "get_nearby", "get_system")
    ],
    MenuItem("no_such_tool"),
)


@dataclass(frozen=True)
class RequestFacts:
    """What a request shows: its size, whether tools answered last, whether it has no account.

    ``tokens`` are counted at four bytes each.
    """

    tokens: int
    acted: bool
    nobody: bool


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool; ``word`` is its own in the whole run."""

    tool: str
    arguments: Json
    word: str


@dataclass(frozen=True)
class Decision:
    """What a request is answered: a failure by its name, or text and calls."""

    kind: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    tokens: int = 0


class Mind:
    """Decides for every Mysis; ``done`` counts the decisions by kind.

    A calm one never fails by itself.
    """

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self._calm = calm
        self.done: Counter[str] = Counter()
        self._seed = seed
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()

    def decide(self, name: str, seen: RequestFacts) -> Decision:
        """A failure, or what this Mysis wants to do next."""
        with self._lock:
            self._asked[name] += 1
            number = self._asked[name]
        chance = random.Random(f"{self._seed}:{name}:{number}")  # noqa: S311
        failure = self._choose_failure(chance, seen)
        found = failure or self._choose_answer(chance, f"{name}.{number}", seen)
        with self._lock:
            self.done[found.kind] += 1
        return found

    def _choose_failure(
        self, chance: random.Random, seen: RequestFacts
    ) -> Decision | None:
        if self._calm:
            return None
        roll = chance.random()
        if roll < BUSY:
            return Decision("429")
        if roll < BUSY + BROKEN:
            return Decision("502")
        if seen.tokens > WINDOW or roll < BUSY + BROKEN + FULL:
            return Decision("overflow", tokens=max(seen.tokens, WINDOW + 1))
        return None

    def _choose_answer(
        self, chance: random.Random, word: str, seen: RequestFacts
    ) -> Decision:
        if seen.nobody:
            given = {"username": f"Cap {word}", "empire": "solarian"}
            return Decision("answer", calls=(ToolCall("register", given, word),))
        if seen.acted and chance.random() < ENDING:
            return Decision("answer", f"Enough for now ({word}).")
        calls = []
        for place in range(chance.choice((1, 1, 2, 3))):
            item, each = chance.choice(MENU), f"{word}.{place}"
            calls.append(ToolCall(item.tool, item.arguments(chance, each), each))
        return Decision("answer", "Going on.", tuple(calls))


class AnyModel:
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith("cap")


# --- The providers


class OpenAI(FakeProvider):
    """Asks the mind what to answer."""

    models = AnyModel()

    def __init__(self, mind: Mind) -> None:
        super().__init__()
        self._mind = mind

    def came(self, raw: bytes, body: Json) -> None:
        """Keep nothing: a long run has too many of them."""

    def reply(self, body: Json) -> Reply:
        """What this Mysis wants, or how it fails."""
        found = self._mind.decide(str(body["model"]), _read_openai(body))
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

    models = AnyModel()

    def __init__(self, mind: Mind) -> None:
        super().__init__()
        self._mind = mind

    def came(self, body: Json, key: str) -> None:
        """Keep nothing, as above."""

    def reply(self, body: Json) -> Answer:
        """What this Mysis wants, or how it fails."""
        found = self._mind.decide(str(body["model"]), _read_anthropic(body))
        match found.kind:
            case "429":
                return 429, _error("rate_limit_error", "Slow down."), WAIT
            case "502":
                return 529, _error("overloaded_error", "Overloaded"), {}
            case "overflow":
                text = f"prompt is too long: {found.tokens} tokens > {WINDOW} maximum"
                return 400, _error("invalid_request_error", text), {}
        stop = "tool_use" if found.calls else "end_turn"
        return 200, message(*_blocks(found), stop=stop), {}


def _read_openai(body: Json) -> RequestFacts:
    messages = body["messages"]
    told = [m["content"] for m in messages if m["role"] in ("user", "system")]
    # The state block ends the last message, also behind what a tool said.
    newest = messages[-1]
    acted = newest["role"] == "tool"
    state = split_state(newest["content"])[1]
    return RequestFacts(_count_tokens(body), acted, _is_nobody([*told, state]))


def _read_anthropic(body: Json) -> RequestFacts:
    """No tool has said what tells of no account: results are left out."""
    users = [m["content"] for m in body["messages"] if m["role"] == "user"]
    blocks = [b for one in users if isinstance(one, list) for b in one]
    told = [b for b in blocks if b["type"] != "tool_result"]
    plain = [one for one in users if isinstance(one, str)]
    newest = users[-1] if isinstance(users[-1], list) else []
    acted = any(b["type"] == "tool_result" for b in newest)
    return RequestFacts(
        _count_tokens(body), acted, _is_nobody([body.get("system"), *plain, *told])
    )


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


def _count_tokens(body: Json) -> int:
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
