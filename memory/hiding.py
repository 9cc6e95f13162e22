"""What of a stored message may be shown outside (A11, DESIGN section 7).

Every door shows memories through here: secrets are taken out once more, whatever the
texts went through on their way in, and calls of secret tools stay hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import F, Func, JSONField

from .models import Memory
from .redaction import HIDDEN, clean_text

NAMES = (
    "jsonb_path_query_array(%(expressions)s, '$[*] ? (@.policy == \"secret\").name')"
)


def secret_tools() -> frozenset[str]:
    """The tools of the game whose calls nobody may read."""
    names = Func(F("tools"), template=NAMES, output_field=JSONField())
    rows = apps.get_model("agents", "ToolCatalogue").objects.annotate(names=names)
    here = rows.filter(pk=settings.SPACEMOLT_MCP_URL)
    found = here.values_list("names", flat=True).first() or []
    return frozenset(name for name in found if isinstance(name, str))


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
