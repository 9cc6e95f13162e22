"""The tools that each game server offered last, as they are stored.

A preview counts them without asking the game. A catalogue is tens of kilobytes that
hardly ever change, so what is derived from its text is kept in the process, by that text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from agents import db, statements
from agents.models import Mysis, ToolCatalogue, ToolPolicy
from agents.tools.own_tools import FOR_MYSES, REPORTING, SENDING
from agents.tools.request import Tool, ToolSpec, changes_nothing, route_command
from memory.context.tool_calls import is_own_tool
from memory.game_calls import GameCall, find_api_version, resolve_call
from memory.models import fetch_rows

NOTHING = "[]"
KEPT = 32
# In the stored list the mark of a tool that is not offered: its name is one of ours.
CLASHES = "clashes"
Described = dict[str, Any]
logger = logging.getLogger(__name__)
# What was compared last with the stored list, and when that was stored.
_compared: tuple[datetime, list[ToolSpec], tuple[str, ...]] | None = None
# The text of the stored list that was read last, and when it was stored.
_read_last: tuple[datetime | None, str] = (None, NOTHING)
_OFFER = f"""
SELECT updated_at,
  jsonb_path_query_array(tools, '$[*] ? (!exists(@.{CLASHES})).name')::text,
  jsonb_path_query_array(tools, '$[*] ? (exists(@.{CLASHES})).name')::text
FROM agents_toolcatalogue WHERE url = %s
"""  # noqa: S608 (no input in the text)


# --- What a context is made with


def get_read_at() -> datetime | None:
    """When the list was stored that this process has read; it need not be read again."""
    return _read_last[0]


def keep_text(stored_at: datetime | None, text: str | None) -> str:
    """The stored list of tools; no ``text`` is that of the one which was read last."""
    global _read_last
    if stored_at is None:
        return NOTHING
    if text is not None:
        _read_last = stored_at, text
    return _read_last[1]


def choose_more_tools(mysis: Mysis, *, reports: bool) -> tuple[str, ...]:
    """Those of our own tools that some Myses are offered, for this one."""
    sending = sorted(SENDING) if mysis.messaging else ()
    return (*sending, *(sorted(REPORTING) if reports else ()))


@lru_cache(maxsize=KEPT)
def list_tools(text: str, *, more: tuple[str, ...]) -> tuple[Described, ...]:
    """The stored list with ``more`` of our own; nothing where none is stored."""
    tools = tuple(tool for tool in json.loads(text) if CLASHES not in tool)
    if tools:
        tools += tuple(asdict(FOR_MYSES[name].spec) for name in more)
    return tools


# --- What a turn stores


def tools_are_stored(
    specs: Iterable[ToolSpec], clashing: Sequence[str], stored_at: datetime | None
) -> bool:
    """Whether the list that was ``stored_at`` a moment is known to be of these tools."""
    now = stored_at, _select_stored(specs), tuple(clashing)
    return _compared is not None and _compared == now


def remember_tools(specs: Iterable[ToolSpec], clashing: Sequence[str] = ()) -> None:
    """Store the tools of the game server where they have changed.

    ``clashing`` are names of ours that the server uses too: its tools are not offered.
    """
    global _compared
    offered = _select_stored(specs)
    found: list[Described] = [asdict(spec) for spec in offered]
    found += [{"name": name, CLASHES: True} for name in clashing]
    row = db.fetch_row(statements.TOOL_CATALOGUE, [settings.SPACEMOLT_MCP_URL])
    if row is None or found != json.loads(row[0]):
        kept, _ = ToolCatalogue.objects.update_or_create(
            url=settings.SPACEMOLT_MCP_URL, defaults={"tools": found}
        )
        stored_at = kept.updated_at
        if clashing:
            names = ", ".join(clashing)
            logger.warning("The game's %s are not offered: Zoea has such tools.", names)
    else:
        stored_at = row[1]
    _compared = stored_at, offered, tuple(clashing)


def _select_stored(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    # Those that some Myses are offered and some are not are not stored.
    return [spec for spec in specs if spec.name not in SENDING | REPORTING]


# --- What the log tells of


def read_actions() -> Callable[[str], bool]:
    """Whether a command of the log would change something, by the tools known last.

    As `Request.reads_only` tells it while a turn runs: one that no tool carries out could
    change nothing.
    """
    row = db.fetch_row(statements.TOOL_CATALOGUE, [settings.SPACEMOLT_MCP_URL])
    more = (*sorted(SENDING), *sorted(REPORTING))
    listed = list_tools(row[0] if row else NOTHING, more=more)
    tools = {one["name"]: Tool(ToolSpec(**one)) for one in listed}
    by_hand = dict(ToolPolicy.objects.values_list("tool", "policy"))

    def is_action(command: str) -> bool:
        call = _find_call(command, tools)
        tool = tools.get(call.tool) if call else None
        return (
            call is not None
            and tool is not None
            and not changes_nothing(tool, call, by_hand)
        )

    return is_action


def _find_call(command: str, tools: Mapping[str, Tool]) -> GameCall | None:
    """The call that a command of the log stands for; None where no tool carries it out."""
    if command in tools:
        return GameCall(command, command)
    tool, slash, _ = command.partition("/")
    if slash:
        # An action that is not known, of a tool with several.
        return GameCall(tool, command, grouped=True)
    route = route_command(command, tools)
    return resolve_call(route.tool, route.arguments) if route else None


# --- What the operator is shown


def read_known_tools() -> tuple[Described, ...]:
    """The tools that the game offered last, with ours; none before a first turn."""
    return list_tools(read_text(), more=())


def read_text() -> str:
    """The list of tools that the game offered last, as it is stored."""
    row = db.fetch_row(statements.TOOL_CATALOGUE, [settings.SPACEMOLT_MCP_URL])
    return row[0] if row else NOTHING


@dataclass(frozen=True, slots=True)
class GameOffer:
    """What the game server offered last: so many ``tools`` of this version of its API.

    ``address`` is without a password and a query. ``clashing`` are its tools that are
    not offered, as Zoea has such tools. Nothing is known before a first turn.
    """

    address: str
    tools: int = 0
    api_version: int = 0
    clashing: tuple[str, ...] = ()
    stored_at: datetime | None = None


def read_game_offer() -> GameOffer:
    """What the server that is set offered last, in one statement."""
    url: str = settings.SPACEMOLT_MCP_URL
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    rows = fetch_rows(_OFFER, [url])
    if not rows:
        return GameOffer(address)
    stored_at, offered, clashing = rows[0]
    names = [name for name in json.loads(offered) if not is_own_tool(name)]
    return GameOffer(
        address,
        len(names),
        find_api_version("", names),
        tuple(json.loads(clashing)),
        stored_at,
    )
