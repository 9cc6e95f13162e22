"""Our own MCP server: the fleet and its memory, for programs and agents outside.

Streamable HTTP, one request at a time, no sessions: nothing is stored between requests,
so any web process may answer any of them. The gate in ``zoea.mcp`` finds the caller.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from django.utils import timezone
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from agents.context_inputs import preview_context
from agents.dashboard.context import build_preview_document, mask_document
from agents.dashboard.yield_board import (
    YieldView,
    describe_board,
    describe_line,
    load_board,
)
from agents.dashboard.yields import GROUPINGS, parse_span
from agents.db import run_long_in_db
from agents.lab import mcp_tools
from agents.record_search import RECORDS, describe_hit, search_records
from agents.tools.guard import ArgumentsError, check_arguments
from agents.tools.own_tool_answers import (
    Answer,
    LocalRefusedError,
    Scope,
    list_matches,
    make_answer,
    make_excerpt,
    read_search,
    refuse_failures,
)
from agents.tools.own_tools import (
    ANSWERS,
    FOR_PROGRAMS,
    MYSIS,
    ORDERING,
    SEARCH_BY_PROGRAMS,
    SENDING,
    define_tool,
    text_field,
)
from agents.tools.request import Tool
from memory.audit import NOBODY, Actor, acting_as
from memory.models.secret_tools import read_secret_tools
from memory.problems import find_busy
from memory.redaction import hide_secret_texts, hide_secrets, sealed

MOST_BODY_BYTES = 1024 * 1024
INSTRUCTIONS = (
    "Zoea flies a fleet of agents (Myses) in the game SpaceMolt. zoea_list_myses and "
    "zoea_swarm_status tell how they are; zoea_search_messages, "
    "zoea_search_reasoning and zoea_search_broadcasts find what they said, thought "
    "and were told, zoea_search_records what stands beside that; zoea_recall gets a "
    "message back in full by its handle; "
    "zoea_send_order gives orders, zoea_list_orders tells what became of them; "
    "zoea_preview_context shows what a Mysis would be sent next; zoea_yield tells who "
    "earns what; "
    "zoea_start_replay proves on recorded calls which context policy is better, and "
    "zoea_read_replay tells; zoea_predict_price tells what a setting would cost an hour, "
    "zoea_recommend_policy the cheapest policy that lost nothing, zoea_analytics what "
    "came of prompts, policies and models. A Mysis is named by "
    "its number or its name."
)

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any]

_PREVIEW = define_tool(
    "zoea_preview_context",
    "What the next model call of a Mysis would be sent, message by message, with what "
    "became of every stored message and why. Writes nothing.",
    {
        "mysis_id": MYSIS,
        "strategy": text_field("Another strategy than that of its policy"),
    },
    ["mysis_id"],
)

_YIELD = define_tool(
    "zoea_yield",
    "What the fleet earns: credits an hour, per 1,000 tokens and per dollar, best first, "
    "with failed actions and idle share, and what changes of prompts, policies and models "
    "brought.",
    {
        "by": text_field("By what (default mysis)", enum=list(GROUPINGS)),
        "since": text_field("The last minutes, hours or days: 90m, 1h (default), 7d"),
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 200,
            "description": "How many lines at most (default 50)",
        },
    },
    [],
)

_RECORDS = define_tool(
    "zoea_search_records",
    "Search what stands beside the messages: orders, events in words, acts (events that "
    "people brought about), versions of prompts, summaries, pins (standing orders). "
    "Returns the newest matches, oldest first.",
    {
        "kind": text_field("What is searched", enum=list(RECORDS)),
        "mysis_id": MYSIS,
        **SEARCH_BY_PROGRAMS,
    },
    ["kind", "query"],
)

# Those that need the role operator.
WRITING = SENDING | ORDERING | mcp_tools.WRITING

TOOLS: Mapping[str, Tool] = {
    **FOR_PROGRAMS,
    _PREVIEW.spec.name: _PREVIEW,
    _YIELD.spec.name: _YIELD,
    _RECORDS.spec.name: _RECORDS,
    **mcp_tools.TOOLS,
}


@dataclass(frozen=True, slots=True)
class Guest:
    """A caller who was let in. ``by`` is how the log names them, ``actor`` the audit log.

    ``may_send``: whether they may write to Myses. ``throttle`` counts one write and
    returns the seconds to wait before it may be done.
    """

    by: str
    role: str
    may_send: bool
    throttle: Callable[[], float]
    actor: Actor = NOBODY


async def answer_request(
    scope: AsgiScope, receive: Receive, send: Send, guest: Guest
) -> None:
    manager = StreamableHTTPSessionManager(
        _make_server(guest),
        json_response=True,
        stateless=True,
        max_request_body_size=MOST_BODY_BYTES,
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


def _make_server(guest: Guest) -> Server[Any]:
    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_describe(tool) for tool in _offered_tools(guest)]
        )

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            found = await run_long_in_db(
                _call_tool, params.name, params.arguments or {}, guest
            )
        except (ArgumentsError, LocalRefusedError) as error:
            return _refuse(str(error))
        except Exception as error:
            problem = find_busy(error)
            if problem is not None:
                return _refuse(problem.detail)
            # The SDK would send the exception's text to the caller.
            logger.exception("A tool call over MCP failed")
            return _refuse("the server failed; its log says why.")
        texts = [types.TextContent(text=block) for block in found.blocks]
        return types.CallToolResult(content=list(texts), structured_content=found.value)

    return Server(
        "zoea",
        version="1",
        title="Zoea",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _refuse(words: str) -> types.CallToolResult:
    text = types.TextContent(text=f"Error: {words}")
    return types.CallToolResult(content=[text], is_error=True)


def _describe(tool: Tool) -> types.Tool:
    writes = tool.spec.name in WRITING
    return types.Tool(
        name=tool.spec.name,
        description=tool.spec.description,
        input_schema=tool.spec.parameters,
        annotations=types.ToolAnnotations(
            read_only_hint=not writes,
            destructive_hint=False,
            idempotent_hint=not writes,
            open_world_hint=False,
        ),
    )


def _offered_tools(guest: Guest) -> list[Tool]:
    return [
        each for name, each in TOOLS.items() if guest.may_send or name not in WRITING
    ]


def _call_tool(name: str, given: Mapping[str, Any], guest: Guest) -> Answer:
    """Call one tool; raises LocalRefusedError or ArgumentsError."""
    tool = TOOLS.get(name)
    if tool is None:
        listed = ", ".join(each.spec.name for each in _offered_tools(guest))
        raise LocalRefusedError(f"There is no tool {name[:100]!r}. There are {listed}.")
    if name in WRITING:
        _check_may_send(guest)
    arguments = check_arguments(given, tool)
    scope = Scope(guest.by, secret=read_secret_tools())
    with refuse_failures(), acting_as(guest.actor):
        sealed.expire()
        found = _ANSWERS[name](arguments, scope)
    return Answer(
        hide_secret_texts(found.value), tuple(map(hide_secrets, found.blocks))
    )


def _check_may_send(guest: Guest) -> None:
    if not guest.may_send:
        raise LocalRefusedError(f"This needs the role operator; yours is {guest.role}.")
    wait = guest.throttle()
    if wait:
        seconds = max(1, math.ceil(wait))
        raise LocalRefusedError(f"Too many requests: try again in {seconds} s.")


def _preview(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    mysis = scope.find_target(arguments.get("mysis_id"))
    prepared = preview_context(mysis, strategy=arguments.get("strategy"))
    document = mask_document(build_preview_document(prepared))
    # Who asks over MCP is a model too, and pays for every schema.
    return make_answer({k: v for k, v in document.items() if k != "tools"})


def _answer_yield(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    since = arguments.get("since", "1h")
    if parse_span(since) is None:
        raise LocalRefusedError("since: give 90m, 6h or 7d, of 5m to 31d.")
    view = YieldView(arguments.get("by", "mysis"), since)
    board = load_board(view, timezone.now())
    told = describe_board(board)
    for row in (told, *told["marks"]):
        name = "since" if "since" in row else "at"
        row[name] = row[name].isoformat(timespec="seconds")
    lines = board.lines[: int(arguments.get("limit", 50))]
    more = {"lines": len(board.lines), "items": [describe_line(line) for line in lines]}
    return make_answer(told | more)


def _answer_records(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    search = read_search(arguments)
    reference = arguments.get("mysis_id")
    mysis = None if reference is None else scope.find_target(reference)
    hits = search_records(
        arguments["kind"], mysis_id=None if mysis is None else mysis.pk, **search
    )
    found = []
    for hit in reversed(hits):
        told = describe_hit(hit)
        told["text"] = make_excerpt(hit.text, search["query"])
        told["timestamp"] = hit.timestamp.isoformat(timespec="seconds")
        found.append(told)
    return list_matches(found)


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any], Scope], Answer]] = {
    **ANSWERS,
    _PREVIEW.spec.name: _preview,
    _YIELD.spec.name: _answer_yield,
    _RECORDS.spec.name: _answer_records,
    **mcp_tools.ANSWERS,
}
