"""Our own tools, offered to every Mysis beside the game's: search of its memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from jsonschema import Draft202012Validator

from agents.models import Mysis
from agents.search import search_broadcasts
from agents.tools.crossing import cross
from agents.tools.request import CallNext, Outcome, Request, Tool, refusal
from agents.tools.types import ToolSpec
from memory.context.policy import policy_by_name
from memory.search import search_messages

DEFAULT_LIMIT = 20
MOST_HITS = 100
LONGEST_CONTENT = 2000


class LocalRefusedError(Exception):
    """A call of one of our own tools that cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for, and in which way."""

    query: str
    mode: Literal["fts", "exact"]
    limit: int


Found = list[dict[str, Any]]


async def local(request: Request, call_next: CallNext) -> Outcome:
    """Answer our own tools here; pass everything else on."""
    tool = request.tool
    if tool is None or not tool.local:
        return await call_next(request)
    try:
        found = await cross(_search, request)
    except LocalRefusedError as error:
        return refusal("invalid_arguments", str(error))
    answer = {"count": len(found), "matches": found}
    return Outcome((json.dumps(answer, ensure_ascii=False, indent=2),))


def _search(request: Request) -> Found:
    arguments, mysis_id = request.arguments, request.seat.mysis_id
    if not _means_itself(arguments.get("mysis_id"), mysis_id):
        raise LocalRefusedError(
            "Argument 'mysis_id' names another Mysis, whose history is its own: "
            "leave it out to search yours."
        )
    query = arguments["query"].replace("\x00", "").strip()
    if not query:
        raise LocalRefusedError("Argument 'query' is empty: give words to look for.")
    mode: Literal["fts", "exact"] = (
        "exact" if arguments.get("mode") == "exact" else "fts"
    )
    limit = int(arguments.get("limit", DEFAULT_LIMIT))
    return _SEARCHES[request.name](mysis_id, Search(query, mode, limit))


def _means_itself(reference: object, mysis_id: int) -> bool:
    if reference is None or str(reference) in ("", "self", str(mysis_id)):
        return True
    return Mysis.objects.filter(pk=mysis_id, name=str(reference)).exists()


def _messages(mysis_id: int, search: Search) -> Found:
    hits = search_messages(mysis_id=mysis_id, **asdict(search))
    return [
        {
            "memory_id": hit.memory_id,
            "role": hit.role,
            "source": hit.origin,
            "content": excerpt(hit.content, search.query),
            "timestamp": _stamp(hit.timestamp),
        }
        for hit in reversed(hits)
    ]


def _reasoning(mysis_id: int, search: Search) -> Found:
    hits = search_messages(mysis_id=mysis_id, reasoning=True, **asdict(search))
    return [
        {
            "memory_id": hit.memory_id,
            "role": hit.role,
            "source": hit.origin,
            "content": excerpt(hit.content, search.query),
            "reasoning": excerpt(hit.reasoning, search.query),
            "timestamp": _stamp(hit.timestamp),
        }
        for hit in reversed(hits)
    ]


def _broadcasts(mysis_id: int, search: Search) -> Found:
    hits = search_broadcasts(mysis_id=mysis_id, **asdict(search))
    return [
        {
            "broadcast_id": hit.id,
            "sender": hit.sender,
            "content": excerpt(hit.content, search.query),
            "timestamp": _stamp(hit.timestamp),
        }
        for hit in reversed(hits)
    ]


def excerpt(text: str, query: str) -> str:
    """A text short enough for a context: the part around the first word found."""
    if len(text) <= LONGEST_CONTENT:
        return text
    words = (query, *query.split())
    places = (text.casefold().find(word.casefold()) for word in words)
    at = next((place for place in places if place >= 0), 0)
    start = max(0, min(at - LONGEST_CONTENT // 4, len(text) - LONGEST_CONTENT))
    end = start + LONGEST_CONTENT
    left = len(text) - LONGEST_CONTENT
    lead, tail = "… " if start else "", " …" if end < len(text) else ""
    return f"{lead}{text[start:end]}{tail} ({left} characters not shown)"


def _stamp(moment: Any) -> str:
    return str(moment.isoformat(timespec="seconds"))


_SEARCHES: Mapping[str, Callable[[int, Search], Found]] = {
    "zoea_search_messages": _messages,
    "zoea_search_reasoning": _reasoning,
    "zoea_search_broadcasts": _broadcasts,
}

_WORDS = {
    "zoea_search_messages": "Search your own past messages, also those that your "
    "context no longer shows. Returns the newest matches, oldest first.",
    "zoea_search_reasoning": "Search your own past reasoning. Returns the newest "
    "matches, oldest first.",
    "zoea_search_broadcasts": "Search the broadcasts that you received or sent. "
    "Returns the newest matches, oldest first.",
}


def _tool(name: str, description: str) -> Tool:
    properties: dict[str, Any] = {
        "query": {"type": "string", "description": "Words that must all occur"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_HITS,
            "description": f"How many at most (default {DEFAULT_LIMIT})",
        },
        "mode": {
            "type": "string",
            "enum": ["fts", "exact"],
            "description": "fts: words (default); exact: the text letter for letter",
        },
    }
    if name != "zoea_search_broadcasts":
        properties["mysis_id"] = {
            "type": ["integer", "string"],
            "description": "Yourself; leave it out",
        }
    schema = {"type": "object", "properties": properties, "required": ["query"]}
    policy = policy_by_name(name)
    spec = ToolSpec(name, description, schema, policy, read_only=True)
    return Tool(spec, validator=Draft202012Validator(schema), local=True)


LOCAL_TOOLS: Mapping[str, Tool] = {
    name: _tool(name, description) for name, description in _WORDS.items()
}
