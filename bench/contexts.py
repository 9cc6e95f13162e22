"""What models were sent, against the full history that it was taken from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from bench.visitor import Visitor

API = "/api/v1"
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Sizes:
    """Bytes of messages as JSON, and the numbers that they belong to.

    ``sent`` and ``full`` are sums over all calls, ``last_sent`` and
    ``last_full`` over the last call of each Mysis.
    """

    calls: int
    turns: int
    sent: int
    full: int
    myses: int
    last_sent: int
    last_full: int


def bytes_of(message: Message) -> int:
    """The size of one message as compact JSON in UTF-8."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode())


def wire_of(memory: Mapping[str, Any]) -> Message:
    """A stored message as an OpenAI chat message, with nothing left out."""
    message = {"role": memory["role"], "content": memory["content"]}
    if memory["tool_calls"]:
        message["tool_calls"] = memory["tool_calls"]
    if memory["tool_call_id"]:
        message["tool_call_id"] = memory["tool_call_id"]
    return message


def newest_of(sources: Iterable[Any]) -> int:
    """The newest stored id that a view shows, 0 for none."""
    ids = [
        number
        for source in sources
        for number in (source if isinstance(source, list) else [source])
        if number is not None
    ]
    return max(ids, default=0)


def compare(call: Mapping[str, Any], history: list[tuple[int, int]]) -> tuple[int, int]:
    """The bytes of one call, and those of all that was stored when it was made.

    ``history`` holds the id of each stored message and the bytes up to it.
    """
    sent = sum(bytes_of(message) for message in call["messages"])
    newest = newest_of(call["sources"])
    stored = max((total for number, total in history if number <= newest), default=0)
    prompts = [m for m in call["messages"] if m["role"] == "system"]
    return sent, stored + sum(bytes_of(message) for message in prompts)


def measure(visitor: Visitor) -> Sizes:
    """Read every call of every Mysis through the API."""
    pairs: list[list[tuple[int, int]]] = []
    turns = 0
    for mysis in visitor.items(f"{API}/myses"):
        place = f"{API}/myses/{mysis['id']}"
        finished = [t for t in visitor.items(f"{place}/turns") if t["outcome"]]
        rows = visitor.items(f"{place}/memories")
        totals = accumulate(bytes_of(wire_of(row)) for row in rows)
        history = list(zip((row["id"] for row in rows), totals, strict=True))
        turns += len(finished)
        pairs.append(
            [
                compare(_call(visitor, turn["id"], number), history)
                for turn in finished
                for number in range(1, turn["iterations"] + 1)
            ]
        )
    every = [pair for of_mysis in pairs for pair in of_mysis]
    last = [of_mysis[-1] for of_mysis in pairs if of_mysis]
    return Sizes(
        calls=len(every),
        turns=turns,
        sent=sum(sent for sent, _ in every),
        full=sum(full for _, full in every),
        myses=len(last),
        last_sent=sum(sent for sent, _ in last),
        last_full=sum(full for _, full in last),
    )


def _call(visitor: Visitor, turn: int, number: int) -> dict[str, Any]:
    found: dict[str, Any] = visitor.json(f"{API}/turns/{turn}/calls/{number}/context")
    return found
