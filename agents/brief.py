"""What a Mysis's context depends on beside its log and its game, in one query.

Every call asks for it anew, so that an edited prompt counts from the next call on.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from .catalogue import NOTHING
from .models import Mysis
from .summarizing import SUMMARY_PROMPT_NAME

_READ = """
SELECT
  (SELECT text FROM agents_promptversion WHERE prompt_id = %(prompt)s
   ORDER BY number DESC LIMIT 1),
  (SELECT version.text FROM agents_promptversion AS version
   JOIN agents_prompt AS prompt ON prompt.id = version.prompt_id
   WHERE prompt.name = %(template)s ORDER BY version.number DESC LIMIT 1),
  (SELECT text FROM agents_broadcast WHERE NOT from_mysis ORDER BY id DESC LIMIT 1),
  ARRAY(SELECT text FROM agents_pin WHERE mysis_id = %(mysis)s ORDER BY id),
  (SELECT tools::text FROM agents_toolcatalogue WHERE url = %(url)s)
"""


@dataclass(frozen=True, slots=True)
class Brief:
    """``prompt`` is the current version's text, None where it has none; ``template``
    that of the summaries, empty for the built-in one; ``broadcast`` the newest of a
    person; ``catalogue`` the tools as they are stored."""

    prompt: str | None
    template: str
    broadcast: str | None
    pins: tuple[str, ...]
    catalogue: str


def brief_of(mysis: Mysis) -> Brief:
    """Read it."""
    values = {
        "prompt": mysis.prompt_id,
        "template": SUMMARY_PROMPT_NAME,
        "mysis": mysis.pk,
        "url": settings.SPACEMOLT_MCP_URL,
    }
    with connection.cursor() as cursor:
        cursor.execute(_READ, values)
        prompt, template, broadcast, pins, catalogue = cursor.fetchone()
    return Brief(prompt, template or "", broadcast, tuple(pins), catalogue or NOTHING)
