"""What a provider and the contract demand of a view, told without the code under test."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from memory.context.result_types import Assembly
from memory.context.tokens import choose_counter
from memory.context.types import DISPOSITIONS, KINDS, STATUSES, AssemblyRequest

STATS = {
    "strategy": str,
    "status": str,
    "reason": str,
    "messages_in": int,
    "messages_out": int,
    "tokens_in": int,
    "tokens_out": int,
    "tokens_by_category": dict,
    "budget": int,
    "reserve": int,
    "over_budget": bool,
    "window_exceeded": bool,
    "superseded": int,
    "masked": int,
    "truncated": int,
    "summarized": int,
    "orphans": int,
    "fillers": int,
    "displaced": int,
    "prefix_shared_bytes": int,
    "summary_calls": int,
    "units_dropped": int,
    "generation": int,
    "tick_skew": int,
    "calibration": float,
    "estimate_error": float,
    "build_ms": type(None),
    "compression": dict,
}
COMPRESSION = {
    "enabled": bool,
    "strategy": str,
    "turns_compressed": int,
    "tool_calls_total": int,
    "tool_calls_shown": int,
    "tool_calls_dropped": int,
    "printlns_total": int,
    "printlns_shown": int,
    "printlns_dropped": int,
    "error_turns_collapsed": int,
}
CATEGORIES = {
    "system",
    "tools",
    "pins",
    "summary",
    "state",
    "user",
    "assistant",
    "tool",
}


def check_openai(messages: Sequence[dict[str, Any]]) -> None:
    """I4 to I8 for chat completions."""
    systems = [i for i, m in enumerate(messages) if m["role"] == "system"]
    assert systems in ([], [0]), "one system message, first (I4)"
    talk = messages[len(systems) :]
    assert talk[0]["role"] == "user", "the user begins (I5)"
    assert talk[-1]["role"] in ("user", "tool"), "the assistant does not end (I5)"
    seen: set[str] = set()
    waiting: list[str] = []
    spoken = [m["role"] for m in talk if m["role"] != "tool" and "tool_calls" not in m]
    turns = [("user", "assistant")[i % 2] for i in range(len(spoken))]
    assert spoken == turns, "texts alternate, also across calls and results"
    for before, message in zip(["", *(m["role"] for m in talk)], talk, strict=False):
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, "a result follows its call (I6)"
            waiting.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert not waiting, "each call has a result before what follows (I6)"
        calls = message.get("tool_calls", [])
        if message["role"] == "user":
            assert message["content"], "nothing empty (I8)"
            assert before != "tool", "no user behind a result"
        else:
            assert message["content"] or calls, "no empty assistant (I8)"
        for call in calls:
            assert call["type"] == "function"
            assert re.fullmatch("[A-Za-z0-9]{9}", call["id"]), "an id as Mistral's"
            assert call["id"] not in seen, "ids are unique (I7)"
            seen.add(call["id"])
            waiting.append(call["id"])
            assert (
                call["function"]["name"].replace("_", "a").replace("-", "a").isalnum()
            )
            arguments = json.loads(call["function"]["arguments"], parse_constant=_no)
            assert isinstance(arguments, dict), "arguments are an object (I8)"
    assert not waiting, "every call is answered (I6)"


def check_anthropic(messages: Sequence[dict[str, Any]]) -> None:
    """I5 to I8 for the messages API: turns alternate, results come first."""
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
    assert roles[-1] == "user"
    seen: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        assert message["content"]
        kinds = [block["type"] for block in message["content"]]
        results = kinds.count("tool_result")
        assert kinds[:results] == ["tool_result"] * results
        answered = {
            block["tool_use_id"]
            for block in message["content"]
            if block["type"] == "tool_result"
        }
        assert len(answered) == results
        assert answered == waiting
        waiting = set()
        for block in message["content"]:
            if block["type"] == "text":
                assert block["text"].strip()
            elif block["type"] == "tool_use":
                assert message["role"] == "assistant"
                assert re.fullmatch("[A-Za-z0-9]{9}", block["id"])
                assert block["id"] not in seen
                assert isinstance(block["input"], dict)
                seen.add(block["id"])
                waiting.add(block["id"])
            elif block["type"] == "thinking":
                assert block["signature"]
    assert not waiting


def _no(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def check_wire(request: AssemblyRequest, result: Assembly) -> None:
    """The view is one that the dialect's provider takes, and so is a request."""
    if result.summary_wanted is not None:
        request_of_summary = result.summary_wanted.request
        assert request_of_summary[-1]["role"] == "user"
        if request.dialect == "openai":
            check_openai(request_of_summary)
        else:
            check_anthropic(request_of_summary)
    if result.status in ("budget_impossible", "nothing_to_send"):
        assert result.messages == []
        return
    if request.dialect == "openai":
        check_openai(result.messages)
    else:
        check_anthropic(result.messages)


def check_shape(result: Assembly) -> None:
    """I28 and the closed sets."""
    assert result.status in STATUSES
    assert result.reason
    stats = result.stats
    assert set(stats) == set(STATS)
    for key, kind in STATS.items():
        assert isinstance(stats[key], kind), key
        assert type(stats[key]) is not bool or kind is bool, key
        if kind is int:
            assert stats[key] >= 0, key
    assert set(stats["compression"]) == set(COMPRESSION)
    for key, kind in COMPRESSION.items():
        assert type(stats["compression"][key]) is kind, key
    assert set(stats["tokens_by_category"]) == CATEGORIES
    assert stats["status"] == result.status
    assert len(result.sources) == len(result.messages) == stats["messages_out"]
    for entry in result.synthetic:
        assert entry.kind in KINDS
        assert 0 <= entry.position < len(result.messages)


def check_ledger(request: AssemblyRequest, result: Assembly) -> None:
    """I20 and I21: one line a row, sums that agree, a handle where bytes are missing."""
    count = choose_counter(request.counter)
    stored = sorted(request.messages, key=lambda message: message.id)
    assert [line.id for line in result.ledger] == [message.id for message in stored]
    total = 0
    for line, message in zip(result.ledger, stored, strict=True):
        assert line.disposition in DISPOSITIONS
        assert line.reason
        expected = count(message.content) + sum(
            count(call.name) + count(call.arguments) for call in message.tool_calls
        )
        assert line.tokens_in == expected
        total += expected
        whole = line.disposition in ("kept", "pinned", "displaced")
        assert (line.handle is None) == whole
        if line.handle is not None:
            assert line.handle == f"ctx://{request.mysis}/{message.id}"
    assert result.stats["tokens_in"] == total
    tally = [line.disposition for line in result.ledger]
    stats = result.stats
    assert stats["orphans"] == tally.count("orphan")
    assert stats["displaced"] == tally.count("displaced")
    assert stats["truncated"] == tally.count("truncated")
    assert stats["messages_in"] == len(stored)


def check_sources(request: AssemblyRequest, result: Assembly) -> None:
    """Each message of the view is a stored one or listed as made up, never both."""
    made_up = {entry.position for entry in result.synthetic}
    flat: list[int] = []
    for position, source in enumerate(result.sources):
        ids = source if isinstance(source, list) else [source]
        flat.extend(number for number in ids if number is not None)
        assert source is not None or position in made_up
    assert len(flat) == len(set(flat))
    present = {
        line.id
        for line in result.ledger
        if line.disposition in ("kept", "masked", "truncated", "displaced")
    }
    if request.dialect == "anthropic":  # its system text is no message
        present -= {m.id for m in request.messages if m.origin == "prompt"}
    if result.status != "nothing_to_send":
        assert present <= set(flat)
    system = flat[:1] if result.messages and _starts_with_system(result) else []
    talk = flat[len(system) :]
    heads = [n for n in talk if _role(request, n) != "tool"]
    assert heads == sorted(heads), "stored order (I10)"


def _starts_with_system(result: Assembly) -> bool:
    return result.messages[0]["role"] == "system" and result.sources[0] is not None


def _role(request: AssemblyRequest, number: int) -> str:
    return next(m.role for m in request.messages if m.id == number)


def texts_of(result: Assembly) -> list[str]:
    """Every text of a view, in order."""
    texts = [result.system] if result.system else []
    for message in result.messages:
        content = message["content"]
        if isinstance(content, str):
            texts.append(content)
        for block in content if isinstance(content, list) else []:
            texts.append(block.get("text") or block.get("content") or "")
    return texts


def tokens_of(request: AssemblyRequest, result: Assembly) -> int:
    """The size of a view by the contract: contents, call names and arguments."""
    count = choose_counter(request.counter)
    total = sum(map(count, texts_of(result)))
    for message in result.messages:
        for call in message.get("tool_calls", []):
            function = call["function"]
            total += count(function["name"]) + count(function["arguments"])
    return total
