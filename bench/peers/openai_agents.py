"""The OpenAI Agents SDK's SQLAlchemySession, on asyncpg."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from importlib import import_module
from itertools import islice
from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine

from bench.peers.workload import NEWEST, Store, Turn, main

TURNS_AT_ONCE = 1_000
# By its name: to the tools that check this tree `agents` is a package of Zoea.
SQLAlchemySession: Any = import_module("agents.extensions.memory").SQLAlchemySession


class OpenAIAgents(Store):
    packages = ("openai-agents", "sqlalchemy", "asyncpg")

    def __init__(self, url: str) -> None:
        # One loop for all calls: an engine's connections belong to theirs.
        self.loop = asyncio.new_event_loop()
        self.engine = create_async_engine(
            url.replace("postgresql:", "postgresql+asyncpg:")
        )
        self.session: Any = None

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        self.open(conversation)
        source = iter(turns)
        while some := list(islice(source, TURNS_AT_ONCE)):
            items = [item for turn in some for item in _items(turn)]
            self.loop.run_until_complete(self.session.add_items(items))

    def open(self, conversation: str) -> None:
        self.session = SQLAlchemySession(
            conversation, engine=self.engine, create_tables=True
        )

    def append(self, turn: Turn) -> None:
        self.loop.run_until_complete(self.session.add_items(_items(turn)))

    def fetch(self) -> int:
        return len(self.loop.run_until_complete(self.session.get_items(limit=NEWEST)))

    def close(self) -> None:
        self.loop.run_until_complete(self.engine.dispose())
        self.loop.close()


def _items(turn: Turn) -> list[dict[str, str]]:
    return [
        {
            "type": "function_call",
            "call_id": turn.call_id,
            "name": turn.tool,
            "arguments": turn.arguments,
        },
        {
            "type": "function_call_output",
            "call_id": turn.call_id,
            "output": turn.result,
        },
    ]


if __name__ == "__main__":
    main(OpenAIAgents)
