"""Zoea's own log, through what its turns call; for ``bench.processes`` to run.

A context is assembled, not only read: rows, units, budget, a ledger of every message left
out. An answer is stored with its pending call, its cost and its events before the call's
result. Each is what a turn does; the call between them is stored, but not timed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from django.core.management import call_command

from agents import actions
from agents.llm.endpoints import resolve
from agents.llm.model_types import Completion, Usage
from agents.models import Mysis
from agents.runtime.answers import record_answer, record_result
from agents.runtime.model_calls import ReadyCall, assemble_next, persist_call
from agents.runtime.turn_rows import TurnHandle, begin_turn
from agents.tool_catalogue import remember_tools
from agents.tools.request import Outcome, ToolSpec
from bench.peers import workload
from bench.peers.workload import HITS, Store, Turn, chat_messages
from memory.assembly.prepare import PreparedRequest
from memory.context.tokens import estimate_tokens
from memory.context.types import ToolCall
from memory.models import ContextPolicy, Memory
from memory.search.results import search_messages
from zoea.commandline import close_connections

POLICIES = {
    "mine": "mutation",
    "get_status": "snapshot",
    "view_market": "snapshot",
    "travel": "mutation",
}
ROWS_AT_ONCE = 2_000
ANSWER_TOKENS = 40


class Zoea(Store):
    """A running Mysis in the middle of a turn, under one strategy."""

    packages = ("django", "psycopg")

    def __init__(self, url: str, strategy: str = "window") -> None:
        # The address is the process's own database, by its settings.
        del url
        self.strategy = strategy
        self.handle: TurnHandle
        self.prepared: PreparedRequest
        self.ready: ReadyCall
        self.calls = 0

    def create(self) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        ContextPolicy.objects.get_or_create(
            name=self.strategy, defaults={"strategy": self.strategy}
        )
        remember_tools(_tool_specs())

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        policy = ContextPolicy.objects.get(name=self.strategy)
        mysis = actions.create_mysis(name=conversation, policy=policy, by="bench")
        rows = (row for turn in turns for row in _rows(mysis, turn))
        Memory.objects.bulk_create(rows, batch_size=ROWS_AT_ONCE)

    def open(self, conversation: str) -> None:
        mysis = Mysis.objects.get(name=conversation)
        if mysis.state == Mysis.State.RUNNING:
            mysis = actions.stop_mysis(mysis=mysis, by="bench")
        mysis = actions.start_mysis(mysis=mysis, by="bench")
        handle = begin_turn(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
        if handle is None:
            raise RuntimeError("The turn did not begin.")
        self.handle, self.calls = handle, 0

    def fetch(self) -> int:
        self.prepared = assemble_next(self.handle)
        return len(self.prepared.request.messages)

    def settle(self) -> None:
        self.calls += 1
        self.ready = persist_call(
            self.handle, self.calls, resolve(self.handle.model), self.prepared
        )

    def append(self, turn: Turn) -> None:
        answer = Completion(
            text="",
            tool_calls=(ToolCall(turn.call_id, turn.tool, turn.arguments),),
            usage=Usage(self.ready.estimated, ANSWER_TOKENS),
        )
        [call] = record_answer(self.handle, self.ready, answer, latency_ms=1)
        record_result(self.handle, call, Outcome((turn.result,)))

    def search(self, word: str) -> int:
        found = search_messages(query=word, mysis_id=self.handle.mysis_id, limit=HITS)
        return len(found)

    def close(self) -> None:
        close_connections()


def run(step: Callable[[str], None], *words: str) -> dict[str, Any]:
    """The other side of the driver, called by ``bench.processes``."""
    del step
    return workload.run(Zoea, words)


def _tool_specs() -> list[ToolSpec]:
    schema = {"type": "object", "properties": {"target": {"type": "string"}}}
    return [
        ToolSpec(name, f"Do {name}.", schema, policy, read_only=policy == "snapshot")
        for name, policy in POLICIES.items()
    ]


def _rows(mysis: Mysis, turn: Turn) -> list[Memory]:
    answer, result = chat_messages(turn)
    return [
        Memory(
            mysis=mysis,
            role="assistant",
            origin="agent",
            tool_calls=answer["tool_calls"],
            tokens=ANSWER_TOKENS,
        ),
        Memory(
            mysis=mysis,
            role="tool",
            origin="tool",
            content=result["content"],
            tool_call_id=turn.call_id,
            tool_name=turn.tool,
            args=json.loads(turn.arguments),
            tokens=estimate_tokens(result["content"]),
        ),
    ]
