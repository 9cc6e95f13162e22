"""/fleet: the whole fleet in a few numbers. /broadcasts: messages to it, and their search."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from django.db.models import Min
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions, broadcast_search, usage
from agents.api.spending import BudgetOut, UsageOut, select_budgets
from agents.api.turns import Tokens, caller_name, get_mysis
from agents.budgets import read_budget_statuses
from agents.dashboard import game_state
from agents.dashboard.charts import HOUR, find_first_turn_since, load_fleet_hour
from agents.idle import describe_idlers, read_idlers
from agents.models import Broadcast, Mysis, Order, Usage
from memory.api.log import HitOut, Question, parse_query
from memory.api.parameters import (
    Body,
    Name,
    Page,
    Rows,
    Text,
    Window,
    build_example,
    build_page,
    cut_page,
)
from memory.gamestate.confidence import Confidence, judge_confidence
from memory.handles import MAX_ID
from memory.models import Memory, Origin, Role, fetch_rows
from memory.problems import make_invalid
from memory.snapshots import writes
from memory.snapshots.reads import read_moments

fleet_router = Router(tags=["fleet"])

# A read is redundant if it brought exactly what the same call of the same Mysis had
# brought before.
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

broadcasts_router = Router(tags=["broadcasts"])


class Redundant(Schema):
    """get_* calls of the last hour, and how many brought nothing new."""

    calls: int = Field(examples=[100])
    redundant: int = Field(examples=[4])
    rate: float = Field(examples=[0.04])


class IdleGroupOut(Schema):
    """Myses that idle for the same reason after the same order.

    `reason` is never_started, no_answer (the model answered nothing), order_not_done,
    order_cleared or nothing_done (the last turns did nothing); `since` is when the first
    of them idled, `order` the number of the newest order to them, `newest_open` that of
    the newest that is open, `text` all of it in words. `myses` are up to 50 names.
    """

    reason: str = Field(examples=["nothing_done"])
    count: int = Field(examples=[13])
    since: datetime
    order: int | None = Field(examples=[12])
    newest_open: int | None = Field(examples=[12])
    order_text: str | None = Field(examples=["All hands: return to base"])
    text: str = Field(examples=["13 idle, last order 'All hands: return to base'"])
    myses: list[str] = Field(examples=[["Ada", "Brahe"]])


class IdleOut(Schema):
    """Who stands still: `asked` have done their order and have no other."""

    total: int = Field(examples=[14])
    asked: int = Field(examples=[1])
    unasked: int = Field(examples=[13])
    groups: list[IdleGroupOut]


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
    idle: IdleOut
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


@fleet_router.get("/fleet", response=FleetOut)
def read_fleet(request: HttpRequest) -> dict[str, Any]:
    """The fleet now."""
    now = timezone.now()
    counts = Mysis.count_by_state()
    turn = find_first_turn_since(now - HOUR)
    hour, reads = load_fleet_hour(turn), _count_redundant_reads(turn)
    return {
        "counts": counts,
        "total": sum(counts.values()),
        "tick": writes.read_newest_tick(),
        "tokens": hour,
        "cost": hour.cost,
        "turns": hour.turns,
        "stuck": Mysis.objects.exclude(stuck="").count(),
        "idle": describe_idlers(read_idlers()),
        "held": Mysis.objects.exclude(hold="").count(),
        "budgets": read_budget_statuses(list(select_budgets())),
        "today": usage.add_up(Usage.objects.filter(day=usage.today())),
        "staleness": count_by_confidence(now),
        "redundant_gets": reads,
        "redundant_get_rate": reads["rate"],
    }


def count_by_confidence(now: datetime) -> dict[str, int]:
    """The number of snapshots of the fleet's accounts at each level of confidence."""
    flown = Mysis.objects.exclude(account=None)
    names = list(flown.values_list("account__username", flat=True))
    present = read_moments(names, now)
    cached = game_state.load_snapshots(names)
    found = Counter(
        str(judge_confidence(one.snapshot, present[name]))
        for name in names
        for one in cached.get(name, [])
    )
    return {str(level): found[str(level)] for level in Confidence}


def _count_redundant_reads(turn: int | None) -> dict[str, Any]:
    """The get_* calls of the turns from this one on, and the redundant ones of them."""
    if turn is None:
        return {"calls": 0, "redundant": 0, "rate": 0.0}
    [(calls, repeated)] = fetch_rows(REPEATED, {"turn": turn})
    rate = round(repeated / calls, 4) if calls else 0.0
    return {"calls": calls, "redundant": repeated, "rate": rate}


class BroadcastOut(Schema):
    """One message to the fleet; ``mysis`` is the number of one that sent it."""

    id: int
    text: str = Field(examples=["All to Sol."])
    sender: str = Field(examples=["operator:grace"])
    mysis: int | None = Field(validation_alias="mysis_id", examples=[None])
    to: dict[str, Any] = Field(examples=[{"fleet": True}])
    recipients: int = Field(examples=[5])
    order: int | None = Field(examples=[12])
    created_at: datetime

    @staticmethod
    def resolve_order(row: Broadcast) -> int | None:
        """The number of the order that it is; what a Mysis said is none."""
        found = Order.objects.filter(broadcast=row).values_list("pk", flat=True)
        return found.first()

    @staticmethod
    def resolve_recipients(row: Broadcast) -> int:
        """The Myses that got it, or are about to."""
        return actions.count_recipients(row)


class Recipients(Body):
    """Whom a broadcast is for: the fleet, a group, or those with a tag; one of them."""

    model_config = build_example(group="miners")

    fleet: Literal[True] | None = None
    group: Name | None = None
    tag: Annotated[str, Field(min_length=1, max_length=50)] | None = None


class BroadcastIn(Body):
    """A message to every idle and running Mysis, or to those that ``to`` names."""

    model_config = build_example(text="All to Sol.", to={"group": "miners"})

    text: Text
    to: Recipients | None = None


class BroadcastQuestion(Question):
    """As other searches; ``before`` also takes the ``next`` of the page before."""

    before: Annotated[
        int | None,
        Field(
            ge=-MAX_ID,
            le=MAX_ID,
            description="A memory id, or `next`.",
            examples=[1234],
        ),
    ] = None


class BroadcastHitOut(HitOut):
    """As other hits; the memory is the first delivery, if there was any."""

    memory_id: int | None  # type: ignore[assignment]
    mysis: int | None = Field(examples=[None])  # type: ignore[assignment]
    role: Literal["user"]
    origin: Literal["broadcast"]


@broadcasts_router.get("/broadcasts", response=Page[BroadcastOut])
def list_broadcasts(request: HttpRequest, window: Query[Window]) -> Rows:
    """All broadcasts, oldest first."""
    return build_page(Broadcast.objects.defer("vector"), window)


@broadcasts_router.post("/broadcasts", response={201: BroadcastOut})
def send_broadcast(request: HttpRequest, body: BroadcastIn) -> Status[Broadcast]:
    """Send one; stopped and errored Myses get none. 422 where no Mysis is meant."""
    by = caller_name(request)
    group, tag = _read_recipients(body.to)
    sent = actions.send_broadcast(text=body.text, by=by, group=group, tag=tag)
    return Status(201, sent)


def _read_recipients(to: Recipients | None) -> tuple[str, str]:
    """Group and tag, empty for the whole fleet; raises a 422 Problem."""
    if to is None:
        return "", ""
    if len(to.model_dump(exclude_none=True)) != 1:
        raise make_invalid("to", 'give one of "fleet": true, "group" and "tag".')
    return to.group or "", to.tag or ""


@broadcasts_router.get(
    "/search/broadcasts", response=Page[BroadcastHitOut], tags=["search"]
)
def search_broadcasts(request: HttpRequest, asked: Query[BroadcastQuestion]) -> Rows:
    """Matches in broadcasts, newest first; ``mysis`` is one that sent or got it."""
    query = parse_query(asked)
    hits = broadcast_search.search_broadcasts(
        query=query,
        mode=asked.mode,
        limit=asked.limit + 1,
        before=_broadcast_before(asked.before),
        mysis_id=None if asked.mysis is None else get_mysis(asked.mysis).pk,
        ignore_case=asked.ignore_case,
        stem=asked.stem,
    )
    ids = [hit.id for hit in hits]
    senders = dict(Broadcast.objects.filter(pk__in=ids).values_list("pk", "mysis_id"))
    memories = _first_deliveries(ids)
    items: Any = [
        asdict(hit)
        | {
            "memory_id": memories.get(hit.id),
            "mysis": senders[hit.id],
            "role": Role.USER.value,
            "origin": Origin.BROADCAST.value,
            "reasoning": "",
        }
        for hit in hits
    ]
    return cut_page(items, asked.limit, [-number for number in ids])


def _broadcast_before(memory_id: int | None) -> int | None:
    """The broadcast before which to search, for ``before`` of the question.

    ``next`` of a page is a broadcast's own number, negative to tell it from a memory's:
    a broadcast that reached nobody has no memory.
    """
    if memory_id is None:
        return None
    if memory_id < 0:
        return -memory_id
    # Memories and broadcasts rise together: before the oldest broadcast that was
    # delivered as this memory or later. So those that reached nobody are found too.
    later = Memory.objects.filter(pk__gte=memory_id, broadcast__isnull=False)
    oldest: int | None = later.aggregate(oldest=Min("broadcast_id"))["oldest"]
    return oldest


def _first_deliveries(ids: list[int]) -> dict[int, int]:
    rows = Memory.objects.filter(broadcast__in=ids).values_list("broadcast_id")
    return dict(rows.annotate(first=Min("id")).order_by())
