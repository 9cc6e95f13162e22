"""Messages to one Mysis."""

from __future__ import annotations

from django.db import transaction

from agents import events
from agents.events import Kind
from agents.models import Mysis
from memory.models import Memory, Origin, Role

from .errors import ActionError, clean_text
from .states import OPEN_STATES, lock, memory_line, wake


@transaction.atomic
def send_message(*, mysis: Mysis, text: str, by: str) -> Memory:
    """Store a human's message; an idle Mysis wakes.

    Raises ActionError 409 for a stopped or errored one, saying what to do.
    """
    kept = clean_text(text, "The message")
    locked = lock(mysis)
    if locked.state not in OPEN_STATES:
        why = f": {locked.last_error.rstrip('.')}" if locked.last_error else ""
        raise ActionError(
            f"{locked.name} is {locked.state}{why}. Start it, then send again.",
            code=locked.state,
        )
    row = Memory.objects.create(
        mysis=locked, role=Role.USER, origin=Origin.HUMAN, sender=by, content=kept
    )
    _added(row)
    wake(locked, trigger="message", by=by)
    return row


def _added(row: Memory) -> None:
    events.append(Kind.MEMORY_ADDED, mysis_id=row.mysis_id, data=memory_line(row))
