"""/orders: what Myses were told to do, and what became of it with each of them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents.actions import messages, orders
from agents.actions.base import ActionError
from agents.api.turns import caller_name, get_mysis
from agents.models import Mysis, Order, OrderRecipient
from agents.order_status import (
    LISTENING,
    OrderStatus,
    read_order,
    read_orders,
    select_orders,
)
from memory.api.parameters import (
    Body,
    Name,
    Page,
    Rows,
    Text,
    TextOrNull,
    Whole,
    Window,
    build_example,
    build_page,
)
from memory.handles import find_owner, parse_id
from memory.problems import make_invalid, make_missing

orders_router = Router(tags=["orders"])

State = Literal["queued", "shown", "answered", "done", "not_done", "superseded"]
OrderId = Annotated[str, Field(description="Its number.", examples=["12"])]
Reference = Whole | str
# Recipients that a list tells of each order.
MOST_RECIPIENTS = 100
NOBODY = (
    "to: it would reach nobody: no Mysis of these is idle or running. Start one, then "
    "send it again."
)


class RecipientOut(Schema):
    """How far an order has come with one Mysis.

    ``shown_at`` is when it first had the order before it, ``answered_at`` when a turn
    that had it ended, whatever was said of it. ``since_at`` is when it got the order,
    last said that it works on it, or was given it again; ``turns`` are those it began
    since; ``overdue`` says that they are many, or that it is long ago. ``never`` is why
    it will not take the order up as things stand: it is stopped or errored. ``note`` is
    what was said last, by ``changed_by``; ``memory_id`` the message that the order came
    as.
    """

    mysis: int = Field(validation_alias="mysis_id")
    name: str = Field(examples=["Ada"])
    state: State = Field(examples=["done"])
    note: str = Field(examples=["Docked at Sol Central."])
    changed_by: TextOrNull = Field(examples=["mysis:Ada"])
    changed_at: datetime | None
    shown_at: datetime | None
    answered_at: datetime | None
    since_at: datetime
    turns: int = Field(examples=[2])
    overdue: bool
    never: TextOrNull = Field(examples=[None])
    memory_id: int | None = Field(examples=[1234])


class CountsOut(Schema):
    """With how many recipients an order stands where.

    ``sent`` are all, ``shown`` all who were shown it, whatever came of it; the others
    are in that state now. ``overdue`` and ``never`` are of those with whom it is open.
    """

    sent: int = Field(examples=[14])
    queued: int = Field(examples=[2])
    shown: int = Field(examples=[12])
    answered: int = Field(examples=[3])
    done: int = Field(examples=[9])
    not_done: int = Field(examples=[0])
    superseded: int = Field(examples=[0])
    overdue: int = Field(examples=[1])
    never: int = Field(examples=[1])


class OrderOut(Schema):
    """One order, its states summed up and with each recipient.

    ``state`` is the first of queued, shown, answered, not_done, done and superseded
    that it is in with anybody: it is open until the last recipient ended, and done
    where nobody left it undone. A list tells the first 100 recipients of each order.
    """

    id: int = Field(examples=[12])
    text: str = Field(examples=["All to Sol."])
    sender: str = Field(examples=["operator:grace"])
    to: dict[str, Any] = Field(examples=[{"fleet": True}])
    broadcast: int | None = Field(validation_alias="broadcast_id", examples=[None])
    state: State = Field(examples=["shown"])
    overdue: bool
    counts: CountsOut
    recipients: list[RecipientOut]
    created_at: datetime


class SentOrderOut(OrderOut):
    """A new order; ``refused`` says who of those named did not get it, and why."""

    refused: list[str] = Field(examples=[[]])


class OrderTarget(Body):
    """Whom an order is for: one of these."""

    model_config = build_example(group="miners")

    fleet: Literal[True] | None = None
    myses: Annotated[
        list[Reference] | None,
        Field(min_length=1, max_length=messages.MOST_NAMED, examples=[["Ada", 2]]),
    ] = None
    group: Name | None = None
    tag: Annotated[str, Field(min_length=1, max_length=50)] | None = None


class OrderIn(Body):
    """A new order; with ``supersede`` what its recipients have open ends."""

    model_config = build_example(text="All to Sol.", to={"fleet": True})

    text: Text
    to: OrderTarget
    supersede: bool = False


class OrderChange(Body):
    """What became of it: for all with whom it is open, or for ``mysis`` alone.

    ``open`` takes back what was said; whoever listens wakes as by a message.
    """

    model_config = build_example(state="done", note="Seen on the map.")

    state: Literal["done", "not_done", "superseded", "open"] | None = None
    note: Annotated[str, Field(max_length=orders.LONGEST_NOTE)] | None = None
    mysis: Reference | None = None


class OrderFilter(Window):
    """Which orders to list; without, all."""

    state: Annotated[
        Literal["queued", "shown", "answered", "done", "not_done", "superseded", "open"]
        | None,
        Field(
            description="Summed up so; `open`: with somebody it has not ended.",
            examples=["open"],
        ),
    ] = None
    mysis: Annotated[
        str | None,
        Field(description="Given to this Mysis; number or name.", examples=["Ada"]),
    ] = None


@orders_router.get("/orders", response=Page[OrderOut])
def list_orders(request: HttpRequest, wanted: Query[OrderFilter]) -> Rows:
    """Orders, oldest first, with the first 100 recipients of each."""
    rows = select_orders(wanted.state or "")
    if wanted.mysis is not None:
        owner = get_mysis(wanted.mysis)
        given = OrderRecipient.objects.filter(mysis=owner).values("order_id")
        rows = rows.filter(pk__in=given)
    page = build_page(rows, wanted)
    page["items"] = read_orders(page["items"], MOST_RECIPIENTS)
    return page


@orders_router.post("/orders", response={201: SentOrderOut})
def create_order(request: HttpRequest, body: OrderIn) -> Status[Any]:
    """Give an order; stopped and errored Myses do not get it, 409 where nobody would."""
    refused: list[str] = []
    given: dict[str, Any] = {
        "text": body.text,
        "by": caller_name(request),
        "supersedes": body.supersede,
    }
    to = body.to.model_dump(exclude_none=True)
    if len(to) != 1:
        raise make_invalid(
            "to", 'give one of "fleet": true, "myses", "group" and "tag".'
        )
    if "myses" in to:
        order, refused = messages.send_order(myses=_find_named(to["myses"]), **given)
    else:
        members = {name: word for name, word in to.items() if name != "fleet"}
        order = _send_to_members(members, given)
    made = _read(order.pk)
    return Status(201, asdict(made) | {"overdue": made.overdue, "refused": refused})


def _find_named(references: list[int | str]) -> list[Mysis]:
    found: dict[int, Any] = {}
    for reference in references:
        owner = find_owner(str(reference))
        if owner is None:
            raise make_invalid(
                "to.myses",
                f"there is no Mysis {str(reference)[:100]!r}: /api/v1/myses lists them.",
            )
        found[owner.pk] = owner
    return list(found.values())


def _send_to_members(members: dict[str, Any], given: dict[str, Any]) -> Order:
    messages.check_recipients(**members)
    if not Mysis.select_members(**members).filter(state__in=LISTENING).exists():
        raise ActionError(NOBODY, code="nobody")
    sent = messages.send_broadcast(**given, **members)
    return Order.objects.get(broadcast=sent)


@orders_router.get("/orders/{order}", response=OrderOut)
def read_one_order(request: HttpRequest, order: OrderId) -> OrderStatus:
    """One order with all its recipients."""
    return _read(parse_id(order), order)


@orders_router.patch("/orders/{order}", response=OrderOut)
def update_order(
    request: HttpRequest, order: OrderId, body: OrderChange
) -> OrderStatus:
    """Say what became of it; 404 for a Mysis that did not get it."""
    found = _read(parse_id(order), order)
    mysis = None if body.mysis is None else get_mysis(str(body.mysis))
    orders.change_order(
        order=Order.objects.get(pk=found.id),
        by=caller_name(request),
        state=body.state,
        note=body.note,
        mysis=mysis,
    )
    return _read(found.id)


def _read(number: int | None, asked: str = "") -> OrderStatus:
    found = read_order(number) if number else None
    if found is None:
        raise make_missing(
            f"There is no order {asked[:100]!r}: /api/v1/orders lists them."
        )
    return found
