"""Myses that fly for a measurement: started, given a long history, deleted."""

from __future__ import annotations

from django.db import connection

from agents import actions
from agents.models import Mysis
from memory.models import HistorySummary, Memory

# Half orders of the game's size, half answers; all older than what turns add.
LENGTHEN = """
INSERT INTO memory_memory (mysis_id, role, origin, sender, content, reasoning,
  signature, tool_calls, tool_call_id, tool_name, args, is_error, pending, tokens,
  created_at)
SELECT %(mysis)s, CASE WHEN n %% 2 = 0 THEN 'user' ELSE 'assistant' END,
  CASE WHEN n %% 2 = 0 THEN 'human' ELSE 'agent' END, '',
  'line ' || n || ' of a long history: ' || md5(n::text), '', '', '[]', '', '', '{}',
  false, false, 20, now()
FROM generate_series(1, %(rows)s - (
  SELECT count(*) FROM memory_memory WHERE mysis_id = %(mysis)s
)) AS n
"""


def lengthen(mysis: int, rows: int) -> None:
    """Make a history so long, with a summary of the old part, as in a long game.

    What so many new rows leave to do to the server is done, not while turns are timed.
    """
    with connection.cursor() as cursor:
        cursor.execute(LENGTHEN, {"mysis": mysis, "rows": rows})
        cursor.execute("VACUUM ANALYZE memory_memory")
        cursor.execute("CHECKPOINT")
    newest = Memory.objects.filter(mysis=mysis).order_by("-pk").values_list("pk")[0][0]
    HistorySummary.objects.filter(mysis=mysis).delete()
    HistorySummary.objects.create(
        mysis_id=mysis,
        first_id=1,
        through_id=newest,
        generation=1,
        text="Much was done.",
        status=HistorySummary.Status.ACTIVE,
        history_hash="",
    )


def start_myses(number: int, name: str) -> list[int]:
    """Create and start Myses of the pilot; their ids."""
    found = []
    for place in range(number):
        mysis = actions.create_mysis(name=f"{name} {place}x", by="bench")
        found.append(actions.start_mysis(mysis=mysis, by="bench").pk)
    return found


def delete_myses() -> None:
    """Let nobody fly any more."""
    for mysis in Mysis.objects.all():
        actions.delete_mysis(mysis=mysis, by="bench")
