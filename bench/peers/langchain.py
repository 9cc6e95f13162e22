"""LangChain's PostgresChatMessageHistory, which reads a whole history or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice

import psycopg
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_postgres import PostgresChatMessageHistory

from bench.peers.workload import Store, Turn, main

TABLE = "chat_history"
TURNS_AT_ONCE = 1_000


class LangChain(Store):
    """A session of a chat history."""

    packages = ("langchain-postgres", "langchain-core", "psycopg")

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url)
        self.history: PostgresChatMessageHistory

    def create(self) -> None:
        PostgresChatMessageHistory.create_tables(self.connection, TABLE)

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        self.open(conversation)
        source = iter(turns)
        while some := list(islice(source, TURNS_AT_ONCE)):
            self.history.add_messages([m for turn in some for m in _messages(turn)])

    def open(self, conversation: str) -> None:
        self.history = PostgresChatMessageHistory(
            TABLE, conversation, sync_connection=self.connection
        )

    def append(self, turn: Turn) -> None:
        self.history.add_messages(_messages(turn))

    def fetch(self) -> int:
        return len(self.history.get_messages())

    def close(self) -> None:
        self.connection.close()


def _messages(turn: Turn) -> list[BaseMessage]:
    arguments = json.loads(turn.arguments)
    call = {"id": turn.call_id, "name": turn.tool, "args": arguments}
    return [
        AIMessage(content="", tool_calls=[call]),
        ToolMessage(content=turn.result, tool_call_id=turn.call_id, name=turn.tool),
    ]


if __name__ == "__main__":
    main(LangChain)
