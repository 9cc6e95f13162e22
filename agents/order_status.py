"""How far orders have come: with each recipient, counted, and summed up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from agents.models import Broadcast, Mysis, Order, OrderRecipient, OrderState
from agents.models.orders import OPEN_STATES

# What orders may be listed by: a state, or all that nobody has ended.
OPEN = "open"
STATES = [*map(str, OrderState), OPEN]
LISTENING = (Mysis.State.IDLE, Mysis.State.RUNNING)
AT_REST = (Mysis.State.STOPPED, Mysis.State.ERRORED)
# States of those who were shown it.
SHOWN = (OrderState.SHOWN, OrderState.ANSWERED, OrderState.DONE, OrderState.NOT_DONE)


@dataclass(frozen=True, slots=True)
class RecipientStatus:
    """How far an order has come with one Mysis.

    ``turns`` are those it began since it got the order or last reported; ``overdue``
    says that these are many. ``never`` is why it will not take the order up as things
    stand, empty where it may. ``memory_id`` is the message that it came as.
    """

    mysis_id: int
    name: str
    state: str
    note: str
    changed_by: str
    changed_at: datetime | None
    turns: int
    overdue: bool
    never: str
    memory_id: int | None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """With how many an order stands where; ``shown`` are all who were shown it.

    ``overdue`` went on for many turns without a report, ``never`` are at rest.
    """

    sent: int = 0
    queued: int = 0
    shown: int = 0
    answered: int = 0
    done: int = 0
    not_done: int = 0
    superseded: int = 0
    overdue: int = 0
    never: int = 0


@dataclass(frozen=True, slots=True)
class OrderStatus:
    """An order with its recipients, or the first of them."""

    id: int
    text: str
    sender: str
    to: Mapping[str, Any]
    broadcast_id: int | None
    state: str
    created_at: datetime
    counts: OrderCounts
    recipients: tuple[RecipientStatus, ...]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def overdue(self) -> bool:
        """Whether somebody has gone on for many turns without a report."""
        return self.counts.overdue > 0


def select_orders(state: str = "") -> QuerySet[Order]:
    """All orders, or those in a state; "open": that have not ended with everybody."""
    rows: QuerySet[Any] = Order.select_summed_up()
    if state == OPEN:
        return rows.filter(state__in=OPEN_STATES)
    return rows.filter(state=state) if state else rows


def _is_overdue() -> Q:
    late = F("since_turn") + settings.ZOEA_ORDER_TURNS
    return Q(state__in=OPEN_STATES, mysis__turn_count__gte=late)


def _is_never() -> Q:
    return Q(state__in=OPEN_STATES, mysis__state__in=AT_REST)


def read_orders(
    orders: Sequence[Order], most: int | None = None, *, stuck_only: bool = False
) -> list[OrderStatus]:
    """Where orders of `select_orders` stand, in three queries for any number of them.

    ``most`` bounds the recipients that are told of each, ``stuck_only`` leaves of them
    those who will never take it up.
    """
    if not orders:
        return []
    counts = count_recipients(orders)
    told: dict[int, list[RecipientStatus]] = {order.pk: [] for order in orders}
    rows = OrderRecipient.objects.filter(order__in=[order.pk for order in orders])
    if stuck_only:
        rows = rows.filter(_is_never())
    if most is not None:
        place = Window(RowNumber(), partition_by="order_id", order_by="mysis_id")
        rows = rows.annotate(place=place).filter(place__lte=most)
    for row in rows.select_related("mysis").order_by("order_id", "mysis__name"):
        told[row.order_id].append(read_recipient(row))
    return [
        OrderStatus(
            id=order.pk,
            text=order.text,
            sender=order.sender,
            to=order.to,
            broadcast_id=order.broadcast_id,
            state=vars(order)["state"],
            created_at=order.created_at,
            counts=counts.get(order.pk, OrderCounts()),
            recipients=tuple(told[order.pk]),
        )
        for order in orders
    ]


def read_order(number: int) -> OrderStatus | None:
    """Where one order stands, with all recipients, also those it is on its way to."""
    row = select_orders().select_related("broadcast").filter(pk=number).first()
    if row is None:
        return None
    [found] = read_orders([row])
    left = select_awaiting(row.broadcast) if row.broadcast else Mysis.objects.none()
    awaiting = [
        read_recipient(OrderRecipient(mysis=mysis, since_turn=mysis.turn_count))
        for mysis in left.order_by("name")
    ]
    if not awaiting:
        return found
    some = len(awaiting)
    counts = replace(
        found.counts, sent=found.counts.sent + some, queued=found.counts.queued + some
    )
    return replace(found, counts=counts, recipients=(*found.recipients, *awaiting))


def count_recipients(orders: Sequence[Order]) -> dict[int, OrderCounts]:
    """How many recipients of each order are in which state, in one query."""
    rows = OrderRecipient.objects.filter(order__in=[order.pk for order in orders])
    several = {
        str(state): Count("pk", filter=Q(state=state))
        for state in OrderState
        if state != OrderState.SHOWN
    }
    # The models are joined for their rows, which a count by an alias would hide.
    found: QuerySet[OrderRecipient, Any] = rows.values("order_id").annotate(
        sent=Count("pk"),
        shown=Count("pk", filter=Q(state__in=SHOWN)),
        **several,
        overdue=Count("pk", filter=_is_overdue()),
        never=Count("pk", filter=_is_never()),
    )
    return {one.pop("order_id"): OrderCounts(**one) for one in found.order_by()}


def select_awaiting(broadcast: Broadcast) -> QuerySet[Mysis]:
    """Those who are still to get a broadcast; nobody once it is delivered."""
    if broadcast.deliver_to is None:
        return Mysis.objects.none()
    left = Mysis.select_members(group=broadcast.group, tag=broadcast.tag).filter(
        pk__gt=broadcast.delivered_to,
        pk__lte=broadcast.deliver_to,
        state__in=LISTENING,
    )
    return left.exclude(pk=broadcast.mysis_id) if broadcast.mysis_id else left


def read_recipient(row: OrderRecipient) -> RecipientStatus:
    """The status of a recipient whose Mysis is read with it."""
    mysis, is_open = row.mysis, row.state in OPEN_STATES
    turns = max(0, mysis.turn_count - row.since_turn)
    return RecipientStatus(
        mysis_id=mysis.pk,
        name=mysis.name,
        state=row.state,
        note=row.note,
        changed_by=row.changed_by,
        changed_at=row.changed_at,
        turns=turns,
        overdue=is_open and turns >= settings.ZOEA_ORDER_TURNS,
        never=_explain_never(mysis) if is_open else "",
        memory_id=row.memory_id,
    )


def _explain_never(mysis: Mysis) -> str:
    if mysis.state not in AT_REST:
        return ""
    why = f": {mysis.last_error}" if mysis.last_error else ""
    return f"{mysis.state}{why}"


def read_statuses_of(memories: Iterable[int]) -> dict[int, tuple[int, RecipientStatus]]:
    """Of messages that are orders, the number of the order and where it stands."""
    rows = OrderRecipient.objects.filter(memory__in=list(memories))
    found = rows.select_related("mysis")
    return {row.memory_id or 0: (row.order_id, read_recipient(row)) for row in found}


def find_order_numbers(memories: Iterable[int]) -> dict[int, int]:
    """The numbers of the orders that messages are."""
    rows = OrderRecipient.objects.filter(memory__in=list(memories))
    return dict(rows.values_list("memory_id", "order_id"))
