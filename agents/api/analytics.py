"""/analytics: what came of prompts, policies and models, in calls, contexts and cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from agents.api.yields import Asked, YieldOut, cut_lines, read_span
from agents.lab.analytics_board import (
    AnalyticsView,
    describe_outcome,
    describe_outcome_line,
    load_outcomes,
)
from memory.api.parameters import Page
from memory.problems import Problem

analytics_router = Router(tags=["fleet"])


class RecallsOut(Schema):
    """Handles asked for with zoea_recall: messages, notes, states, and anything else."""

    ctx: int = Field(examples=[9])
    note: int = Field(examples=[2])
    state: int = Field(examples=[4])
    other: int = Field(examples=[0])


class OutcomeOut(YieldOut):
    """What turns came to, and what they did with their contexts; null is unknown.

    Of ``calls`` the ``contexts`` are kept; ``token_shares`` are parts of one by category.
    A compaction makes a context at least a tenth smaller than the one before. ``gets``
    are get_* reads that went well, ``repeated_gets`` those that brought nothing new.
    Rates are those of an hour of one Mysis.
    """

    calls: int = Field(examples=[210])
    calls_per_action: float | None = Field(examples=[2.3])
    contexts: int = Field(examples=[210])
    tokens_per_call: float | None = Field(examples=[5400.0])
    token_shares: dict[str, float] = Field(examples=[{"system": 0.2, "tool": 0.5}])
    compactions: int = Field(examples=[12])
    compactions_per_hour: float | None = Field(examples=[5.7])
    summaries: int = Field(examples=[1])
    recalls: RecallsOut
    recalls_per_100_calls: float | None = Field(examples=[7.1])
    gets: int = Field(examples=[80])
    repeated_gets: int = Field(examples=[4])
    repeated_get_share: float | None = Field(examples=[0.05])
    facts_doubted: int = Field(examples=[30])
    facts_doubted_per_hour: float | None = Field(examples=[14.3])
    cost_per_1k_credits: float | None = Field(examples=[0.024])


class OutcomeLineOut(OutcomeOut):
    """What came of one ``key``; with by=mysis, ``mysis`` is its number."""

    key: str = Field(examples=["captain v3"])
    mysis: int | None = None
    myses: int = Field(examples=[12])


class OutcomePage(Page[OutcomeLineOut]):
    """One page, and beside it the whole fleet."""

    by: str = Field(examples=["prompt"])
    since: datetime
    total: OutcomeOut


@analytics_router.get("/analytics", response=OutcomePage)
def read_analytics(request: HttpRequest, asked: Query[Asked]) -> dict[str, Any]:
    """Compactions, recalls, repeated reads, doubts and cost; lines in the order of names.

    422 `too_slow` after 4 s; what was read by then is kept, so that asking again goes on.
    """
    read_span(asked)
    board = load_outcomes(AnalyticsView(asked.by, asked.since, "name"), timezone.now())
    if not board.whole:
        raise Problem(
            422,
            "too_slow",
            "Given up after 4 s: ask again, as what was added up is kept, or ask for "
            "less time.",
        )
    lines, following = cut_lines(board.lines, asked)
    return {
        "by": asked.by,
        "since": board.since,
        "total": describe_outcome(board.total),
        "items": [describe_outcome_line(line) for line in lines],
        "next": following,
    }
