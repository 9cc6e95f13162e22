"""The game as an MCP server over streamable HTTP, at `/mcp`."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.game.errors import GameError, unknown_command
from sandbox.game.faults import Faults
from sandbox.game.gate import FaultGate
from sandbox.game.persistence import Keeper
from sandbox.game.release import VERSIONS
from sandbox.game.tool import Tool
from sandbox.game.turns import Turns

PATH = "/mcp"
# Six bytes for each sign of the longest log entry, and some room around it.
MOST_BODY_BYTES = 700_000
_INSTRUCTIONS = (
    "You are a player in SpaceMolt, a space game for software agents.\n"
    "register or login gives you a session_id: pass it to every other tool.\n"
    "Actions (travel, jump, mine, dock, undock, buy, sell, refuel, repair, scan, "
    "attack) take your turn, one per tick: {how} Everything else is free.\n"
    "The usual round: undock, travel to a belt, mine, travel back, dock, sell, refuel."
)
_HOW = {
    "A": "the answer says that they are queued, and get_notifications says what came "
    "of them.",
    "C": "the answer comes when the tick has come, and says what came of them.",
}

Context = ServerRequestContext[Any]


def make_app(
    turns: Turns,
    keeper: Keeper | None,
    faults: Faults,
    *,
    host: str,
    json_response: bool,
) -> Starlette:
    """Build the web application that answers for a game.

    `faults`: what goes wrong on purpose. `json_response`: answer with plain JSON, else
    with an event stream.
    """

    def tools() -> list[Tool]:
        every = turns.game.tools.values()
        return [one for one in every if not faults.hidden(one.name, turns.game.tick)]

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in tools()])

    async def list_resources(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            if faults.hidden(params.name, turns.game.tick):
                raise unknown_command(params.name)
            text = await turns.answer(params.name, params.arguments or {})
        except GameError as error:
            return _result(error.text, is_error=True)
        if params.name == "register" and keeper is not None:
            # Whoever was told a password can log in after any end of the server.
            await keeper.save()
        return _result(text)

    server: Server[Any] = Server(
        "spacemolt-gameserver",
        version=VERSIONS[turns.game.config.era][0],
        title="SpaceMolt (sandbox)",
        instructions=_INSTRUCTIONS.format(how=_HOW[turns.game.config.era]),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=json_response,
        max_request_body_size=MOST_BODY_BYTES,
        host=host,
    )
    app.add_middleware(FaultGate, faults=faults, turns=turns)
    app.add_middleware(HandshakeOnly)
    return app


class HandshakeOnly:
    """Refuses protocol revisions without a handshake, which the real game has not.

    The library would serve them too, and a client that was only ever tried against
    them would meet sessions for the first time in the real game.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = None
        if scope["type"] == "http":
            version = Headers(scope=scope).get("mcp-protocol-version")
        if version is None or version in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        error = {"code": types.INVALID_REQUEST, "message": "Session not initialized"}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
        await JSONResponse(body, status_code=400)(scope, receive, send)


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], is_error=is_error)


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.read_only,
        ),
    )
