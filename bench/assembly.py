"""The time that one assembly takes, by strategy, for a long log and a short one."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from bench.figures import Figure
from bench.logs import Log, document_of, played
from bench.timing import Task, medians
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.types import AssemblyRequest

#: Milliseconds that an assembly of so many messages is to stay below.
TARGETS = {2_000: 50.0, 20: 1.0}
STEPS = len(TARGETS)
SYSTEM = "You are Ada, a captain. Earn credits, and keep your ship whole and fuelled."
PINS = ("Never attack miners.", "Keep 500 credits for fuel.")
STATE = "## Game state\n" + "- Fuel: 80/240 (get_ship - 2 ticks ago)\n" * 20
PLAIN = "json"
BASELINE = "json.dumps and json.loads of the same messages"


def request_of(log: Log, strategy: str) -> AssemblyRequest:
    """An assembly as a turn asks for it, with the defaults of the strategy."""
    return AssemblyRequest(
        messages=log,
        system=SYSTEM,
        pins=PINS,
        strategy=strategy,
        render_state=lambda limit: STATE[:limit],
    )


def measure(step: Callable[[str], None]) -> list[Figure]:
    """A figure for each size and each registered strategy."""
    figures: list[Figure] = []
    for count in TARGETS:
        step(f"Assembling {count:,} messages by each strategy")
        figures += _of(count)
    return figures


def _of(count: int) -> list[Figure]:
    log = played(count)
    documents = [document_of(message) for message in log]
    tasks: dict[str, Task] = {PLAIN: lambda: json.loads(json.dumps(documents))}
    for strategy in registry.names():
        tasks[strategy] = partial(assemble, request_of(log, strategy))
    seconds = medians(tasks)
    plain = seconds.pop(PLAIN) * 1000
    return [
        Figure(
            f"assemble {count:,} messages: {strategy}",
            value * 1000,
            "ms",
            baseline=plain,
            baseline_is=BASELINE,
            target=TARGETS[count],
        )
        for strategy, value in seconds.items()
    ]
