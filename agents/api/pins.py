"""/myses/{id}/pins: standing orders with their states and hashes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions
from agents.api.turns import caller_name, get_mysis
from agents.models import Pin
from memory.api.parameters import (
    Body,
    MysisReference,
    Page,
    Rows,
    Text,
    TextOrNull,
    Whole,
    Window,
    build_example,
    build_page,
)
from memory.handles import parse_id
from memory.problems import make_invalid, make_missing

pins_router = Router(tags=["pins"])

PinState = Literal["active", "acknowledged", "done", "superseded"]
PinId = Annotated[str, Field(description="Its id.", examples=["3"])]
HASH = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"


class PinOut(Schema):
    """A standing order. It is in every view while it is active or acknowledged.

    ``hash`` is the SHA-256 of its text; `pins` of a context tells by it whether that
    view has the order word for word.
    """

    id: int
    text: str = Field(examples=["Never attack miners."])
    state: PinState = Field(examples=["active"])
    hash: str = Field(validation_alias="known_hash", examples=[HASH])
    author: str = Field(examples=["operator:grace"])
    created_at: datetime
    changed_by: TextOrNull = Field(examples=[None])
    changed_at: datetime | None


class PinIn(Body):
    """A new standing order, in place of another one if ``supersedes`` names it."""

    model_config = build_example(text="Never attack miners.")

    text: Text
    supersedes: Whole | None = None


class PinChange(Body):
    """What became of it."""

    model_config = build_example(state="done")

    state: PinState


@pins_router.get("/myses/{reference}/pins", response=Page[PinOut])
def list_pins(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> Rows:
    """The standing orders of a Mysis, oldest first, with those that stand no longer."""
    return build_page(_select(reference), window)


@pins_router.post("/myses/{reference}/pins", response={201: PinOut})
def create_pin(
    request: HttpRequest, reference: MysisReference, body: PinIn
) -> Status[Pin]:
    """Pin an order; it counts from the next call on. 409 for one that stands already."""
    mysis, older = get_mysis(reference), None
    if body.supersedes is not None:
        older = mysis.pins.filter(pk=body.supersedes).first()
        if older is None:
            raise make_invalid("supersedes", "name a pin of this Mysis.")
    made = actions.add_pin(
        mysis=mysis, text=body.text, by=caller_name(request), supersedes=older
    )
    return Status(201, made)


@pins_router.patch("/myses/{reference}/pins/{pin}", response=PinOut)
def update_pin(
    request: HttpRequest, reference: MysisReference, pin: PinId, body: PinChange
) -> Pin:
    """Say what became of it; done and superseded ones leave the views."""
    number = parse_id(pin)
    found = _select(reference).filter(pk=number).first() if number else None
    if found is None:
        raise make_missing(f"There is no pin {pin[:100]!r} of this Mysis.")
    return actions.set_pin_state(pin=found, state=body.state, by=caller_name(request))


def _select(reference: str) -> QuerySet[Pin]:
    return Pin.objects.filter(mysis=get_mysis(reference)).select_related("mysis")
