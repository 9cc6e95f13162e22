"""What our own tools are called, take and do, in the words that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from agents.tools.request import Tool
from agents.tools.searches import DEFAULT_LIMIT, LONGEST_QUERY, MOST_HITS
from agents.tools.swarm import DEFAULT_LISTED, MOST_LISTED
from agents.tools.types import ToolSpec
from memory.context.policy import policy_by_name
from memory.recall import LARGEST_PART

Schema = dict[str, Any]

SENDING = frozenset({"zoea_send_message", "zoea_broadcast"})
"""These act; they are offered only where the Mysis's policy allows it."""

_YOURSELF: Schema = {
    "type": ["integer", "string"],
    "description": "Yourself; leave it out",
}
_MYSIS: Schema = {
    "type": ["integer", "string"],
    "description": "The number or the name of a Mysis",
}
_MESSAGE: Schema = {"type": "string", "description": "What to say"}
_SEARCH: Mapping[str, Schema] = {
    "query": {
        "type": "string",
        "maxLength": LONGEST_QUERY,
        "description": "Words that must all occur",
    },
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
# Not for Myses: each argument more is paid for in every call of a model.
_SEARCH_BY_PROGRAMS: Mapping[str, Schema] = {
    **_SEARCH,
    "ignore_case": {
        "type": "boolean",
        "description": "For exact: upper and lower case are one",
    },
    "stem": {
        "type": "boolean",
        "description": "For fts: by English stems, so that mining finds mined",
    },
}
_RECALL: Mapping[str, Schema] = {
    "handle": {
        "type": "string",
        "description": "ctx://<mysis>/<message id>, or state://<tool>",
    },
    "offset": {
        "type": "integer",
        "minimum": 0,
        "description": "The character to begin at (default 0)",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": LARGEST_PART,
        "description": f"How many characters at most (default {LARGEST_PART})",
    },
}
_LISTING: Mapping[str, Schema] = {
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_LISTED,
        "description": f"How many at most (default {DEFAULT_LISTED})",
    },
    "after": {
        "type": "integer",
        "minimum": 0,
        "description": "`next` of the answer before, for more",
    },
}

_NEWEST = "Returns the newest matches, oldest first."


def tool(
    name: str,
    description: str,
    properties: Mapping[str, Schema],
    required: Iterable[str] = (),
) -> Tool:
    """One of our own tools, with its arguments checked against this schema."""
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
    }
    policy = policy_by_name(name)
    spec = ToolSpec(name, description, schema, policy, read_only=name not in SENDING)
    return Tool(spec, validator=Draft202012Validator(schema), local=True)


def _table(*tools: Tool) -> Mapping[str, Tool]:
    return {each.spec.name: each for each in tools}


FOR_MYSES = _table(
    tool(
        "zoea_search_messages",
        "Search your own past messages, also those that your context no longer "
        f"shows. {_NEWEST}",
        {**_SEARCH, "mysis_id": _YOURSELF},
        ["query"],
    ),
    tool(
        "zoea_search_reasoning",
        f"Search your own past reasoning. {_NEWEST}",
        {**_SEARCH, "mysis_id": _YOURSELF},
        ["query"],
    ),
    tool(
        "zoea_search_broadcasts",
        f"Search the broadcasts that you received or sent. {_NEWEST}",
        _SEARCH,
        ["query"],
    ),
    tool(
        "zoea_recall",
        "Get back in full what your context shows shortened: ctx:// handles are "
        "messages, state://<tool> is the newest answer of a state tool without "
        "asking the game. Long texts come in parts.",
        _RECALL,
        ["handle"],
    ),
    tool("zoea_swarm_status", "How many Myses of the fleet are in which state.", {}),
    tool(
        "zoea_list_myses",
        "The Myses of the fleet: number, name, state, game account.",
        _LISTING,
    ),
    tool(
        "zoea_send_message",
        "Write to another Mysis. An idle one wakes.",
        {"mysis_id": _MYSIS, "message": _MESSAGE},
        ["mysis_id", "message"],
    ),
    tool(
        "zoea_broadcast",
        "Write to every other Mysis that is idle or running.",
        {"message": _MESSAGE},
        ["message"],
    ),
)
"""As a Mysis sees them: about itself, nobody else's memory."""

FOR_PROGRAMS = _table(
    tool(
        "zoea_search_messages",
        f"Search the messages of one Mysis. {_NEWEST}",
        {"mysis_id": _MYSIS, **_SEARCH_BY_PROGRAMS},
        ["mysis_id", "query"],
    ),
    tool(
        "zoea_search_reasoning",
        f"Search what one Mysis thought. {_NEWEST}",
        {"mysis_id": _MYSIS, **_SEARCH_BY_PROGRAMS},
        ["mysis_id", "query"],
    ),
    tool(
        "zoea_search_broadcasts",
        f"Search all broadcasts. {_NEWEST}",
        _SEARCH_BY_PROGRAMS,
        ["query"],
    ),
    tool(
        "zoea_recall",
        "The stored text behind a handle: ctx://<mysis>/<message id>, or "
        "state://<tool> with the mysis_id whose game state is meant. Long texts come "
        "in parts.",
        {**_RECALL, "mysis_id": _MYSIS | {"description": "For state:// handles"}},
        ["handle"],
    ),
    tool("zoea_swarm_status", "How many Myses are in which state.", {}),
    tool(
        "zoea_list_myses",
        "The Myses: number, name, state, account, model, what they do, last error.",
        _LISTING,
    ),
    tool(
        "zoea_send_message",
        "Write to one Mysis as its operator. An idle one wakes.",
        {"mysis_id": _MYSIS, "message": _MESSAGE},
        ["mysis_id", "message"],
    ),
    tool(
        "zoea_broadcast",
        "Write to every Mysis that is idle or running.",
        {"message": _MESSAGE},
        ["message"],
    ),
)
"""As programs outside see them, over MCP."""
