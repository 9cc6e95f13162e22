"""Messages to one Mysis, broadcasts to the fleet, and how far each has come.

A broadcast is stored once, then delivered in batches that each commit alone: however
large the fleet is, a Mysis's row is locked only while its own batch is written. What a
crash interrupts continues with the next pass of upkeep. How far a message has come is
written by the call that takes it in, and by the end of the turn that answered it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Literal

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from agents import events
from agents.actions.base import (
    OPEN_STATES,
    ActionError,
    check_text,
    describe_memory,
    lock_mysis,
    wake_myses,
)
from agents.events import Kind
from agents.models import Broadcast, Delivery, Mysis
from memory.context.result_types import Source
from memory.context.types import INTENT_ORIGINS
from memory.models import Memory, Origin, Role

# Myses whose rows one transaction locks.
BATCH = 100


@transaction.atomic
def send_message(*, mysis: Mysis, text: str, by: str) -> Memory:
    """Store a human's message; an idle Mysis wakes.

    Raises ActionError 409 for a stopped or errored one, saying what to do.
    """
    kept = check_text(text, "The message")
    locked = lock_mysis(mysis)
    if locked.state not in OPEN_STATES:
        why = f": {locked.last_error.rstrip('.')}" if locked.last_error else ""
        raise ActionError(
            f"{locked.name} is {locked.state}{why}. Start it, then send again.",
            code=locked.state,
        )
    row = Memory.objects.create(
        mysis=locked, role=Role.USER, origin=Origin.HUMAN, sender=by, content=kept
    )
    events.append_all([describe_memory(row)])
    wake_myses([locked], trigger="message", by=by)
    return row


@transaction.atomic
def send_broadcast(
    *,
    text: str,
    by: str,
    sender: Mysis | None = None,
    group: str = "",
    tag: str = "",
) -> Broadcast:
    """Store a broadcast; every idle and running Mysis but its sender gets it.

    With a ``group`` or a ``tag`` only those in it get it; raises ActionError 422 where
    there are none. Busy ones read it with their next call. Delivery begins after the
    commit.
    """
    kept = check_text(text, "The broadcast")
    check_recipients(group=group, tag=tag)
    broadcast = Broadcast.objects.create(
        text=kept,
        sender=by,
        group=group,
        tag=tag,
        mysis=sender,
        from_mysis=sender is not None,
        deliver_to=Mysis.objects.aggregate(last=Max("pk"))["last"] or 0,
    )
    # A failure is no business of the sender's: it is stored, and upkeep delivers it.
    transaction.on_commit(partial(deliver_broadcast, broadcast.pk), robust=True)
    return broadcast


def check_recipients(*, group: str = "", tag: str = "") -> None:
    """Raise ActionError 422 for a group or a tag that no Mysis has."""
    if (group or tag) and not Mysis.select_members(group=group, tag=tag).exists():
        what, name = ("group", group) if group else ("tag", tag)
        raise ActionError(
            f"to: no Mysis has the {what} {name[:100]!r}; give it to some first.",
            code="invalid",
            status=422,
        )


def deliver_broadcast(broadcast_id: int) -> None:
    """Deliver what is left of a broadcast; safe in several processes at once."""
    while _deliver_batch(broadcast_id, wait=True):
        pass


def resume_broadcasts() -> None:
    """Deliver those whose sender died; one that another process delivers is skipped."""
    unfinished = Broadcast.objects.filter(deliver_to__isnull=False)
    for number in unfinished.values_list("pk", flat=True):
        while _deliver_batch(number, wait=False):
            pass


def count_recipients(broadcast: Broadcast) -> int:
    """The number of Myses that have it, or will have it when it is delivered."""
    # The counter first: a delivery in between then counts twice, never not at all.
    row = Broadcast.objects.only("mysis", "group", "tag", "delivered_to", "deliver_to")
    now = row.get(pk=broadcast.pk)
    return now.deliveries.count() + _find_left(now).count()


@transaction.atomic
def _deliver_batch(broadcast_id: int, *, wait: bool) -> bool:
    """Deliver to the next Myses; returns whether there may be more."""
    rows = Broadcast.objects.select_for_update(of=("self",), skip_locked=not wait)
    broadcast = rows.defer("vector").filter(pk=broadcast_id).first()
    if broadcast is None or broadcast.deliver_to is None:
        return False
    left = _find_left(broadcast)
    ids = list(left.order_by("pk").values_list("pk", flat=True)[:BATCH])
    if ids:
        # Those that were stopped meanwhile are left out, so ``ids`` counts, not these.
        locked = left.filter(pk__in=ids).select_for_update(of=("self",))
        _store_deliveries(broadcast, list(locked.order_by("pk")))
        broadcast.delivered_to = ids[-1]
    if len(ids) < BATCH:
        broadcast.deliver_to = None
        # Said once, when the number of recipients is known.
        data = {
            "id": broadcast.pk,
            "text": broadcast.text[:500],
            "recipients": broadcast.deliveries.count(),
            "to": broadcast.to,
        }
        events.append(Kind.BROADCAST_SENT, mysis_id=broadcast.mysis_id, data=data)
    broadcast.save(update_fields=["delivered_to", "deliver_to"])
    return broadcast.deliver_to is not None


def _find_left(broadcast: Broadcast) -> QuerySet[Mysis]:
    if broadcast.deliver_to is None:
        return Mysis.objects.none()
    left = Mysis.select_members(group=broadcast.group, tag=broadcast.tag).filter(
        pk__gt=broadcast.delivered_to,
        pk__lte=broadcast.deliver_to,
        state__in=OPEN_STATES,
    )
    return left.exclude(pk=broadcast.mysis_id) if broadcast.mysis_id else left


def _store_deliveries(broadcast: Broadcast, batch: list[Mysis]) -> None:
    rows = Memory.objects.bulk_create(
        Memory(
            mysis=mysis,
            broadcast=broadcast,
            role=Role.USER,
            origin=Origin.BROADCAST,
            sender=broadcast.sender,
            content=broadcast.text,
        )
        for mysis in batch
    )
    events.append_all([describe_memory(row) for row in rows])
    wake_myses(batch, trigger="broadcast", by=broadcast.sender)


# --- How far messages have come: queued, shown in a call, done

State = Literal["queued", "shown", "left_out", "done"]


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """Where a message stands.

    ``turn`` is the id of the turn, for as long as it is kept, ``number`` its number,
    ``call`` that of its first call which had the message.
    """

    state: State
    turn: int | None = None
    number: int | None = None
    call: int | None = None
    shown_at: datetime | None = None
    done_at: datetime | None = None


def select_orders(mysis: Mysis) -> QuerySet[Memory]:
    """What humans and broadcasts told a Mysis; by the index of intents."""
    return Memory.objects.filter(
        mysis=mysis, origin__in=["human", "broadcast"], role=Role.USER
    )


def read_delivery_statuses(
    mysis: Mysis, ids: Iterable[int]
) -> dict[int, DeliveryStatus]:
    """Where these messages of a Mysis stand, in one query."""
    wanted = list(ids)
    found = Delivery.objects.in_bulk(wanted)
    return {number: _state(number, found.get(number), mysis) for number in wanted}


def _state(number: int, row: Delivery | None, mysis: Mysis) -> DeliveryStatus:
    if row is None:
        # Calls of a version that kept no deliveries had it long ago.
        return DeliveryStatus("queued" if number > mysis.heard else "done")
    state: State = "done" if row.done_at else "shown"
    return DeliveryStatus(
        state if row.shown else "left_out",
        row.turn_id,
        row.turn_number,
        row.call_number,
        row.shown_at,
        row.done_at,
    )


def find_unheard(mysis: Mysis, considered: Iterable[tuple[int, str]]) -> list[int]:
    """Of (id, origin) that a call considers, the messages that no call had before."""
    return [
        number
        for number, origin in considered
        if number > mysis.heard and origin in INTENT_ORIGINS
    ]


def record_shown(
    mysis: Mysis,
    new: Sequence[int],
    sources: Sequence[Source],
    *,
    turn: tuple[int, int],
    call: int,
) -> None:
    """Store that a call has messages that no call had before; the row is locked.

    ``turn`` is the id and the number of the turn, ``call`` the number of the call.
    """
    rows = (source if isinstance(source, list) else [source] for source in sources)
    sent = set(chain.from_iterable(rows))
    Delivery.objects.bulk_create(
        [
            Delivery(
                memory_id=number,
                mysis=mysis,
                turn_id=turn[0],
                turn_number=turn[1],
                call_number=call,
                shown=number in sent,
            )
            for number in new
        ],
        ignore_conflicts=True,
    )
    mysis.heard = max(new)
    mysis.save(update_fields=["heard"])


def finish_shown(ids: Sequence[int]) -> None:
    """Mark messages that a Mysis was shown as done: its turn ended by itself."""
    if ids:
        Delivery.objects.filter(pk__in=ids).update(done_at=timezone.now())
