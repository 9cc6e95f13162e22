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
from agents.actions.base import ActionError, check_text, lock_mysis, wake_myses
from agents.events import Kind
from agents.models import Broadcast, Mysis, Order, OrderRecipient, OrderState
from agents.models.orders import OPEN_STATES, SUMMED_UP
from agents.order_status import LISTENING
from memory import audit
from memory.context.types import PEER
from memory.models import Memory
from memory.redaction import hide_secrets

LONGEST_NOTE = 1_000
# What of an order an event and an error repeat.
EXCERPT = 200
# Open orders that an error names, the newest.
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
# Columns that are stored with what is said of an order, and with a report.
SAID = (
    *("state", "note", "since_turn", "since_at"),
    *("changed_by", "changed_at", "replaced_by"),
)
REPORTED = (*SAID, "shown_at")


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
        _supersede(myses, order)
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
        "text": hide_secrets(order.text)[:EXCERPT],
        "to": order.to,
        "recipients": len(recipients),
    }
    if order.broadcast_id is not None:
        data["broadcast"] = order.broadcast_id
    if order.supersedes:
        data["supersedes"] = True
    return Kind.ORDER_CHANGED, owner, data


def clear_open_orders(
    myses: Sequence[Mysis], *, by: str, upto: int | None = None
) -> int:
    """End what these locked Myses have open as superseded; how many orders of theirs.

    Orders after the number ``upto`` stay: whoever clears has not seen them. The caller
    tells of all in one event of its own.
    """
    rows = _select_open(myses)
    if upto is not None:
        rows = rows.filter(order_id__lte=upto)
    found = _lock(rows)
    _save(found, by, OrderState.SUPERSEDED, None, whole=True)
    return len(found)


def _supersede(myses: Sequence[Mysis], newer: Order) -> None:
    """End what these locked Myses have open; the event of the newer order tells it."""
    note = explain_superseded(newer.pk)
    found = _lock(_select_open(myses))
    _save(
        found,
        newer.sender,
        OrderState.SUPERSEDED,
        note,
        whole=True,
        replaced_by=newer.pk,
    )


def explain_superseded(newer: int) -> str:
    """The note of what ends because an order of this number took its place."""
    return f"Order {newer} took its place."


def _select_open(myses: Sequence[Mysis]) -> QuerySet[OrderRecipient]:
    return OrderRecipient.objects.filter(mysis__in=myses, state__in=OPEN_STATES)


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
    ``state`` is one of `SAID_BY_OPERATORS`, None leaves it; who has it open again wakes
    as by a message. Raises ActionError 422 and 409, and 404 for a Mysis that did not get
    it.
    """
    said = _check_said(state, note)
    if _is_under_way(order):
        raise ActionError(
            f"Order {order.pk} is still being delivered: try again in a moment.",
            code="delivering",
        )
    if state == REOPEN:
        # Before the rows that it is said of, as a report locks them.
        _lock_recipients(order, mysis)
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
    again = [row for row in changed if _is_reopened(row, state)]
    whole = mysis is None and len(changed) > 1
    old = {"states": sorted({str(row.state) for row in changed})}
    _save(changed, by, state, said, whole=whole)
    if whole:
        events.append_all([_describe_whole(order, changed, by, state, said)])
    _wake(again, by)
    if changed:
        told = {"state": state, "note": said, "myses": [r.mysis.name for r in changed]}
        given = {name: value for name, value in told.items() if value is not None}
        audit.record(
            "order.update", f"order:{order.pk}", by=by, before=old, after=given
        )
    return len(changed)


def _lock_recipients(order: Order, mysis: Mysis | None) -> None:
    rows = Mysis.objects.filter(orders__order=order).order_by("pk")
    rows = rows if mysis is None else rows.filter(pk=mysis.pk)
    list(rows.select_for_update(of=("self",)).values_list("pk"))


def _wake(rows: Sequence[OrderRecipient], by: str) -> None:
    """Wake who owes a word on an order again; those at rest stay so."""
    owing = [row.mysis for row in rows if row.mysis.state in LISTENING]
    if owing:
        wake_myses(owing, trigger="message", by=by)


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
    return hide_secrets(check_text(note, "note:", LONGEST_NOTE))


def _is_under_way(order: Order) -> bool:
    rows = Broadcast.objects.filter(order=order, deliver_to__isnull=False)
    return rows.exists()


def _lock(rows: QuerySet[OrderRecipient]) -> list[OrderRecipient]:
    locked = rows.select_for_update(of=("self",)).select_related("order", "mysis")
    return list(locked.order_by("pk"))


def _is_reopened(row: OrderRecipient, state: str | None) -> bool:
    return state == REOPEN and row.state not in OPEN_STATES


def _differs(row: OrderRecipient, state: str | None, note: str | None) -> bool:
    if state == REOPEN:
        state = state if _is_reopened(row, state) else None
    return state not in (None, row.state) or note not in (None, row.note)


def _save(
    rows: Sequence[OrderRecipient],
    by: str,
    state: str | None,
    note: str | None,
    *,
    whole: bool = False,
    replaced_by: int | None = None,
) -> None:
    """Store what was said of locked recipients, each with its event.

    ``whole`` marks the events of recipients beside one of the order itself;
    ``replaced_by`` is the number of the order that took its place.
    """
    now, lines = timezone.now(), []
    for row in rows:
        again = _is_reopened(row, state)
        noted = state is None or (state == REOPEN and not again)
        acts = {"whole": whole, "reopened": again, "noted": noted}
        if not noted:
            row.replaced_by = replaced_by
        if again:
            row.state = find_reached(row)
            row.since_turn, row.since_at = row.mysis.turn_count, now
        elif state not in (None, REOPEN):
            row.state = state
        row.note = row.note if note is None else note
        row.changed_by, row.changed_at = by[:200], now
        kind, owner, data = describe_change(
            row.order, row.state, by, row.note, row.mysis_id
        )
        lines.append((kind, owner, {**data, **_select_true(acts)}))
    OrderRecipient.objects.bulk_update(rows, SAID)
    events.append_all(lines)


def _select_true(facts: Mapping[str, bool]) -> dict[str, bool]:
    return {name: True for name, is_so in facts.items() if is_so}


def _describe_whole(
    order: Order,
    rows: Sequence[OrderRecipient],
    by: str,
    state: str | None,
    note: str | None,
) -> events.Line:
    """The one event of what was said of several; its state is theirs, summed up."""
    furthest_behind = min((row.state for row in rows), key=SUMMED_UP.index)
    kind, _, data = describe_change(order, furthest_behind, by, note)
    acts = _select_true({"reopened": state == REOPEN, "noted": state is None})
    return kind, None, {**data, **acts, "recipients": len(rows)}


def find_reached(row: OrderRecipient) -> str:
    """How far a message has come, whatever was said of its order."""
    if row.memory_id is None:
        return OrderState.ANSWERED  # pruned: it was read long ago
    if row.shown_at is None:
        return OrderState.QUEUED
    return OrderState.SHOWN if row.answered_at is None else OrderState.ANSWERED


def describe_change(
    order: Order, state: str, by: str, note: str | None, mysis_id: int | None = None
) -> events.Line:
    """The event of what became of an order, with a Mysis if it is named."""
    data = {"order": order.pk, "state": str(state), "by": by}
    data["text"] = hide_secrets(order.text)[:EXCERPT]
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
    _keep_report(row, locked, status, said)
    line = describe_change(row.order, row.state, row.changed_by, row.note, locked.pk)
    line[2]["report"] = status
    events.append_all([line])
    return row


def _keep_report(row: OrderRecipient, mysis: Mysis, status: str, note: str) -> None:
    now = timezone.now()
    if status == WORKING:
        row.since_turn, row.since_at = mysis.turn_count, now
    else:
        row.state = status
    # Its nudge named it, also where no call had room for the whole.
    row.shown_at = row.shown_at or now
    # What it works on stands until it says another word.
    row.note = note or (row.note if status == WORKING else "")
    row.changed_by, row.changed_at = f"{PEER}{mysis.name}"[:200], now
    row.save(update_fields=REPORTED)


def _find_reported(
    mysis: Mysis, mine: QuerySet[OrderRecipient], number: int | None
) -> OrderRecipient:
    rows = mine.filter(state__in=OPEN_STATES).select_related("order")
    waiting = list(rows.order_by("-order_id")[: NAMED + 1])
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
        f'{row.order_id} "{excerpt_order(hide_secrets(row.order.text))}"'
        for row in reversed(rows[:NAMED])
    )
    return f"Open for you: {named}{'; and older ones' if len(rows) > NAMED else ''}."


def excerpt_order(text: str, most: int = 60) -> str:
    """The beginning of an order in one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
