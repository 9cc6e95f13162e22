"""What of a stored message may be shown outside (A11, DESIGN section 7).

Every door shows memories through here: secrets are taken out once more, whatever the
texts went through on their way in, and calls of secret tools stay hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import connection

from .models import Memory
from .redaction import HIDDEN, clean_text

VERSION = "SELECT updated_at FROM agents_toolcatalogue WHERE url = %s"
NAMES = """
SELECT tool->>'name' FROM agents_toolcatalogue, jsonb_array_elements(tools) AS tool
WHERE url = %s AND tool->>'policy' = 'secret'
"""


def secret_tools() -> frozenset[str]:
    """The tools of the game whose calls nobody may read."""
    url: str = settings.SPACEMOLT_MCP_URL
    with connection.cursor() as cursor:
        cursor.execute(VERSION, [url])
        found = cursor.fetchone()
    return _secret_of(url, found[0]) if found else frozenset()


@lru_cache(maxsize=8)
def _secret_of(url: str, version: datetime) -> frozenset[str]:
    """Of one version of the game's tools: it is long, and searches are many."""
    with connection.cursor() as cursor:
        cursor.execute(NAMES, [url])
        return frozenset(name for (name,) in cursor.fetchall() if name)


def shown(row: Memory, secret: Collection[str]) -> Memory:
    """A row as it may leave, itself changed: it must not be saved."""
    row.content = HIDDEN if row.tool_name in secret else clean_text(row.content)
    row.reasoning = clean_text(row.reasoning)
    row.tool_calls = [_call(call, secret) for call in row.tool_calls]
    return row


def _call(call: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    if function["name"] in secret:
        arguments = HIDDEN
    elif isinstance(arguments, str):
        arguments = clean_text(arguments)
    return {**call, "function": {**function, "arguments": arguments}}
