"""How far orders have come: with each recipient, counted, and summed up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from agents.models import Broadcast, Mysis, Order, OrderRecipient, OrderState
from agents.models.orders import OPEN_STATES, SUMMED_UP

# What orders may be listed by: a state, or all that nobody has ended.
OPEN = "open"
STATES = [*map(str, OrderState), OPEN]
LISTENING = (Mysis.State.IDLE, Mysis.State.RUNNING)
AT_REST = (Mysis.State.STOPPED, Mysis.State.ERRORED)
# Who is in one of these was shown it, also where it is not known when.
REACHED = (OrderState.SHOWN, OrderState.ANSWERED)


@dataclass(frozen=True, slots=True)
class RecipientStatus:
    """How far an order has come with one Mysis.

    ``shown_at`` is when it first had the order before it, ``answered_at`` when it had
    answered it, whatever was said of it. ``since_at`` is when it got the order or last
    reported, ``turns`` are those it began since; ``overdue`` says that these are many,
    or that it is long ago. ``never`` is why it will not take the order up as things
    stand, empty where it may. ``memory_id`` is the message that it came as.
    """

    mysis_id: int
    name: str
    state: str
    note: str
    changed_by: str
    changed_at: datetime | None
    shown_at: datetime | None
    answered_at: datetime | None
    since_at: datetime
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

    ``overdue`` went on for many turns or long without a report, ``never`` are at rest.
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

    def count_in(self, state: str) -> int:
        """With how many it is in a state now; ``shown`` also counts later ones."""
        if state != OrderState.SHOWN:
            return int(getattr(self, state))
        return self.sent - sum(
            self.count_in(one) for one in OrderState if one != OrderState.SHOWN
        )


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
        """Whether somebody has gone on for many turns, or long, without a report."""
        return self.counts.overdue > 0


def select_orders(state: str = "") -> QuerySet[Order]:
    """All orders, or those in a state; "open": that have not ended with everybody."""
    under_way = Q(broadcast__deliver_to__isnull=False)
    rows: QuerySet[Order] = Order.objects.annotate(under_way=under_way)
    if state == OPEN:
        return rows.filter(Order.is_open())
    return rows.filter(Order.is_summed_up_as(OrderState(state))) if state else rows


def count_orders(since: datetime, until: datetime) -> dict[str, int]:
    """How many orders that were given in a span are in which state now, in one query."""
    given = Order.objects.filter(created_at__gte=since, created_at__lt=until)
    found = given.annotate(summed_up=Order.sum_up()).values_list("summed_up")
    return dict(found.annotate(count=Count("pk")).order_by())


def count_open_recipients() -> tuple[dict[str, int], int]:
    """How many have an open order in which state, and how many of these are overdue."""
    rows = OrderRecipient.objects.filter(state__in=OPEN_STATES)
    found = rows.values_list("state").annotate(n=Count("pk"))
    counts = dict.fromkeys(map(str, OPEN_STATES), 0) | dict(found.order_by())
    return counts, rows.filter(_is_overdue()).count()


def _is_overdue() -> Q:
    late = F("since_turn") + settings.ZOEA_ORDER_TURNS
    long = Q(mysis__turn_count__gte=late) | Q(since_at__lte=_find_long_ago())
    return Q(state__in=OPEN_STATES) & long


def _find_long_ago() -> datetime:
    """The moment since which nobody may go without a word, held or idle ones neither."""
    return timezone.now() - timedelta(minutes=settings.ZOEA_ORDER_MINUTES)


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
    counts = defaultdict(OrderCounts, count_recipients(orders))
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
            state=sum_up(counts[order.pk], under_way=vars(order)["under_way"]),
            created_at=order.created_at,
            counts=counts[order.pk],
            recipients=tuple(told[order.pk]),
        )
        for order in orders
    ]


def sum_up(counts: OrderCounts, *, under_way: bool) -> OrderState:
    """The state of an order: the first of `SUMMED_UP` that anybody is in.

    One that is being delivered is queued; one that reached nobody is not done.
    """
    if under_way:
        return OrderState.QUEUED
    present = (state for state in SUMMED_UP if counts.count_in(state))
    return next(present, OrderState.NOT_DONE)


def read_order(number: int) -> OrderStatus | None:
    """Where one order stands, with all recipients, also those it is on its way to."""
    row = select_orders().select_related("broadcast").filter(pk=number).first()
    if row is None:
        return None
    [found] = read_orders([row])
    left = select_awaiting(row.broadcast) if row.broadcast else Mysis.objects.none()
    awaiting = [
        read_recipient(
            OrderRecipient(
                mysis=mysis, since_turn=mysis.turn_count, since_at=row.created_at
            )
        )
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
        shown=Count("pk", filter=Q(state__in=REACHED) | Q(shown_at__isnull=False)),
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
    late = turns >= settings.ZOEA_ORDER_TURNS or row.since_at <= _find_long_ago()
    return RecipientStatus(
        mysis_id=mysis.pk,
        name=mysis.name,
        state=row.state,
        note=row.note,
        changed_by=row.changed_by,
        changed_at=row.changed_at,
        shown_at=row.shown_at,
        answered_at=row.answered_at,
        since_at=row.since_at,
        turns=turns,
        overdue=is_open and late,
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
