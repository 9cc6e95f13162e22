"""The server's list of tools as the tools that a Mysis may call."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry

from agents.game.accounts import ActiveAccount
from agents.game.client import GameCallError, GameTool, GameUnreachableError
from agents.game.sessions import GameSession
from agents.tools.request import FILLED_IN, UNUSABLE, Tool, ToolSpec
from memory.context.tool_calls import ToolFacts, build_policy_table, guess_policy
from memory.gamestate.values import parse_text

COMMANDS = "get_commands"
# How deep a schema may nest: real ones have up to some 10 levels.
MOST_LEVELS = 60
logger = logging.getLogger(__name__)

# The newest table of each server; made again when a connection lists other tools.
_tables: dict[str, tuple[Sequence[GameTool], Mapping[str, Tool]]] = {}


async def load_game_tools(
    session: GameSession, card: ActiveAccount | None
) -> Mapping[str, Tool]:
    """The game's tools by name; raises GameUnreachableError."""
    listed = await session.tools()
    url: str = settings.SPACEMOLT_MCP_URL
    known = _tables.get(url)
    if known is not None and known[0] == listed:
        return known[1]
    marks: Mapping[str, bool] | None = {}
    if any(tool.read_only is None for tool in listed):
        marks = await _ask_marks(session, listed, card)
    table = build_tools(listed, marks or {})
    if marks is not None:
        _tables[url] = (listed, table)
    return table


def build_tools(
    listed: Sequence[GameTool], marks: Mapping[str, bool]
) -> dict[str, Tool]:
    """Build the table from a list of tools and the server's marks of mutations (A1)."""
    facts = [ToolFacts(t.name, t.read_only, marks.get(t.name)) for t in listed]
    policies = build_policy_table(facts)
    return {tool.name: _tool(tool, policies[tool.name]) for tool in listed}


def _tool(tool: GameTool, policy: str) -> Tool:
    schema = _copy_schema(tool)
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = _list_required(schema)
    # A name that is required and not described is still asked for: anything will do.
    properties |= {name: {} for name in required if name not in properties}
    hidden = FILLED_IN & set(properties)
    schema["type"] = "object"
    schema["properties"] = {k: v for k, v in properties.items() if k not in hidden}
    schema["required"] = [name for name in required if name not in hidden]
    spec = ToolSpec(
        name=tool.name,
        description=tool.description,
        parameters=schema,
        policy=policy,
        read_only=policy != "mutation" and _is_read_only(tool),
    )
    text = json.dumps(schema, sort_keys=True)
    return Tool(spec, hidden, hidden & set(required), _validator(text))


def _copy_schema(tool: GameTool) -> dict[str, Any]:
    """A tool's schema; one that nests deeper than any real one does says nothing."""
    deep = _is_deep(tool.schema)
    if deep:
        logger.warning("The schema of %s nests too deep to be used.", tool.name)
    return {} if deep else copy.deepcopy(dict(tool.schema))


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS):
        below: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                below.extend(each.values())
            elif isinstance(each, list):
                below.extend(each)
        level = below
    return bool(level)


def _list_required(schema: Mapping[str, Any]) -> list[str]:
    """The names that a schema requires; a server may have written anything there."""
    given = schema.get("required")
    names = given if isinstance(given, list) else []
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _is_read_only(tool: GameTool) -> bool:
    """Whether a tool changes nothing at all.

    The server's ``is_mutation`` is not enough: what takes no turn may still write
    (captains_log_add, API.md 1.8), so without an annotation the name must say it.
    """
    if tool.read_only is not None:
        return tool.read_only
    return guess_policy(tool.name) != "mutation"


@lru_cache(maxsize=1024)
def _validator(text: str) -> Validator | None:
    """A schema's validator, None if it is no schema. Checking one takes milliseconds."""
    schema = json.loads(text)
    try:
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
        # An empty registry: a reference to elsewhere is never fetched.
        return kind(schema, registry=Registry())
    except (SchemaError, *UNUSABLE):
        return None


async def _ask_marks(
    session: GameSession, listed: Sequence[GameTool], card: ActiveAccount | None
) -> Mapping[str, bool] | None:
    """What get_commands says of mutations; None where it could not be asked."""
    tool = next((tool for tool in listed if tool.name == COMMANDS), None)
    if tool is None:
        return {}
    arguments: dict[str, str] = {}
    if "session_id" in _list_required(tool.schema):
        if card is None or not card.session:
            return None
        arguments = {"session_id": card.session}
    try:
        answer = await session.call(COMMANDS, arguments)
    except GameUnreachableError:
        raise
    except GameCallError as error:
        logger.info("The game's list of commands was not read: %s", error.detail)
        return None
    return None if answer.is_error else read_marks("\n".join(answer.blocks))


def read_marks(text: str) -> dict[str, bool]:
    """``is_mutation`` by command name, out of a get_commands answer of any shape."""
    marks: dict[str, bool] = {}
    waiting = [parse_text(text)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            name, mark = item.get("name"), item.get("is_mutation")
            if isinstance(name, str) and isinstance(mark, bool):
                marks[name] = mark
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return marks
