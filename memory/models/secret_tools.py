"""The game's tools whose calls nobody may read: by the game's list, or set by hand (A11)."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache

from django.conf import settings

from memory.game_calls import WRAPPER, list_secret_names
from memory.models import fetch_rows

# What the list is made of changes hardly ever, and searches are many.
_VERSION = """
SELECT (SELECT updated_at FROM agents_toolcatalogue WHERE url = %s),
  (SELECT max(updated_at) FROM agents_toolpolicy),
  (SELECT count(*) FROM agents_toolpolicy)
"""
_NAMES = """
SELECT tool->>'name' FROM agents_toolcatalogue, jsonb_array_elements(tools) AS tool
WHERE url = %s AND tool->>'policy' = 'secret'
UNION SELECT tool FROM agents_toolpolicy WHERE policy = 'secret'
"""
_SCHEMAS = """
SELECT tool->>'name', tool->'parameters'->'properties'->'action'->'enum'
FROM agents_toolcatalogue, jsonb_array_elements(tools) AS tool
WHERE url = %s AND tool->>'name' = ANY(%s)
"""


def read_secret_tools() -> frozenset[str]:
    """Their names; of a tool that holds several commands those of the commands too."""
    url: str = settings.SPACEMOLT_MCP_URL
    [version] = fetch_rows(_VERSION, [url])
    return _read_names(url, tuple(version))


@lru_cache(maxsize=8)
def _read_names(
    url: str, version: tuple[datetime | None, datetime | None, int]
) -> frozenset[str]:
    found = frozenset(name for (name,) in fetch_rows(_NAMES, [url]) if name)
    held = fetch_rows(_SCHEMAS, [url, sorted(found)]) if found else []
    actions = {name: json.loads(listed or "null") or () for name, listed in held}
    names = list_secret_names(found, actions)
    # What stays a call of it named no tool that could be read: it may be any of them.
    return names | {WRAPPER} if names else names
