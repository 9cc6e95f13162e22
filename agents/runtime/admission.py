"""Turns that would have to wait for a session with the game, put off.

The game opens few sessions a minute. A turn that waited for one would keep a slot of
its worker from those that have one.
"""

from __future__ import annotations

import random
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agents import scheduling
from agents.game.sessions import pool
from agents.models import Mysis
from agents.tools.crossing import cross

from .records import activity

SPREAD_SECONDS = 20.0
"""Those who are put off come back over so long a time, not all at once."""

ACTIVITY = "waiting for a session with the game"


async def admit(mysis_id: int, *, job_id: int, trigger: str) -> bool:
    """Whether a turn may be taken now; else it is scheduled anew.

    That is no failure, and a stop unschedules it as any other turn.
    """
    wait = await pool().admit(mysis_id)
    if wait > 0:
        await cross(put_off, mysis_id, job_id=job_id, trigger=trigger, seconds=wait)
    return wait <= 0


@transaction.atomic
def put_off(mysis_id: int, *, job_id: int, trigger: str, seconds: float) -> None:
    """Schedule the turn of a job that is still the next one for later."""
    rows = Mysis.objects.select_for_update(of=("self",))
    mysis = rows.filter(pk=mysis_id, next_job=job_id).first()
    if mysis is None:
        return
    wait = seconds + random.uniform(0, SPREAD_SECONDS)  # noqa: S311
    at = timezone.now() + timedelta(seconds=wait)
    scheduling.schedule(mysis, trigger=trigger, at=at)
    activity(mysis, ACTIVITY)
