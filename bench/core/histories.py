"""Contexts and merges out of a database: whether they cost more in a long game (DESIGN: flat).

Both functions run in a process of their own; see ``bench.processes``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from django.db import connection
from django.utils import timezone

from agents.models import Mysis
from bench.core.views import SUMMARY
from bench.figures import Aim, Figure, Step, Task, measure_medians
from bench.logs import Log, make_log, stored_calls
from bench.processes import migrated_database
from memory.assembly.prepare import Subject, prepare_request
from memory.context.types import Message
from memory.gamestate.extract import read_result
from memory.models import HistorySummary, Memory
from memory.snapshots import notifications, writes

SHORT, LONG = 1_000, 100_000
#: Messages that are newer than the summary.
UNCOVERED = 200
CONTEXT_REPEATS = 25
STRATEGIES = ("window", "snapshot-window", "tiered", "summary")
GROWTH_TARGET = 1.5

EVENTS = (10, 1_000, 2_000)
HOLD = [{"item_id": "ore_iron", "name": "Iron Ore", "quantity": 3, "size": 1}]
SHIP = {"hull": 100, "shield": 50, "fuel": 90, "cargo_used": 3, "cargo": HOLD}
ANSWERS: dict[str, dict[str, Any]] = {
    "get_status": {"player": {"credits": 5, "current_poi": "belt"}, "ship": SHIP},
    "get_ship": {"ship": SHIP},
    "get_cargo": {"cargo": HOLD, "used": 3, "available": 47},
    "get_poi": {"poi": {"id": "belt"}, "resources": [{"resource_id": "ore_iron"}]},
    "get_nearby": {"nearby": [], "count": 0, "poi_id": "belt"},
    "get_skills": {"player_skills": []},
    "view_market": {"items": []},
}
NOTIFICATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mining_yield", {"resource_id": "ore_iron", "quantity": 1, "remaining": 9}),
    ("pirate_combat", {"player_hull": 90, "player_shield": 9}),
    ("poi_arrival", {"username": "Ben", "poi_id": "belt"}),
    ("poi_departure", {"username": "Ben", "poi_id": "belt"}),
    ("chat_message", {"content": "Hello"}),
)
_numbers = count()


# --- Contexts of a short and of a long history


def measure_contexts(step: Step) -> list[Figure]:
    """The time to prepare a context, by strategy and length of the history."""
    with migrated_database(step):
        log = make_log(LONG)
        # Both end alike, so that nothing but the length differs.
        myses = {}
        for length in (SHORT, LONG):
            step(f"Storing {length:,} messages")
            myses[length] = store_log(log[-length:])
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE memory_memory")
        step("Preparing contexts")
        return [_measure_strategy(name, myses) for name in STRATEGIES]


def _measure_strategy(strategy: str, myses: Mapping[int, int]) -> Figure:
    subjects = {
        length: Subject(mysis, "Ada", "You are Ada.", strategy=strategy)
        for length, mysis in myses.items()
    }
    tasks: dict[str, Task] = {
        str(length): partial(prepare_request, subject)
        for length, subject in subjects.items()
    }
    rows = len(prepare_request(subjects[LONG]).request.messages)
    return growth_figure(strategy, measure_medians(tasks, CONTEXT_REPEATS), rows)


def growth_figure(strategy: str, seconds: Mapping[str, float], rows: int) -> Figure:
    """The time of the longer history, the shorter one as the baseline."""
    short, long = sorted(seconds, key=int)
    return Figure(
        f"context of {int(long):,} rows: {strategy}",
        seconds[long] * 1000,
        "ms",
        baseline=seconds[short] * 1000,
        baseline_is=f"the newest {int(short):,} of them alone",
        target=GROWTH_TARGET,
        aim=Aim.RATIO_BELOW,
        note=f"{rows} rows read",
    )


def store_log(log: Log) -> int:
    """Make a Mysis with this log and a summary of its older part; its id."""
    mysis = Mysis.objects.create(name=f"With {len(log)} memories").pk
    columns = ", ".join(message_columns(mysis, log[0]))
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY memory_memory ({columns}) FROM STDIN") as copy,
    ):
        for message in log:
            copy.write_row(tuple(message_columns(mysis, message).values()))
    ids = Memory.objects.filter(mysis_id=mysis).values_list("pk", flat=True)
    HistorySummary.objects.create(
        mysis_id=mysis,
        first_id=ids.order_by("pk")[0],
        through_id=ids.order_by("-pk")[UNCOVERED],
        generation=1,
        text=SUMMARY,
        history_hash="",
    )
    return mysis


def message_columns(mysis: int, message: Message) -> dict[str, object]:
    """The columns of a stored message."""
    return {
        "mysis_id": mysis,
        "role": message.role,
        "origin": message.origin,
        "sender": "",
        "content": message.content,
        "reasoning": "",
        "signature": "",
        "tool_calls": json.dumps(stored_calls(message)),
        "tool_call_id": message.tool_call_id or "",
        "tool_name": "",
        "args": "{}",
        "is_error": False,
        "pending": False,
        "tick": message.tick,
        "tokens": 0,
        "created_at": "2026-02-05T00:00:00Z",
    }


# --- Merging an event after many others


def measure_merges(step: Step) -> list[Figure]:
    """The time to merge one more event, by the number of events before it."""
    with migrated_database(step):
        step("Storing events")
        for number in EVENTS:
            prepare_account(f"Pilot {number}", number)
        step("Merging events")
        tasks: dict[str, Task] = {
            str(number): partial(merge_events, f"Pilot {number}", 1)
            for number in EVENTS
        }
        return merge_figures(measure_medians(tasks))


def merge_figures(seconds: Mapping[str, float]) -> list[Figure]:
    """The times after many events, that after the fewest as the baseline."""
    fewest, *more = sorted(seconds, key=int)
    return [
        Figure(
            f"one event after {int(number):,} others: merge",
            seconds[number] * 1000,
            "ms",
            baseline=seconds[fewest] * 1000,
            baseline_is=f"after {fewest} others",
            note="7 snapshots made anew",
        )
        for number in more
    ]


def prepare_account(username: str, number: int) -> None:
    """Give an account all snapshots, and merge so many events into them."""
    for tool, answer in ANSWERS.items():
        text = json.dumps(answer)
        writes.capture_snapshot(
            username=username, tool=tool, args={}, text=text, result=read_result(text)
        )
    while number > 0:
        merge_events(username, min(number, 500))
        number -= 500


def merge_events(username: str, number: int) -> None:
    """Merge an answer of get_notifications with so many new events."""
    now = timezone.now() + timedelta(seconds=1)
    items = []
    for place in range(number):
        kind, data = NOTIFICATIONS[place % len(NOTIFICATIONS)]
        moment = now + timedelta(milliseconds=place)
        items.append(
            {
                "id": str(next(_numbers)),
                "msg_type": kind,
                "timestamp": moment.isoformat(),
                "data": data,
            }
        )
    answer = {"notifications": items, "current_tick": 100}
    notifications.merge_notifications(username=username, result=read_result(answer))
