"""/prices: what a setting would cost an hour, by the calls of the last hour."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from agents.lab.price_questions import PriceIn, read_trial
from agents.lab.prices import describe_prediction, predict_price
from memory.api.parameters import ErrorOut

prices_router = Router(tags=["context"])


class SpendingOut(Schema):
    """Tokens and US dollars of an hour; ``cost`` null: no price is known."""

    tokens: int = Field(examples=[42000])
    input: int = Field(examples=[40000])
    output: int = Field(examples=[2000])
    cached: int = Field(examples=[30000])
    cost: float | None = Field(examples=[0.012])


class PriceOut(Schema):
    """The last hour as it was (``now``) and as it would have been (``then``).

    ``calls`` were made in it and ``sampled`` assembled anew. ``notes`` say what the
    figures cannot tell; ``then`` is null where there are none, and ``problem`` says why.
    """

    calls: int = Field(examples=[34])
    sampled: int = Field(examples=[20])
    now: SpendingOut
    then: SpendingOut | None
    basis: str = Field(
        examples=["From 34 calls of the last hour, 20 of them assembled anew."]
    )
    notes: list[str] = Field(examples=[["Summaries are counted as they were."]])
    problem: str = Field(examples=[""])


@prices_router.post("/prices", response={200: PriceOut, 404: ErrorOut})
def predict(request: HttpRequest, body: PriceIn) -> dict[str, Any]:
    """What the last hour would have cost under another setting; stores nothing."""
    tried = read_trial(body)
    found = predict_price(tried.myses, tried.setting, timezone.now())
    return describe_prediction(found)
