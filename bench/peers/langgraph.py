"""LangGraph's PostgresSaver, under a graph whose state is its messages.

A turn is one ``update_state``, so one checkpoint: a graph that runs makes one for each of
its steps. ``delta`` keeps the messages in a ``DeltaChannel`` (beta), which stores what
was added in place of the whole list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer

from bench.peers.workload import Store, Turn, main


class DeltaState(TypedDict):
    """Messages of which each checkpoint stores what is new."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class LangGraph(Store):
    packages = ("langgraph", "langgraph-checkpoint-postgres", "psycopg")

    def __init__(self, url: str, kind: str = "messages") -> None:
        self.stack = ExitStack()
        self.saver = self.stack.enter_context(PostgresSaver.from_conn_string(url))
        graph = StateGraph(DeltaState if kind == "delta" else MessagesState)
        graph.add_node("agent", lambda state: {})
        graph.add_edge(START, "agent")
        self.graph = graph.compile(checkpointer=self.saver)
        self.config: dict[str, Any] = {}

    def create(self) -> None:
        self.saver.setup()

    def fill(self, conversation: str, turns: Iterable[Turn]) -> None:
        self.open(conversation)
        self._add([message for turn in turns for message in _messages(turn)])

    def open(self, conversation: str) -> None:
        self.config = {"configurable": {"thread_id": conversation}}

    def append(self, turn: Turn) -> None:
        self._add(_messages(turn))

    def fetch(self) -> int:
        return len(self.graph.get_state(self.config).values["messages"])

    def close(self) -> None:
        self.stack.close()

    def _add(self, messages: list[BaseMessage]) -> None:
        self.graph.update_state(self.config, {"messages": messages}, as_node="agent")


def _messages(turn: Turn) -> list[BaseMessage]:
    arguments = json.loads(turn.arguments)
    call = {"id": turn.call_id, "name": turn.tool, "args": arguments}
    return [
        AIMessage(content="", tool_calls=[call]),
        ToolMessage(content=turn.result, tool_call_id=turn.call_id, name=turn.tool),
    ]


if __name__ == "__main__":
    main(LangGraph)
