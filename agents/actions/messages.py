"""Messages to one Mysis, and broadcasts to all."""

from __future__ import annotations

from django.db import transaction

from agents import events
from agents.events import Kind
from agents.models import Broadcast, Mysis
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


@transaction.atomic
def send_broadcast(*, text: str, by: str, sender: Mysis | None = None) -> Broadcast:
    """Store a broadcast once and deliver it to every idle and running Mysis.

    Never to its sender; waits for no busy Mysis: it is stored and read when
    that one's next call is made.
    """
    kept = clean_text(text, "The broadcast")
    broadcast = Broadcast.objects.create(
        text=kept, sender=by, mysis=sender, from_mysis=sender is not None
    )
    targets = Mysis.objects.select_for_update(of=("self",)).filter(
        state__in=OPEN_STATES
    )
    if sender is not None:
        targets = targets.exclude(pk=sender.pk)
    recipients = list(targets.order_by("pk"))
    rows = Memory.objects.bulk_create(_delivery(broadcast, m) for m in recipients)
    events.append_all(
        [(Kind.MEMORY_ADDED, row.mysis_id, memory_line(row)) for row in rows]
    )
    for mysis in recipients:
        wake(mysis, trigger="broadcast", by=by)
    events.append(
        Kind.BROADCAST_SENT,
        mysis_id=sender.pk if sender else None,
        data={"id": broadcast.pk, "text": kept[:500], "recipients": len(rows)},
    )
    return broadcast


def _delivery(broadcast: Broadcast, mysis: Mysis) -> Memory:
    return Memory(
        mysis=mysis,
        broadcast=broadcast,
        role=Role.USER,
        origin=Origin.BROADCAST,
        sender=broadcast.sender,
        content=broadcast.text,
    )


def _added(row: Memory) -> None:
    events.append(Kind.MEMORY_ADDED, mysis_id=row.mysis_id, data=memory_line(row))
