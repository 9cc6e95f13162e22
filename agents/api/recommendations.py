"""The cheapest policy that lost nothing, for a Mysis and for the fleet."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import Field

from agents.api.turns import get_mysis
from agents.lab.recommend import (
    describe_recommendation,
    recommend_for_fleet,
    recommend_for_mysis,
)
from memory.api.parameters import MysisReference, TextOrNull

recommendations_router = Router(tags=["replays"])
FIGURES = {
    "requests": 240,
    "invalid": 0,
    "over_budget": 0,
    "tokens": {"mean": 7600, "p95": 9100, "most": 9400, "sum": 1824000},
    "cost": 0.38,
    "cached_cost": 0.21,
    "shared": 0.64,
    "pins": {"kept": 480, "of": 480},
}


class CandidateOut(Schema):
    """A policy of the replay, or what each call had (`own`), with its figures.

    ``faults`` are why it is not taken, and ``gives_up`` what it has less of than `own`.
    ``policy`` is the stored one that has just these settings, null where there is none.
    ``price`` is in dollars with the provider's cache, or in tokens.
    """

    name: str = Field(examples=["tight"])
    policy: TextOrNull = Field(examples=["tight"])
    price: float = Field(examples=[0.21])
    faults: list[str] = Field(examples=[[]])
    gives_up: list[str] = Field(
        examples=[["2 more summaries are asked for, and a model has to make them."]]
    )
    figures: dict[str, Any] = Field(examples=[FIGURES])


class RecommendationOut(Schema):
    """The cheapest policy of the newest finished replay that lost nothing in its calls.

    These were made from ``since`` to ``until``. ``best`` is its name: `own` where nothing
    costs less than what is in use, null where every one lost something. ``saved`` is the
    part of the price of `own` that it saves. Before the first finished replay ``replay``
    is null, and nothing was judged.
    """

    replay: int | None = Field(examples=[7])
    calls: int = Field(examples=[240])
    since: datetime | None = Field(examples=["2026-11-25T05:00:00Z"])
    until: datetime | None = Field(examples=["2026-11-25T11:00:00Z"])
    unit: Literal["dollars", "tokens"] = Field(examples=["dollars"])
    best: TextOrNull = Field(examples=["tight"])
    saved: float | None = Field(examples=[0.38])
    candidates: list[CandidateOut]


@recommendations_router.get("/recommendation", response=RecommendationOut)
def read_fleet_recommendation(request: HttpRequest) -> dict[str, Any]:
    """By the newest finished replay of the whole fleet."""
    return describe_recommendation(recommend_for_fleet())


@recommendations_router.get(
    "/myses/{reference}/recommendation", response=RecommendationOut
)
def read_mysis_recommendation(
    request: HttpRequest, reference: MysisReference
) -> dict[str, Any]:
    """By the newest finished replay that has calls of this Mysis."""
    return describe_recommendation(recommend_for_mysis(get_mysis(reference)))
