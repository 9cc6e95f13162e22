"""Made-up logs, as a fleet writes them; the same for the same seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.payloads import TOOLS, Answers
from memory.context.types import NUDGE_TEXT, Message, Origin, ToolCall

SEED = 20_260_205
Log = tuple[Message, ...]
_ORDERS = ("Sell what you hold and report.", "Find titanium.", "Stay near the station.")
_THOUGHTS = (
    "The hold is nearly full, so I look for the best price before I fly on.",
    "Fuel is low. I go back to the station first and refuel there.",
    "This belt still gives ore; I stay for some more ticks.",
    "",
    "",
)
_ENDINGS = ("I wait for the next tick.", "Done for now; I am on my way.", "Mining on.")


@dataclass
class Player:
    """Writes a log unit by unit; ids and ticks rise.

    A turn begins with a nudge, at times with an order or a broadcast. One to five
    answers with one to three calls follow, each with all its results, and mostly
    a plain sentence at the end.
    """

    seed: int = SEED
    newest: int = 0
    tick: int = 100
    _random: Random = field(init=False)
    _answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311 (it is to be repeatable)
        self._answers = Answers(self.seed)

    def units(self) -> Iterator[Log]:
        """Unit after unit, without an end."""
        while True:
            yield (self.begin_turn(),)
            for _ in range(self._random.randint(1, 5)):
                yield self.call_tools(*self._choose_tools())
            if self._random.random() < 0.8:
                yield (self.say(self._random.choice(_ENDINGS)),)

    def begin_turn(self) -> Message:
        """The first message of a turn."""
        chance = self._random.random()
        if chance < 0.85:
            return self._row("user", NUDGE_TEXT, "nudge")
        origin: Origin = "human" if chance < 0.93 else "broadcast"
        return self._row("user", self._random.choice(_ORDERS), origin)

    def call_tools(self, *tools: str) -> Log:
        """An answer with these calls, and their results."""
        head = self.newest + 1
        calls = tuple(
            ToolCall(f"call_{head}_{index}", tool, self._arguments(tool))
            for index, tool in enumerate(tools)
        )
        thought = self._random.choice(_THOUGHTS)
        answer = self._row("assistant", thought, "agent", tool_calls=calls)
        results = []
        for call in calls:
            self.tick += 1
            text = self._answers.answer(call.name, self.tick)
            results.append(self._row("tool", text, "tool", tool_call_id=call.id))
        return (answer, *results)

    def say(self, text: str) -> Message:
        """A plain answer."""
        return self._row("assistant", text, "agent")

    def _choose_tools(self) -> list[str]:
        weights = [weight for weight, _ in TOOLS.values()]
        number = self._random.choice((1, 1, 1, 2, 2, 3))
        return self._random.choices(list(TOOLS), weights, k=number)

    def _arguments(self, tool: str) -> str:
        if tool == "sell":
            return json.dumps({"item_id": "ore_iron", "quantity": self.tick % 40})
        if tool == "travel":
            return json.dumps({"target_poi": f"poi_{self.tick % 2000:05}"})
        return "{}"

    def _row(self, role: Any, content: str, origin: Origin, **more: Any) -> Message:
        self.newest += 1
        return Message(self.newest, role, origin, content, tick=self.tick, **more)


def make_log(count: int, seed: int = SEED) -> Log:
    """A log of exactly ``count`` messages, all its units whole."""
    player = Player(seed)
    log: list[Message] = []
    for unit in player.units():
        if len(log) + len(unit) > count:
            break
        log += unit
    while len(log) < count:
        log.append(Message(len(log) + 1, "user", "human", "Report."))
    return tuple(log)


def stored_calls(message: Message) -> list[dict[str, Any]]:
    """The calls of a message as they are stored."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.tool_calls
    ]


def message_document(message: Message) -> dict[str, Any]:
    """A message as ``manage.py assemble`` reads it."""
    document: dict[str, Any] = {
        "id": message.id,
        "role": message.role,
        "origin": message.origin,
        "content": message.content,
        "tick": message.tick,
    }
    if message.tool_calls:
        document["tool_calls"] = stored_calls(message)
    if message.tool_call_id is not None:
        document["tool_call_id"] = message.tool_call_id
    return document
