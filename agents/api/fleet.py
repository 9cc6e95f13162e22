"""GET /fleet: the whole fleet in a few numbers."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Sum
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from agents import usage
from agents.budgets import all_standings
from agents.dashboard import game
from agents.dashboard.activity import first_turn_since
from agents.models import Mysis, Turn
from memory import state
from memory.gamestate.confidence import Confidence, confidence

from .budgets import BudgetOut, document, every_budget
from .turns import Tokens
from .usage import UsageOut, told

router = Router(tags=["fleet"])

HOUR = timedelta(hours=1)

# A read is redundant when it brought, to the letter, what the same call of the
# same Mysis had brought before.
REPEATED = """
SELECT count(*), count(*) FILTER (WHERE body = before) FROM (
  SELECT body, lag(body) OVER (PARTITION BY mysis_id, tool_name, args ORDER BY id)
    AS before
  FROM (
    SELECT id, mysis_id, tool_name, args, md5(content) AS body FROM memory_memory
    WHERE turn_id >= %(turn)s AND role = 'tool' AND NOT is_error
      AND tool_name LIKE 'get\\_%%'
  ) AS reads
) AS compared
"""


class Redundant(Schema):
    """get_* calls of the last hour, and how many brought nothing new."""

    calls: int = Field(examples=[100])
    redundant: int = Field(examples=[4])
    rate: float = Field(examples=[0.04])


class FleetOut(Schema):
    """Counts per state; tokens and cost (US dollars) of the last hour.

    ``today`` is what all calls since 00:00 UTC came to, summaries included; ``held``
    is how many Myses a budget keeps from making calls, ``stuck`` how many seem to get
    nowhere.
    """

    counts: dict[str, int] = Field(
        examples=[{"idle": 1, "running": 5, "stopped": 0, "errored": 0}]
    )
    total: int = Field(examples=[6])
    tick: int | None = Field(examples=[1042])
    tokens: Tokens
    cost: float = Field(examples=[0.21])
    turns: int = Field(examples=[120])
    today: UsageOut
    held: int = Field(examples=[0])
    stuck: int = Field(examples=[0])
    budgets: list[BudgetOut]
    staleness: dict[str, int] = Field(
        examples=[
            {
                "fresh": 20,
                "ageing": 4,
                "stale": 1,
                "invalidated": 2,
                "merged": 3,
                "unknown": 0,
            }
        ]
    )
    redundant_gets: Redundant
    redundant_get_rate: float = Field(examples=[0.04])


@router.get("/fleet", response=FleetOut)
def read_fleet(request: HttpRequest) -> dict[str, Any]:
    """The fleet now."""
    now = timezone.now()
    counts = dict.fromkeys(map(str, Mysis.State), 0)
    counts |= dict(
        Mysis.objects.values_list("state").annotate(n=Count("id")).order_by()
    )
    turn = first_turn_since(now - HOUR)
    reads = redundant_reads(turn)
    return {
        "counts": counts,
        "total": sum(counts.values()),
        "tick": state.newest_tick(),
        **spent_since(turn),
        "stuck": Mysis.objects.exclude(stuck="").count(),
        "held": Mysis.objects.exclude(hold="").count(),
        "budgets": [document(one) for one in all_standings(list(every_budget()))],
        "today": told(usage.totals(usage.of_today())),
        "staleness": staleness(now),
        "redundant_gets": reads,
        "redundant_get_rate": reads["rate"],
    }


def spent_since(turn: int | None) -> dict[str, Any]:
    """Turns, tokens and cost from this turn on; zeros for no turn."""
    rows = (
        Turn.objects.filter(id__gte=turn) if turn is not None else Turn.objects.none()
    )
    sums = rows.aggregate(
        turns=Count("id"),
        input=Sum("input_tokens"),
        output=Sum("output_tokens"),
        cached=Sum("cached_tokens"),
        cost=Sum("cost"),
    )
    return {
        "turns": sums["turns"] or 0,
        "tokens": {name: sums[name] or 0 for name in ("input", "output", "cached")},
        "cost": sums["cost"] or 0,
    }


def staleness(now: datetime) -> dict[str, int]:
    """How many snapshots of the fleet's accounts are how far to be believed."""
    flown = Mysis.objects.exclude(account=None)
    names = list(flown.values_list("account__username", flat=True))
    present, cached = game.moments(names, now), game.held(names)
    found = Counter(
        str(confidence(one.snapshot, present[name]))
        for name in names
        for one in cached.get(name, [])
    )
    return {str(level): found[str(level)] for level in Confidence}


def redundant_reads(turn: int | None) -> dict[str, Any]:
    """The get_* calls of the turns from this one on, and the idle ones of them."""
    if turn is None:
        return {"calls": 0, "redundant": 0, "rate": 0.0}
    with connection.cursor() as cursor:
        cursor.execute(REPEATED, {"turn": turn})
        calls, repeated = cursor.fetchone() or (0, 0)
    rate = round(repeated / calls, 4) if calls else 0.0
    return {"calls": calls, "redundant": repeated, "rate": rate}
