"""What our tools for messages and orders answer, also to programs.

What a Mysis writes to another has its name on each line: a view shows the text alone,
and nobody is to take another agent's word for an order of the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agents.actions.base import MAX_TEXT, ActionError, check_text
from agents.actions.messages import (
    count_recipients,
    send_broadcast,
    send_message,
    send_order,
)
from agents.actions.orders import change_order, report_order
from agents.models import Mysis, Order
from agents.order_status import (
    LISTENING,
    OrderStatus,
    find_order_numbers,
    read_order,
    read_orders,
    select_orders,
)
from agents.tools.own_tool_answers import (
    DEFAULT_LISTED,
    Answer,
    LocalRefusedError,
    Scope,
    find_mysis,
    find_sender,
    make_answer,
    read_members,
)
from memory.context.types import mark_peer_lines

# Recipients that a list tells of each order; one alone is told with all.
MOST_RECIPIENTS = 100


def answer_send_message(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Send a message to one Mysis; an idle one wakes."""
    to = find_mysis(arguments.get("mysis_id"))
    if to.pk == scope.mysis_id:
        raise LocalRefusedError(
            "Argument 'mysis_id' names yourself: use the captain's log for notes."
        )
    text = _mark_lines("The message", arguments["message"], find_sender(scope))
    row = send_message(mysis=to, text=text, by=scope.by)
    sent = {"sent": True, "to": to.name, "memory_id": row.pk}
    order = find_order_numbers([row.pk]).get(row.pk)
    return make_answer(sent | ({"order": order} if order else {}))


def answer_broadcast(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Send a message to every idle and running Mysis but the sender."""
    sender = find_sender(scope)
    text = _mark_lines("The broadcast", arguments["message"], sender)
    row = send_broadcast(
        text=text, by=scope.by, sender=sender, **read_members(arguments)
    )
    count = count_recipients(row)
    sent = {"sent": True, "broadcast_id": row.pk, "recipients": count}
    order = Order.objects.filter(broadcast=row).first()
    return make_answer(sent | ({"order": order.pk} if order else {}))


def _mark_lines(what: str, message: str, sender: Mysis | None) -> str:
    """A checked text with the name of its sender at each line; raises ActionError."""
    kept = check_text(message, what)
    if sender is None:
        return kept
    marked = mark_peer_lines(kept, sender.name)
    if len(marked) > MAX_TEXT:
        lines = len(kept.splitlines())
        raise ActionError(
            f"{what} has {lines:,} lines, and each is marked as yours: with that it is "
            f"longer than {MAX_TEXT:,} characters. Say it in fewer lines.",
            code="too_long",
            status=422,
        )
    return marked


def answer_report_order(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Keep what the caller says became of an order to it."""
    row = report_order(
        mysis=scope.find_target(None),
        number=arguments.get("order"),
        status=arguments["status"],
        note=arguments.get("note") or "",
        secrets=scope.hidden,
    )
    return make_answer({"order": row.order_id, "state": row.state, "note": row.note})


def answer_list_orders(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Orders, newest first, or one; ``next`` is the ``before`` of the following page."""
    if "order" in arguments:
        return make_answer({"orders": [_describe(_find(arguments["order"]))]})
    limit = int(arguments.get("limit", DEFAULT_LISTED))
    rows = select_orders(arguments.get("state", "")).order_by("-pk")
    if before := arguments.get("before"):
        rows = rows.filter(pk__lt=before)
    page = list(rows[: limit + 1])
    more = page[limit - 1].pk if len(page) > limit else None
    found = read_orders(page[:limit], MOST_RECIPIENTS)
    return make_answer({"orders": [_describe(one) for one in found], "next": more})


def answer_send_order(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Send an order to those who are named, in one way."""
    members = read_members(arguments)
    names, fleet = arguments.get("myses") or [], arguments.get("fleet") is True
    if bool(names) + bool(members) + fleet != 1:
        raise LocalRefusedError(
            "Arguments 'myses', 'group', 'tag' and 'fleet': give one of them."
        )
    given: dict[str, Any] = {
        "text": arguments["message"],
        "by": scope.by,
        "supersedes": arguments.get("supersede") is True,
    }
    refused: list[str] = []
    if names:
        myses = [find_mysis(name, "myses") for name in names]
        order, refused = send_order(myses=myses, **given)
    else:
        listening = Mysis.select_members(**members).filter(state__in=LISTENING)
        if not listening.exists():
            raise LocalRefusedError(
                "It would reach nobody: no Mysis of these is idle or running."
            )
        order = Order.objects.get(broadcast=send_broadcast(**given, **members))
    return make_answer(_describe(_find(order.pk)) | {"refused": refused})


def answer_change_order(arguments: Mapping[str, Any], scope: Scope) -> Answer:
    """Say what became of an order, for one recipient or for all."""
    found = _find(arguments["order"])
    which = arguments.get("mysis_id")
    change_order(
        order=Order.objects.get(pk=found.id),
        by=scope.by,
        state=arguments.get("state"),
        note=arguments.get("note"),
        mysis=None if which is None else find_mysis(which),
    )
    return make_answer(_describe(_find(found.id)))


def _find(number: int) -> OrderStatus:
    found = read_order(number)
    if found is None:
        raise LocalRefusedError(
            f"Argument 'order': there is no order {number}. zoea_list_orders has them."
        )
    return found


def _describe(order: OrderStatus) -> dict[str, Any]:
    """An order as JSON; of recipients what is so."""
    told = {
        "id": order.id,
        "text": order.text,
        "sender": order.sender,
        "to": order.to,
        "state": order.state,
        "overdue": order.overdue,
        "created_at": order.created_at.isoformat(timespec="seconds"),
        "counts": asdict(order.counts),
    }
    return told | {"recipients": [_describe_recipient(r) for r in order.recipients]}


def _describe_recipient(row: Any) -> dict[str, Any]:
    told = {"mysis": row.mysis_id, "name": row.name, "state": row.state}
    more = {
        "note": row.note,
        "changed_by": row.changed_by,
        "shown_at": row.shown_at and row.shown_at.isoformat(timespec="seconds"),
        "turns": row.turns,
        "overdue": row.overdue,
        "never": row.never,
    }
    return told | {key: value for key, value in more.items() if value}
