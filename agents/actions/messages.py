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

from agents import db, events, statements
from agents.actions import orders
from agents.actions.base import (
    OPEN_STATES,
    ActionError,
    check_text,
    describe_memory,
    lock_mysis,
    name_mysis,
    wake_myses,
)
from agents.events import Kind
from agents.models import Broadcast, Delivery, Mysis, Order, OrderRecipient
from agents.order_status import select_awaiting
from memory import audit
from memory.context.result_types import Source
from memory.context.types import INTENT_ORIGINS, PEER
from memory.models import Memory, Origin, Role
from memory.redaction import hide_secrets

# Myses whose rows one transaction locks.
BATCH = 100
# Myses that one order may name, and refusals that its error repeats.
MOST_NAMED = 1_000
MOST_REFUSALS = 3
# What a start says where the newest word is an order that has ended: as a message, so
# that no view takes that order for what there is to do.
CARRY_ON = "Carry on with your standing mission now that your last order has ended."


@transaction.atomic
def send_message(*, mysis: Mysis, text: str, by: str) -> Memory:
    """Store a human's message; an idle Mysis wakes.

    Raises ActionError 409 for a stopped or errored one, saying what to do.
    """
    kept = check_text(text, "The message")
    locked = lock_mysis(mysis)
    if locked.state not in OPEN_STATES:
        raise _refuse_at_rest(locked)
    order = orders.store_order(text=kept, by=by, to={"myses": [locked.pk]})
    [row] = store_messages(order, [locked], kept, by)
    told = {"text": kept, "order": order.pk if order else None}
    audit.record("mysis.message", name_mysis(locked), by=by, after=told)
    return row


@transaction.atomic
def send_order(
    *, myses: Sequence[Mysis], text: str, by: str, supersedes: bool = False
) -> tuple[Order, list[str]]:
    """Send one order to these Myses; and why some of them do not get it.

    With ``supersedes`` what they have open ends. Raises ActionError 409 where all of
    them are stopped or errored, and 422 for too many.
    """
    kept = check_text(text, "text:")
    if len(myses) > MOST_NAMED:
        raise ActionError(
            f"to: {len(myses):,} Myses are named, at most {MOST_NAMED:,} may be: give a "
            "group, or the whole fleet.",
            code="too_many",
            status=422,
        )
    ids = [mysis.pk for mysis in myses]
    rows = Mysis.objects.select_for_update(of=("self",)).filter(pk__in=ids)
    locked = list(rows.order_by("pk"))
    listening = [mysis for mysis in locked if mysis.state in OPEN_STATES]
    refused = [_refuse_at_rest(one) for one in locked if one.state not in OPEN_STATES]
    if not listening:
        raise refused[0] if len(refused) == 1 else _refuse_all(refused)
    to = {"myses": [mysis.pk for mysis in listening]}
    order = orders.store_order(text=kept, by=by, to=to, supersedes=supersedes)
    assert order is not None  # noqa: S101 (no Mysis sends orders)
    store_messages(order, listening, kept, by)
    names = [mysis.name for mysis in listening]
    told = {"text": kept, "to": names, "supersedes": supersedes}
    audit.record("order.send", f"order:{order.pk}", by=by, after=told)
    return order, [each.detail for each in refused]


def _refuse_at_rest(mysis: Mysis) -> ActionError:
    why = f": {mysis.last_error.rstrip('.')}" if mysis.last_error else ""
    return ActionError(
        f"{mysis.name} is {mysis.state}{why}. Start it, then send again.",
        code=mysis.state,
    )


def _refuse_all(refused: Sequence[ActionError]) -> ActionError:
    words = " ".join(each.detail for each in refused[:MOST_REFUSALS])
    return ActionError(f"It would reach nobody. {words}".strip(), code="nobody")


def tell_to_carry_on(mysis: Mysis, by: str) -> None:
    """Say so to a locked Mysis whose newest word is an order that has ended."""
    words = Memory.objects.filter(
        mysis=mysis, origin__in=INTENT_ORIGINS, branch__isnull=True
    ).exclude(sender__startswith=PEER)
    newest = words.order_by("-pk").values("pk")[:1]
    ended = OrderRecipient.objects.filter(mysis=mysis, memory__in=newest)
    if ended.exclude(state__in=OrderRecipient.OPEN).exists():
        _store_rows(None, [mysis], CARRY_ON, by)


def store_messages(
    order: Order | None, myses: Sequence[Mysis], text: str, by: str
) -> list[Memory]:
    """Store a text as a message to each of these locked Myses, and wake the idle."""
    rows = _store_rows(order, myses, text, by)
    wake_myses(myses, trigger="message", by=by)
    return rows


def _store_rows(
    order: Order | None, myses: Sequence[Mysis], text: str, by: str
) -> list[Memory]:
    rows = Memory.objects.bulk_create(
        Memory(
            mysis=mysis, role=Role.USER, origin=Origin.HUMAN, sender=by, content=text
        )
        for mysis in myses
    )
    lines = [describe_memory(row) for row in rows]
    if order is not None:
        orders.add_recipients(order, myses, rows)
        lines.insert(0, orders.describe_sent(order, [mysis.pk for mysis in myses]))
    events.append_all(lines)
    return rows


@transaction.atomic
def send_broadcast(
    *,
    text: str,
    by: str,
    sender: Mysis | None = None,
    group: str = "",
    tag: str = "",
    supersedes: bool = False,
) -> Broadcast:
    """Store a broadcast; every idle and running Mysis but its sender gets it.

    With a ``group`` or a ``tag`` only those in it get it; raises ActionError 422 where
    there are none. Busy ones read it with their next call. Delivery begins after the
    commit. One that no Mysis sent is an order; with ``supersedes`` what its recipients
    have open ends.
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
    orders.store_order(
        text=kept,
        by=by if sender is None else f"{PEER}{sender.name}",
        to=broadcast.to,
        supersedes=supersedes,
        broadcast=broadcast,
    )
    told = {"text": kept, "to": broadcast.to, "supersedes": supersedes}
    audit.record("broadcast.send", f"broadcast:{broadcast.pk}", by=by, after=told)
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
    return now.deliveries.count() + select_awaiting(now).count()


@transaction.atomic
def _deliver_batch(broadcast_id: int, *, wait: bool) -> bool:
    """Deliver to the next Myses; returns whether there may be more."""
    rows = Broadcast.objects.select_for_update(of=("self",), skip_locked=not wait)
    broadcast = rows.defer("vector").filter(pk=broadcast_id).first()
    if broadcast is None or broadcast.deliver_to is None:
        return False
    left = select_awaiting(broadcast)
    ids = list(left.order_by("pk").values_list("pk", flat=True)[:BATCH])
    if ids:
        # Those that were stopped meanwhile are left out, so ``ids`` counts, not these.
        locked = left.filter(pk__in=ids).select_for_update(of=("self",))
        _store_deliveries(broadcast, list(locked.order_by("pk")))
        broadcast.delivered_to = ids[-1]
    if len(ids) < BATCH:
        broadcast.deliver_to = None
        _tell_sent(broadcast)
    broadcast.save(update_fields=["delivered_to", "deliver_to"])
    return broadcast.deliver_to is not None


def _tell_sent(broadcast: Broadcast) -> None:
    """Append the events of a broadcast, once, when its recipients are known."""
    data: dict[str, object] = {
        "id": broadcast.pk,
        "text": hide_secrets(broadcast.text)[:500],
        "recipients": broadcast.deliveries.count(),
        "to": broadcast.to,
    }
    lines: list[events.Line] = [(Kind.BROADCAST_SENT, broadcast.mysis_id, data)]
    order = Order.objects.filter(broadcast=broadcast).first()
    if order is not None:
        data["order"] = order.pk
        if order.supersedes:
            data["supersedes"] = True
        got = order.recipients.values_list("mysis_id", flat=True)
        lines.append(orders.describe_sent(order, list(got)))
    events.append_all(lines)


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
    order = Order.objects.filter(broadcast=broadcast).first()
    if order is not None:
        orders.add_recipients(order, batch, rows)
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
    values = {
        "mysis": mysis.pk,
        "messages": list(new),
        "shown": [number in sent for number in new],
        "turn": turn[0],
        "number": turn[1],
        "call": call,
        "now": timezone.now(),
        "newest": max(new),
    }
    db.fetch_row(statements.SHOW_MESSAGES, values, prepare=True)
    mysis.heard = max(new)
    events.send_hint()


def finish_shown(ids: Sequence[int]) -> None:
    """Mark messages that a Mysis was shown as done: its turn ended by itself."""
    if ids:
        values = {"messages": list(ids), "now": timezone.now()}
        db.fetch_row(statements.ANSWER_MESSAGES, values, prepare=True)
