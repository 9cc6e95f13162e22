"""The server itself: streamable HTTP, one request at a time, no sessions.

Nothing is kept between requests, so any web process may answer any of them and a
restart is not noticed. Who asks is settled before, by the gate that mounts this.
"""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from agents.db import run_in_db
from agents.mcp.tools import Guest, RefusedError, call, offered
from agents.tools.own_tools import SENDING
from agents.tools.request import Tool
from memory.lookup import busy_problem

MOST_BODY_BYTES = 1024 * 1024
INSTRUCTIONS = (
    "Zoea flies a fleet of agents (Myses) in the game SpaceMolt. zoea_list_myses and "
    "zoea_swarm_status tell how they are; zoea_search_messages, "
    "zoea_search_reasoning and zoea_search_broadcasts find what they said, thought "
    "and were told; zoea_recall gets a message back in full by its handle; "
    "zoea_preview_context shows what a Mysis would be sent next. A Mysis is named by "
    "its number or its name."
)

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any]


async def answer(scope: Scope, receive: Receive, send: Send, guest: Guest) -> None:
    """Answer one HTTP request of a caller who was let in."""
    manager = StreamableHTTPSessionManager(
        make_server(guest),
        json_response=True,
        stateless=True,
        max_request_body_size=MOST_BODY_BYTES,
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


def make_server(guest: Guest) -> Server[Any]:
    """The server as one caller sees it."""

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in offered(guest)])

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            found = await run_in_db(call, params.name, params.arguments or {}, guest)
        except RefusedError as error:
            return _result((f"Error: {error}",), is_error=True)
        except Exception as error:
            problem = busy_problem(error)
            if problem is not None:
                return _result((f"Error: {problem.detail}",), is_error=True)
            # The SDK would send its text to the caller.
            logger.exception("A tool call over MCP failed")
            return _result(
                ("Error: the server failed; its log says why.",), is_error=True
            )
        return _result(found.blocks, value=found.value)

    return Server(
        "zoea",
        version="1",
        title="Zoea",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(
    blocks: tuple[str, ...],
    *,
    value: dict[str, Any] | None = None,
    is_error: bool = False,
) -> types.CallToolResult:
    content = [types.TextContent(type="text", text=block) for block in blocks]
    return types.CallToolResult(
        content=list(content), structured_content=value, is_error=is_error
    )


def _listed(tool: Tool) -> types.Tool:
    sends = tool.spec.name in SENDING
    return types.Tool(
        name=tool.spec.name,
        description=tool.spec.description,
        input_schema=tool.spec.parameters,
        annotations=types.ToolAnnotations(
            read_only_hint=not sends,
            destructive_hint=False,
            idempotent_hint=not sends,
            open_world_hint=False,
        ),
    )
