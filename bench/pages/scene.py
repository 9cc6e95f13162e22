"""A fleet to look at, and Myses that remember little and much."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from agents.models import Mysis
from memory.models import HistorySummary, Memory
from tests.browser import scenes

# Half orders, half answers, of the game's usual length.
REMEMBER = """
INSERT INTO memory_memory (mysis_id, role, origin, sender, content, reasoning,
  signature, tool_calls, tool_call_id, tool_name, args, is_error, pending, tokens,
  created_at)
SELECT %(mysis)s, CASE WHEN n %% 2 = 0 THEN 'user' ELSE 'assistant' END,
  CASE WHEN n %% 2 = 0 THEN 'human' ELSE 'agent' END, '',
  'line ' || n || ' of a history: ' || repeat(md5(n::text) || ' ', 3), '', '', '[]',
  '', '', '{}', false, false, 40, now()
FROM generate_series(1, %(rows)s) AS n
"""
#: Memories that are newer than the summary, in a long history as in a short one.
UNCOVERED = 60


@transaction.atomic
def resting(count: int) -> None:
    """Myses with an account, words, a call and turns of the last hour, now at rest."""
    for number in range(count):
        mysis = Mysis.objects.create(name=f"Captain {number:03}", state="idle")
        scenes.play(mysis, stale=number % 10 == 0)
        scenes.talk(mysis)
        scenes.work(mysis, share=number % 20 / 20)


def remembering(count: int) -> int:
    """One with so many memories, the older of them in a summary; its id."""
    mysis = Mysis.objects.create(name=f"Remembers {count}", state="stopped")
    scenes.play(mysis)
    with connection.cursor() as cursor:
        cursor.execute(REMEMBER, {"mysis": mysis.pk, "rows": count})
    ids = Memory.objects.filter(mysis=mysis).values_list("pk", flat=True)
    HistorySummary.objects.create(
        mysis=mysis,
        first_id=ids.order_by("pk")[0],
        through_id=ids.order_by("-pk")[UNCOVERED],
        generation=1,
        text="Much was done.",
        status=HistorySummary.Status.ACTIVE,
        history_hash="",
    )
    mysis.last_memory_at = timezone.now()
    mysis.save()
    scenes.work(mysis)
    return mysis.pk


def settled() -> None:
    """As the server's own vacuum leaves it before long."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def signed_in() -> str:
    """The session of an admin."""
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    return str(client.session.session_key)
