"""Captains at the other end of a connection, by the product's client and another."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from agents.game.client import Answer, Connection, connect
from sandbox.game.testing import SandboxServer

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream"}


class Pilot:
    """An account and the calls in its name."""

    def __init__(self, connection: Connection, registered: dict[str, Any]) -> None:
        self.connection = connection
        self.password: str = registered["password"]
        self.given = {"session_id": registered["session_id"]}

    async def ask(self, tool: str, **arguments: Any) -> Answer:
        return await self.connection.call(tool, {**self.given, **arguments})

    async def view(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask(tool, **arguments)
        assert not answer.is_error, answer.blocks
        view: dict[str, Any] = json.loads(answer.blocks[0])
        return view


@asynccontextmanager
async def flying(sandbox: SandboxServer, name: str = "Ada") -> AsyncIterator[Pilot]:
    async with connect(sandbox.url) as connection:
        given = {"username": name, "empire": "solarian"}
        answer = await connection.call("register", given)
        yield Pilot(connection, json.loads(answer.blocks[0]))


class Remote:
    """A captain at the other end of an MCP connection."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.given: dict[str, str] = {}

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.session.call_tool(tool, {**self.given, **arguments})
        assert result.structured_content is None
        (block,) = result.content
        assert block.type == "text"
        assert result.is_error is block.text.startswith("Error: ")
        return block.text

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(await self.text(tool, **arguments))
        return view

    async def register(self, username: str) -> dict[str, Any]:
        view = await self.call("register", username=username, empire="solarian")
        self.given = {"session_id": view["session_id"]}
        return view


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Remote]:
    async with (
        streamable_http_client(url) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield Remote(session)
