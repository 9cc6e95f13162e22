"""The context core: the time of an assembly by each strategy.

Logs are made up, the same for the same seed, in the shapes and sizes that a fleet writes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from random import Random
from typing import Any

from bench.figures import (
    Figure,
    Found,
    Step,
    Task,
    find_figures,
    measure_medians,
)
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.types import (
    NUDGE_TEXT,
    AssemblyRequest,
    Message,
    Origin,
    ToolCall,
)

#: Milliseconds that an assembly of so many messages is to stay below.
TIME_TARGETS = {2_000: 50.0, 20: 1.0}
SYSTEM = "You are Ada, a captain. Earn credits, and keep your ship whole and fuelled."
PINS = ("Never attack miners.", "Keep 500 credits for fuel.")
STATE = "## Game state\n" + "- Fuel: 80/240 (get_ship - 2 ticks ago)\n" * 20
PLAIN = "json"


def measure(options: argparse.Namespace, step: Step) -> Found:
    figures = []
    for length in TIME_TARGETS:
        step(f"Assembling {length:,} messages by each strategy")
        figures += time_assemblies(length)
    return find_figures("The context core", figures, "core")


# --- Made-up logs

SEED = 20_260_205
ORDERS = ("Sell what you hold and report.", "Find titanium.", "Stay near the station.")
THOUGHTS = (
    "The hold is nearly full, so I look for the best price before I fly on.",
    "Fuel is low. I go back to the station first and refuel there.",
    "",
)
ENDINGS = ("I wait for the next tick.", "Done for now; I am on my way.", "Mining on.")
#: How often each tool is called, and the bytes of its answers, as in the game.
TOOLS = {
    "mine": (30, 300),
    "get_status": (12, 2_500),
    "get_system": (9, 2_300),
    "get_cargo": (9, 400),
    "travel": (8, 250),
    "sell": (7, 250),
    "get_notifications": (7, 300),
    "view_market": (6, 6_000),
    "get_nearby": (4, 2_500),
    "get_ship": (4, 4_000),
}
Log = tuple[Message, ...]


@dataclass
class Player:
    """Writes a log turn by turn; ids and ticks rise."""

    newest: int = 0
    tick: int = 100
    dice: Random = field(default_factory=lambda: Random(SEED))  # noqa: S311

    def write_turn(self) -> Iterator[Message]:
        """A nudge or an order, answers with calls and all their results, an ending."""
        if self.dice.random() < 0.85:
            yield self._row("user", NUDGE_TEXT, "nudge")
        else:
            yield self._row("user", self.dice.choice(ORDERS), "human")
        weights = [weight for weight, _ in TOOLS.values()]
        for _ in range(self.dice.randint(1, 5)):
            number = self.dice.choice((1, 1, 1, 2, 3))
            yield from self._call(self.dice.choices(list(TOOLS), weights, k=number))
        yield self._row("assistant", self.dice.choice(ENDINGS), "agent")

    def _call(self, tools: list[str]) -> Iterator[Message]:
        calls = tuple(
            ToolCall(f"call_{self.newest + 1}_{place}", tool, "{}")
            for place, tool in enumerate(tools)
        )
        thought = self.dice.choice(THOUGHTS)
        yield self._row("assistant", thought, "agent", tool_calls=calls)
        for call in calls:
            self.tick += 1
            text = self._answer(TOOLS[call.name][1])
            yield self._row("tool", text, "tool", tool_call_id=call.id)

    def _answer(self, size: int) -> str:
        items = [
            {
                "item_id": f"ore_{self.dice.getrandbits(32):08x}",
                "name": self.dice.choice(("Iron Ore", "Copper Plate", "Cobalt Dust")),
                "quantity": self.dice.randint(1, 9_000),
            }
            for _ in range(size // 80)
        ]
        return json.dumps({"tick": self.tick, "status": "ok", "items": items}, indent=1)

    def _row(self, role: Any, content: str, origin: Origin, **more: Any) -> Message:
        self.newest += 1
        return Message(self.newest, role, origin, content, tick=self.tick, **more)


def make_log(length: int) -> Log:
    """A log of so many messages, all its turns whole, and orders at the end."""
    player, log = Player(), list[Message]()
    while len(turn := list(player.write_turn())) <= length - len(log):
        log += turn
    while len(log) < length:
        log.append(Message(len(log) + 1, "user", "human", "Report."))
    return tuple(log)


# --- The time of one assembly


def plain_request(log: Log, strategy: str) -> AssemblyRequest:
    """An assembly as a turn asks for it, with the defaults of the strategy."""
    return AssemblyRequest(
        messages=log,
        system=SYSTEM,
        pins=PINS,
        strategy=strategy,
        render_state=lambda limit: STATE[:limit],
    )


def time_assemblies(length: int) -> list[Figure]:
    """The time of an assembly of so many messages, by registered strategy."""
    log = make_log(length)
    documents = [[each.content, *map(asdict, each.tool_calls)] for each in log]
    tasks: dict[str, Task] = {PLAIN: lambda: json.loads(json.dumps(documents))}
    for strategy in registry.list_names():
        tasks[strategy] = partial(assemble, plain_request(log, strategy))
    seconds = measure_medians(tasks)
    plain = seconds.pop(PLAIN) * 1000
    return [
        Figure(
            f"assemble {length:,} messages: {strategy}",
            value * 1000,
            "ms",
            baseline=plain,
            baseline_is="json.dumps and json.loads of the same messages",
            target=TIME_TARGETS.get(length),
        )
        for strategy, value in seconds.items()
    ]
