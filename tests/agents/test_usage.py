"""What the fleet used: added up with each call, read without looking at calls."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from agents import actions, usage
from agents.models import ModelCall, Mysis, Turn, Usage
from agents.usage import CallCost, CallPlace
from tests.factories import make_mysis, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db

SPENT = CallCost(100, 20, 60, Decimal("0.25"), 900)
DAY = date(2026, 3, 1)


def spend(
    mysis: Mysis, spent: CallCost = SPENT, *, day: date = DAY, **place: Any
) -> ModelCall:
    """One call of a turn of its own, recorded."""
    turn = make_turn(mysis)
    call = ModelCall.objects.create(turn=turn, number=1, model="m")
    values = {"policy": "", "model": "m"} | place
    usage.record_cost(CallPlace(call.pk, mysis.pk, day, **values), spent)
    return call


def test_a_call_is_added_up_wherever_it_counts():
    mysis = make_mysis()
    call = spend(mysis)
    spend(mysis, CallCost(latency_ms=5, error="busy"))
    spend(mysis, summary=True)
    call.refresh_from_db()
    assert (call.input_tokens, call.cost, call.latency_ms) == (
        100,
        Decimal("0.25"),
        900,
    )
    assert Turn.objects.get(pk=call.turn_id).cached_tokens == 60
    mysis.refresh_from_db()
    assert (mysis.input_tokens, mysis.output_tokens) == (200, 40)
    row = Usage.objects.get()
    assert (row.calls, row.summaries, row.errors) == (2, 1, 1)
    assert (row.cost, row.latency_ms) == (Decimal("0.5"), 1805)


def test_what_was_used_outlives_turns_and_myses():
    mysis = make_mysis()
    call = spend(mysis)
    call.turn.delete()
    usage.record_cost(CallPlace(call.pk, mysis.pk, DAY, "", "m"), SPENT)
    actions.delete_mysis(mysis=mysis, by="test")
    assert usage.add_up(Usage.objects.all())["input_tokens"] == 200


def test_usage_is_told_by_mysis_policy_model_and_day():
    viewer, today = Program("viewer"), usage.today()
    ada, eve = make_mysis(name="Ada"), make_mysis(name="Eve")
    spend(ada, day=today, policy="tight")
    spend(ada, day=today - timedelta(days=1), policy="wide", model="n")
    spend(eve, day=today, policy="tight", summary=True)
    spend(eve, day=today - timedelta(days=40))
    told = viewer.get("/usage").json()
    assert [item["key"] for item in told["items"]] == [
        str(today - timedelta(days=1)), str(today),
    ]  # fmt: skip
    assert told["items"][1]["tokens"] == {"input": 200, "output": 40, "cached": 120}
    assert (told["items"][1]["calls"], told["items"][1]["summaries"]) == (1, 1)
    assert (told["total"]["cost"], told["total"]["latency_ms"]) == (0.75, 2700)
    assert told["since"] == str(today - timedelta(days=29))
    for by, keys in (
        ("policy", ["tight", "wide"]),
        ("model", ["m", "n"]),
        ("mysis", ["Ada", "Eve"]),
    ):
        found = viewer.get(f"/usage?by={by}").json()["items"]
        assert [item["key"] for item in found] == keys
    everything = viewer.get("/usage?by=mysis&since=2000-01-01").json()
    assert everything["items"][1]["mysis"] == eve.pk
    assert everything["total"]["cost"] == 1.0
    assert viewer.get("/fleet").json()["today"]["cost"] == 0.5
    own = viewer.get("/myses/Eve").json()["usage"]
    assert (own["today"]["summaries"], own["total"]["cost"]) == (1, 0.5)


@pytest.mark.parametrize("by", ["mysis", "policy", "model", "day"])
def test_usage_comes_in_pages(by: str):
    viewer = Program("viewer")
    for number in range(3):
        name = f"{number}p"
        day = usage.today() - timedelta(days=number)
        spend(make_mysis(), day=day, policy=name, model=name)
    whole = viewer.get(f"/usage?by={by}").json()
    first = viewer.get(f"/usage?by={by}&limit=2").json()
    rest = viewer.get(f"/usage?by={by}&limit=2&cursor={first['next']}").json()
    assert first["items"] + rest["items"] == whole["items"]
    assert (whole["next"], rest["next"], first["total"]) == (None, None, rest["total"])


def plan_of(rows: QuerySet[Any]) -> str:
    sql, values = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}", values)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_totals_go_by_an_index_however_long_the_fleet_has_flown():
    """50 Myses over 200 days: neither calls nor other days are read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO agents_usage (day, mysis_id, policy, model, calls, summaries,"
            " errors, input_tokens, output_tokens, cached_tokens, cost, latency_ms)"
            " SELECT current_date - n % 200, n / 200, '', 'm', 1, 0, 0, 1, 1, 0, 0, 1"
            " FROM generate_series(0, 9999) AS n"
        )
        cursor.execute("ANALYZE agents_usage")
    since = usage.today() - timedelta(days=2)
    for rows, index in (
        (Usage.objects.filter(day=usage.today()), "usage_day"),
        (Usage.objects.filter(day__gte=since), "usage_day"),
        (Usage.objects.filter(mysis_id=7), "usage_once"),
    ):
        plan = plan_of(usage.add_up_by(rows, "model"))
        assert index in plan, plan
        assert "Seq Scan" not in plan
