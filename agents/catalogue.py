"""The tools that models are shown, as the game server offered them last.

A catalogue is tens of kilobytes that hardly ever change, and every call needs it: what
is derived from its text is kept in the process, by that text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection

from memory.context.tokens import counter_for

from .models import ToolCatalogue
from .tools.offer import FOR_MYSES, SENDING
from .tools.types import ToolSpec

NOTHING = "[]"
KEPT = 8

Described = dict[str, Any]


def known_tools(*, messaging: bool = False) -> list[Described]:
    """The tools that the game server offered last; none before the first turn.

    With ``messaging`` those for sending as well.
    """
    return list(_tools(stored_text(), messaging=messaging))


def stored_text() -> str:
    """The catalogue of the game server as it is stored, JSON."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tools::text FROM agents_toolcatalogue WHERE url = %s",
            [settings.SPACEMOLT_MCP_URL],
        )
        row = cursor.fetchone()
    return row[0] if row else NOTHING


def policies_of(text: str, *, messaging: bool) -> Mapping[str, str]:
    """The policy of each tool of a stored catalogue, and of those for sending."""
    return {tool["name"]: tool["policy"] for tool in _tools(text, messaging=messaging)}


@lru_cache(maxsize=KEPT)
def tokens_of(text: str, *, messaging: bool, factor: float) -> int:
    """What the tool schemas cost, as they go over the wire."""
    shown = [
        {key: tool[key] for key in ("name", "description", "parameters")}
        for tool in _tools(text, messaging=messaging)
    ]
    return counter_for("estimate", factor)(json.dumps(shown)) if shown else 0


@lru_cache(maxsize=KEPT)
def _tools(text: str, *, messaging: bool) -> tuple[Described, ...]:
    tools = tuple(json.loads(text))
    if tools and messaging:
        tools += tuple(described(FOR_MYSES[name].spec) for name in sorted(SENDING))
    return tools


def remember_tools(specs: Iterable[ToolSpec]) -> None:
    """Keep the tools of the game server where they have changed.

    Those for sending are not kept: some Myses have them and some have not.
    """
    found = [described(spec) for spec in specs if spec.name not in SENDING]
    if found != known_tools():
        ToolCatalogue.objects.update_or_create(
            url=settings.SPACEMOLT_MCP_URL, defaults={"tools": found}
        )


def described(spec: ToolSpec) -> Described:
    """A tool as it is kept."""
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "policy": spec.policy,
        "read_only": spec.read_only,
    }
