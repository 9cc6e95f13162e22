"""What becomes of orders: stored with whom they are for, reported on, ticked, replaced.

How far an order has come with a Mysis is written where that happens: shown by the call
that has it, answered by the end of the turn (`agents.actions.messages`), and what became
of it by the Mysis's report or an operator here. Whoever writes holds the rows of the
Myses, or those of the recipients in their order, so that nobody waits for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents import events
from agents.actions.base import ActionError, check_text, lock_mysis
from agents.events import Kind
from agents.models import Broadcast, Delivery, Mysis, Order, OrderRecipient, OrderState
from agents.models.orders import OPEN_STATES
from memory.context.types import PEER
from memory.models import Memory
from memory.redaction import hide_secrets

LONGEST_NOTE = 1_000
# What of an order an event and an error repeat.
EXCERPT = 200
# Open orders that an error names.
NAMED = 5
# What an operator may say of an order; "open" takes back what was said.
REOPEN = "open"
SAID_BY_OPERATORS = (
    OrderState.DONE,
    OrderState.NOT_DONE,
    OrderState.SUPERSEDED,
    REOPEN,
)
# What a Mysis may report: it goes on with it, or what became of it.
WORKING = "working"
REPORTS = (str(OrderState.DONE), str(OrderState.NOT_DONE), WORKING)


# --- Stored with whom it is for


def store_order(
    *,
    text: str,
    by: str,
    to: Mapping[str, object],
    supersedes: bool = False,
    broadcast: Broadcast | None = None,
) -> Order | None:
    """Store an order without recipients yet; None for what a Mysis says (A14)."""
    if by.startswith(PEER):
        return None
    return Order.objects.create(
        text=text, sender=by, to=dict(to), supersedes=supersedes, broadcast=broadcast
    )


def add_recipients(
    order: Order, myses: Sequence[Mysis], messages: Sequence[Memory]
) -> None:
    """Store who got an order, and as which messages; the rows of the Myses are locked."""
    if order.supersedes:
        clear_open_orders(myses, by=order.sender, newer=order)
    OrderRecipient.objects.bulk_create(
        OrderRecipient(
            order=order, mysis=mysis, memory=row, since_turn=mysis.turn_count
        )
        for mysis, row in zip(myses, messages, strict=True)
    )


def describe_sent(order: Order, recipients: Sequence[int]) -> events.Line:
    """The event of an order that was sent; of one Mysis where it has one recipient."""
    owner = recipients[0] if len(recipients) == 1 else None
    data = {
        "order": order.pk,
        "state": str(OrderState.QUEUED),
        "by": order.sender,
        "text": order.text[:EXCERPT],
        "to": order.to,
        "recipients": len(recipients),
    }
    if order.broadcast_id is not None:
        data["broadcast"] = order.broadcast_id
    return Kind.ORDER_CHANGED, owner, data


def clear_open_orders(
    myses: Sequence[Mysis], *, by: str, newer: Order | None = None
) -> int:
    """End what these locked Myses have open as superseded; how many orders of theirs."""
    rows = _lock(OrderRecipient.objects.filter(mysis__in=myses, state__in=OPEN_STATES))
    # What was said of them stays, where nothing took their place.
    note = f"Order {newer.pk} took its place." if newer else None
    _save(rows, by, OrderState.SUPERSEDED, note)
    return len(rows)


# --- Ticked by an operator


@transaction.atomic
def change_order(
    *,
    order: Order,
    by: str,
    state: str | None = None,
    note: str | None = None,
    mysis: Mysis | None = None,
) -> int:
    """Say what became of an order, for one recipient or for all; how many it changed.

    For all means those with whom it is open, or all where it is open with nobody.
    ``state`` is one of `SAID_BY_OPERATORS`, None leaves it. Raises ActionError 422 and
    409, and 404 for a Mysis that did not get it.
    """
    said = _check_said(state, note)
    if _is_under_way(order):
        raise ActionError(
            f"Order {order.pk} is still being delivered: try again in a moment.",
            code="delivering",
        )
    rows = _lock(order.recipients.all())
    if mysis is not None:
        rows = [row for row in rows if row.mysis_id == mysis.pk]
        if not rows:
            raise ActionError(
                f"mysis: {mysis.name} did not get order {order.pk}; its recipients name "
                "those who did.",
                code="not_found",
                status=404,
            )
    elif state != REOPEN:
        rows = [row for row in rows if row.state in OPEN_STATES] or rows
    changed = [row for row in rows if _differs(row, state, said)]
    whole = mysis is None and len(changed) > 1
    _save(changed, by, state, said, whole=whole)
    if whole:
        line = _describe(order, state or "", by, said)
        line[2]["recipients"] = len(changed)
        events.append_all([line])
    return len(changed)


def _check_said(state: str | None, note: str | None) -> str | None:
    """The note as it is stored; raises ActionError 422 for what cannot be said."""
    if state is None and note is None:
        raise ActionError(
            "state: say what became of it, or give a note.", code="empty", status=422
        )
    if state is not None and state not in SAID_BY_OPERATORS:
        raise ActionError(
            f"state: one of {', '.join(SAID_BY_OPERATORS)}; queued, shown and answered "
            "are found by the program.",
            code="invalid",
            status=422,
        )
    if note is None or not note.strip():
        return None if note is None else ""
    return check_text(note, "note:", LONGEST_NOTE)


def _is_under_way(order: Order) -> bool:
    rows = Broadcast.objects.filter(order=order, deliver_to__isnull=False)
    return rows.exists()


def _lock(rows: QuerySet[OrderRecipient]) -> list[OrderRecipient]:
    locked = rows.select_for_update(of=("self",)).select_related("order", "mysis")
    return list(locked.order_by("pk"))


def _differs(row: OrderRecipient, state: str | None, note: str | None) -> bool:
    if state == REOPEN and row.state in OPEN_STATES:
        state = None
    return state not in (None, row.state) or note not in (None, row.note)


def _save(
    rows: Sequence[OrderRecipient],
    by: str,
    state: str | None,
    note: str | None,
    *,
    whole: bool = False,
) -> None:
    """Store what was said of locked recipients, each with its event.

    ``whole`` marks the events of recipients beside one of the order itself.
    """
    now, lines = timezone.now(), []
    before = _find_reached(rows) if state == REOPEN else {}
    for row in rows:
        if state is not None:
            row.state = before.get(row.pk, state)
        row.note = row.note if note is None else note
        if state == REOPEN:
            row.since_turn = row.mysis.turn_count
        row.changed_by, row.changed_at = by[:200], now
        line = _describe(row.order, row.state, by, row.note, row.mysis_id)
        lines.append(line if not whole else (*line[:2], {**line[2], "whole": True}))
    columns = ["state", "note", "since_turn", "changed_by", "changed_at"]
    OrderRecipient.objects.bulk_update(rows, columns)
    events.append_all(lines)


def _find_reached(rows: Sequence[OrderRecipient]) -> dict[int, str]:
    """How far each recipient's message has come, whatever was said of the order."""
    reached = Delivery.objects.in_bulk([row.memory_id for row in rows if row.memory_id])
    return {row.pk: _judge(row, reached.get(row.memory_id or 0)) for row in rows}


def _judge(row: OrderRecipient, delivery: Delivery | None) -> str:
    if row.memory_id is None:
        return OrderState.ANSWERED  # pruned: it was read long ago
    if delivery is None or not delivery.shown:
        return OrderState.QUEUED
    return OrderState.ANSWERED if delivery.done_at else OrderState.SHOWN


def _describe(
    order: Order, state: str, by: str, note: str | None, mysis_id: int | None = None
) -> events.Line:
    data = {"order": order.pk, "state": str(state), "by": by}
    data["text"] = order.text[:EXCERPT]
    if note:
        data["note"] = note
    return Kind.ORDER_CHANGED, mysis_id, data


# --- Reported by the Mysis itself


@transaction.atomic
def report_order(
    *,
    mysis: Mysis,
    number: int | None,
    status: str,
    note: str = "",
    secrets: Collection[str] = (),
) -> OrderRecipient:
    """Keep what a Mysis says became of an order to it; "working" leaves it open.

    Without a ``number`` its only open order is meant. ``secrets`` are taken out of the
    note. Raises ActionError, which names the orders that are open, for one that is not
    its own, unknown or ended: 404 and 409.
    """
    locked = lock_mysis(mysis)
    # Locked: an operator may tick the same order at this moment.
    mine = OrderRecipient.objects.filter(mysis=locked).select_for_update(of=("self",))
    row = _find_reported(locked, mine, number)
    said = (
        hide_secrets(check_text(note, "note:", LONGEST_NOTE), secrets) if note else ""
    )
    if status == WORKING:
        row.since_turn = locked.turn_count
    else:
        row.state = status
    # What it works on stands until it says another word.
    row.note = said or (row.note if status == WORKING else "")
    row.changed_by, row.changed_at = f"{PEER}{locked.name}"[:200], timezone.now()
    row.save(update_fields=["state", "note", "since_turn", "changed_by", "changed_at"])
    line = _describe(row.order, row.state, row.changed_by, row.note, locked.pk)
    line[2]["report"] = status
    events.append_all([line])
    return row


def _find_reported(
    mysis: Mysis, mine: QuerySet[OrderRecipient], number: int | None
) -> OrderRecipient:
    rows = mine.filter(state__in=OPEN_STATES).select_related("order")
    waiting = list(rows.order_by("order_id")[: NAMED + 1])
    if number is None:
        if len(waiting) == 1:
            return waiting[0]
        raise ActionError(
            f"Argument 'order': name the order that is meant. {_name_open(waiting)}",
            code="invalid",
            status=422,
        )
    row = mine.filter(order_id=number).select_related("order").first()
    if row is None:
        known = Order.objects.filter(pk=number).exists()
        wrong = "was given to others, not to you" if known else "does not exist"
        raise ActionError(
            f"Argument 'order': order {number} {wrong}. {_name_open(waiting)}",
            code="not_found",
            status=404,
        )
    if row.state not in OPEN_STATES:
        raise ActionError(
            f"Argument 'order': order {number} has ended as {row.state}, said by "
            f"{row.changed_by}: there is nothing more to report of it. "
            f"{_name_open(waiting)}",
            code="ended",
        )
    return row


def _name_open(rows: Sequence[OrderRecipient]) -> str:
    if not rows:
        return "You have no open order: go on without a report."
    named = "; ".join(
        f'{row.order_id} "{excerpt_order(row.order.text)}"' for row in rows[:NAMED]
    )
    return f"Open for you: {named}{'; ...' if len(rows) > NAMED else ''}."


def excerpt_order(text: str, most: int = 60) -> str:
    """The beginning of an order in one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
