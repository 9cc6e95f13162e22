"""Messages to one Mysis."""

from __future__ import annotations

from functools import partial

from django.db import transaction
from django.db.models import Max, QuerySet

from agents import events
from agents.actions.base import (
    OPEN_STATES,
    ActionError,
    clean_text,
    lock,
    memory_line,
    wake,
    wake_all,
)
from agents.events import Kind
from agents.models import Broadcast, Mysis
from memory.models import Memory, Origin, Role


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


# SECTION Broadcasts: stored once, then delivered by batches that each commit alone.
#
# However large the fleet is, a Mysis's row is held only while its own batch is
# written. What a crash interrupts goes on with the next pass of upkeep.

#: Myses whose rows one transaction holds.
BATCH = 100


@transaction.atomic
def send_broadcast(*, text: str, by: str, sender: Mysis | None = None) -> Broadcast:
    """Store a broadcast once; every idle and running Mysis gets it.

    Never its sender. Busy ones are not waited for: it is read when their next call
    is made. In a transaction of the caller's, the delivery follows its commit.
    """
    kept = clean_text(text, "The broadcast")
    broadcast = Broadcast.objects.create(
        text=kept,
        sender=by,
        mysis=sender,
        from_mysis=sender is not None,
        deliver_to=Mysis.objects.aggregate(last=Max("pk"))["last"] or 0,
    )
    # Whoever sent it is not told of a failure: it is stored, and upkeep delivers it.
    transaction.on_commit(partial(deliver, broadcast.pk), robust=True)
    return broadcast


def deliver(broadcast_id: int) -> None:
    """Deliver what is left of a broadcast; safe in several processes at once."""
    while _next_batch(broadcast_id, wait=True):
        pass


def resume_broadcasts() -> None:
    """Go on with those whose sender died; one that is at work is left alone."""
    for pk in Broadcast.objects.filter(deliver_to__isnull=False).values_list("pk"):
        while _next_batch(*pk, wait=False):
            pass


def recipients(broadcast: Broadcast) -> int:
    """How many got it and still have it, or will have when its delivery is through."""
    # The counter first: what is delivered in between is then counted twice, never not.
    row = Broadcast.objects.only("mysis", "delivered_to", "deliver_to").get(
        pk=broadcast.pk
    )
    return row.deliveries.count() + _left(row).count()


@transaction.atomic
def _next_batch(broadcast_id: int, *, wait: bool) -> bool:
    """Deliver to the next Myses; whether there may be more."""
    rows = Broadcast.objects.select_for_update(of=("self",), skip_locked=not wait)
    broadcast = rows.defer("vector").filter(pk=broadcast_id).first()
    if broadcast is None or broadcast.deliver_to is None:
        return False
    left = _left(broadcast)
    ids = list(left.order_by("pk").values_list("pk", flat=True)[:BATCH])
    if ids:
        # Whoever was stopped meanwhile falls out: their number says nothing.
        locked = left.filter(pk__in=ids).select_for_update(of=("self",))
        _give(broadcast, list(locked.order_by("pk")))
        broadcast.delivered_to = ids[-1]
    if len(ids) < BATCH:
        broadcast.deliver_to = None
        _tell(broadcast)
    broadcast.save(update_fields=["delivered_to", "deliver_to"])
    return broadcast.deliver_to is not None


def _left(broadcast: Broadcast) -> QuerySet[Mysis]:
    """The Myses that have yet to get it, as far as one can tell now."""
    if broadcast.deliver_to is None:
        return Mysis.objects.none()
    left = Mysis.objects.filter(
        pk__gt=broadcast.delivered_to,
        pk__lte=broadcast.deliver_to,
        state__in=OPEN_STATES,
    )
    return left.exclude(pk=broadcast.mysis_id) if broadcast.mysis_id else left


def _give(broadcast: Broadcast, batch: list[Mysis]) -> None:
    rows = Memory.objects.bulk_create(_delivery(broadcast, mysis) for mysis in batch)
    events.append_all(
        [(Kind.MEMORY_ADDED, row.mysis_id, memory_line(row)) for row in rows]
    )
    wake_all(batch, trigger="broadcast", by=broadcast.sender)


def _tell(broadcast: Broadcast) -> None:
    """Say once that it was sent, when it is known to how many."""
    data = {
        "id": broadcast.pk,
        "text": broadcast.text[:500],
        "recipients": broadcast.deliveries.count(),
    }
    events.append(Kind.BROADCAST_SENT, mysis_id=broadcast.mysis_id, data=data)


def _delivery(broadcast: Broadcast, mysis: Mysis) -> Memory:
    return Memory(
        mysis=mysis,
        broadcast=broadcast,
        role=Role.USER,
        origin=Origin.BROADCAST,
        sender=broadcast.sender,
        content=broadcast.text,
    )
