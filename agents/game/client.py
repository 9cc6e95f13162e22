"""One MCP session with the game server: the one wire by which the product meets the game.

Errors are told apart by what may have happened; refusals by the game itself (a full
hold, a wrong name) are answers. `connect` must be left by the task that entered it (the
SDK's task groups demand it); `sessions` sees to that. Nothing here knows of accounts.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agents.game import http as game_http

ResultT = TypeVar("ResultT", bound=types.Result)
CONNECT_SECONDS = 30.0
CALL_SECONDS = game_http.READ_SECONDS + 30.0
READ_CALL_SECONDS = 60.0
MAX_PAGES = 50
REMEDY = "check that it runs and that SPACEMOLT_MCP_URL names it."

# The SDK logs whole messages, passwords included, and each failure that comes
# back as an error here anyway.
logging.getLogger("mcp.client").setLevel(logging.CRITICAL)

logging.getLogger("mcp.shared").setLevel(logging.WARNING)

# -32600 "Session not initialized" and -32001: both say that nothing was run. -32001 is
# also the SDK's own code for a time-out; no time-out of its is used.
_SESSION_GONE = (types.INVALID_REQUEST, types.REQUEST_TIMEOUT)

# The SDK's own words: a server may use these codes for what it refuses.
_REPLY_GONE = {
    types.CONNECTION_CLOSED: ("Connection closed", "SSE stream"),
    types.PARSE_ERROR: ("Failed to parse",),
}


class GameCallError(Exception):
    """A call without an answer; ``detail`` is one sentence for people.

    ``retry_after`` is in seconds, None where the server asked for nothing.
    """

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after


class GameUnreachableError(GameCallError):
    """The server cannot be reached; nothing was executed."""


class SecretMissingError(GameUnreachableError):
    """The game cannot be played by this process, which cannot read its secrets."""


class SessionLostError(GameCallError):
    """The server no longer knows the MCP session; nothing was executed."""


class RateLimitedError(GameCallError):
    """The server asks to wait; nothing was executed."""


class ReplyLostError(GameCallError):
    """The call went out and no readable reply came: its outcome is unknown."""


class ReplyTooLongError(ReplyLostError):
    """The reply is more than is taken; another one would be too."""


class ProtocolRefusalError(GameCallError):
    """The server answered with a JSON-RPC error instead of a tool result."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class GameTool:
    """One tool as the server lists it; ``read_only`` is None where it says nothing."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered: one text per content block.

    ``structured`` is the same as values, where the server gives them beside a text.
    """

    blocks: tuple[str, ...]
    is_error: bool = False
    structured: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Connection:
    """An MCP session and the tools that it listed last; ``server`` is what it is called."""

    session: ClientSession
    tools: tuple[GameTool, ...] = ()
    server: str = ""

    async def refresh(self) -> tuple[GameTool, ...]:
        """Ask for the tools again; raises GameCallError."""
        found: list[GameTool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            request = types.ListToolsRequest(params=params)
            page = await self._ask(request, types.ListToolsResult)
            found += [_tool(tool) for tool in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        self.tools = _share_tools(tuple(found))
        return self.tools

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, reads_only: bool = False
    ) -> Answer:
        """Call one tool; raises GameCallError, but a refusal by the game is an Answer.

        A call that changes nothing is not held until a tick: it may take less long.
        """
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        with anyio.move_on_after(READ_CALL_SECONDS if reads_only else CALL_SECONDS):
            return _answer(await self._ask(request, types.CallToolResult))
        raise ReplyLostError(f"The game server did not finish {name} in time.")

    async def _ask(self, request: Any, result_type: type[ResultT]) -> ResultT:
        try:
            return await self.session.send_request(request, result_type)
        except MCPError as error:
            raise _failure_of(error) from error
        except ValidationError:
            # The text of the error would quote the answer, secrets included.
            raise ReplyLostError(
                "The game server gave an answer that is not MCP."
            ) from None


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Connection]:
    """Open a session and list its tools; raises GameUnreachableError, RateLimitedError."""
    _check_address(url)
    async with (
        game_http.McpHttpClient() as http,
        streamable_http_client(
            url, http_client=http, max_sse_event_size=game_http.MAX_BYTES
        ) as (read, write),
        ClientSession(read, write) as session,
    ):
        connection = Connection(session)
        # Raised inside, it would come out wrapped in groups by the task groups.
        failure = await _open(connection, url)
        if failure is None:
            yield connection
    if failure is not None:
        raise failure


async def _open(connection: Connection, url: str) -> GameCallError | None:
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            begun = await connection.session.initialize()
            connection.server = _name_server(begun.server_info)
            await connection.refresh()
    except MCPError as error:
        found = _failure_of(error)
    except GameCallError as error:
        found = error
    except TimeoutError:
        found = GameUnreachableError("does not answer")
    except (ValidationError, RuntimeError):
        found = GameUnreachableError("does not speak MCP as the game does")
    else:
        return None
    if isinstance(found, RateLimitedError):
        return found
    if "too many" in found.detail.lower():
        return RateLimitedError(found.detail)
    address = httpx2.URL(url).copy_with(userinfo=b"", query=None, fragment=None)
    return GameUnreachableError(
        f"The game server at {address} {_predicate(found)}: {REMEDY}"
    )


def _failure_of(error: MCPError) -> GameCallError:
    if error.code == game_http.FAILURE and isinstance(error.data, dict):
        return _http_failure(error)
    if error.code in _SESSION_GONE:
        return SessionLostError(f"The game server lost the session: {error.message}")
    if error.message.startswith(_REPLY_GONE.get(error.code, ())):
        return ReplyLostError("The game server broke off its answer.")
    return ProtocolRefusalError(error.code, error.message)


def _http_failure(error: MCPError) -> GameCallError:
    detail = f"The game server {error.message}."
    match error.data.get("failure"):
        case game_http.SESSION_LOST:
            return SessionLostError(detail)
        case game_http.RATE_LIMITED:
            return RateLimitedError(detail, error.data.get("retry_after"))
        case game_http.REPLY_LOST:
            return ReplyLostError(detail)
        case game_http.TOO_LONG:
            return ReplyTooLongError(detail)
    return GameUnreachableError(f"The game server {error.message}: {REMEDY}")


def _predicate(failure: GameCallError) -> str:
    detail = failure.detail.removeprefix("The game server ")
    detail = detail.removesuffix(f": {REMEDY}").removesuffix(".")
    if isinstance(failure, ProtocolRefusalError):
        return f"refuses a session ({detail})"
    return detail


def _check_address(url: str) -> None:
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        parsed = None
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host:
        raise GameUnreachableError(
            "SPACEMOLT_MCP_URL is not an http or https address: set it to the game's "
            "MCP endpoint, such as https://game.spacemolt.com/mcp."
        )


def _name_server(info: types.Implementation) -> str:
    """Such as "SpaceMolt (v2) 0.493.0"."""
    return f"{info.title or info.name} {info.version}"[:200]


# The lists of tools that were told last: one address may have servers of two versions.
_shared_tools: deque[tuple[GameTool, ...]] = deque(maxlen=4)


def _share_tools(found: tuple[GameTool, ...]) -> tuple[GameTool, ...]:
    """The list of another session where both are equal: it takes half of a session."""
    same = next((known for known in _shared_tools if known == found), None)
    if same is None:
        _shared_tools.append(found)
    return same or found


def _tool(tool: types.Tool) -> GameTool:
    hint = tool.annotations.read_only_hint if tool.annotations else None
    return GameTool(tool.name, tool.description or "", tool.input_schema, hint)


def _answer(result: types.CallToolResult) -> Answer:
    blocks = tuple(_text(block) for block in result.content)
    if not blocks and result.structured_content is not None:
        blocks = (json.dumps(result.structured_content, ensure_ascii=False),)
    return Answer(blocks or ("",), bool(result.is_error), result.structured_content)


def _text(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource):
        inner = block.resource
        if isinstance(inner, types.TextResourceContents):
            return inner.text
    return f"[{block.type}, not shown]"
