"""Credits an hour and the rest, as page, REST and MCP tell them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.dashboard import charts, fleet, yields
from agents.dashboard.accounts import _read_levels
from agents.dashboard.game_state import ShownFact
from agents.dashboard.yield_board import FIGURES, sort_lines
from agents.dashboard.yield_marks import find_marks
from agents.dashboard.yields import Sums, YieldLine, add_up_yield, list_lines
from agents.models import (
    Delivery,
    Mysis,
    Order,
    OrderRecipient,
    OrderState,
    Prompt,
    PromptVersion,
    Turn,
)
from memory.models.contexts import BUILT_IN
from tests.factories import bring_in, make_memory, make_mysis, make_turn
from tests.statements import record_statements

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def add_turns(
    mysis: Mysis, begin: datetime, count: int, gain: int, **values: Any
) -> None:
    """Turns of half a minute, one a minute, each as much richer."""
    first, had = mysis.turns.count() + 1, 1000
    rows = [
        Turn(
            mysis=mysis,
            number=first + place,
            trigger="nudge",
            outcome="done",
            finished_at=begin + place * MINUTE + MINUTE / 2,
            previous_end=begin + place * MINUTE - MINUTE / 2,
            credits_before=had + place * gain,
            credits_after=had + (place + 1) * gain,
            **{"model": "pilot", "input_tokens": 100, **values},
        )
        for place in range(count)
    ]
    Turn.objects.bulk_create(rows)
    for place, row in enumerate(rows):
        row.started_at = begin + place * MINUTE
    Turn.objects.bulk_update(rows, ["started_at"])
    bring_in(*rows)


def test_sums_equal_those_of_the_rows(db: None):
    now, dice = timezone.now(), Random(7)  # noqa: S311 (no secret)
    wanted: dict[str, int] = {}
    # Before the hour: it counts for nothing.
    add_turns(make_mysis(name="Old"), now - 3 * HOUR, 10, 99)
    for place in range(12):
        mysis = make_mysis(name=f"M{place:02}")
        gain = dice.randint(-20, 50)
        add_turns(
            mysis,
            now - 40 * MINUTE,
            30,
            gain,
            model=dice.choice(["pilot", "gpt"]),
            actions=2,
            failed_actions=place % 3,
            cost=Decimal("0.01"),
        )
        wanted[mysis.name] = 30 * gain
    found = add_up_yield(now - HOUR, now)
    lines = {line.label: line.sums for line in list_lines(found, "mysis")}
    assert {name: one.credits for name, one in lines.items() if one.turns} == wanted
    assert lines["Old"].credits is None
    assert lines["Old"].idle_share == 1
    one = lines["M01"]
    assert one.hours == pytest.approx(40.5 / 60)
    assert one.per_hour == pytest.approx(wanted["M01"] / one.hours)
    assert one.per_1k_tokens == pytest.approx(wanted["M01"] / 3)
    assert one.per_dollar == pytest.approx(wanted["M01"] / 0.3)
    assert one.failed_share == 0.5
    by_model = list_lines(found, "model")
    assert sum(line.sums.credits or 0 for line in by_model) == sum(wanted.values())
    assert sum(line.myses for line in by_model) == 12
    # The row of the fleet tells the same.
    numbers = list(Mysis.objects.values_list("pk", flat=True))
    hours = charts.load_last_hours(numbers, now)
    for mysis in Mysis.objects.all():
        assert hours[mysis.pk].earned == lines[mysis.name].credits
        rate = lines[mysis.name].per_hour
        assert hours[mysis.pk].per_hour == (rate and float(f"{rate:.3g}"))


def test_what_nobody_told_is_unknown_not_zero(db: None):
    now = timezone.now()
    mysis = make_mysis()
    add_turns(mysis, now - 30 * MINUTE, 3, 0)
    mysis.turns.update(credits_before=None, credits_after=None)
    [line] = list_lines(add_up_yield(now - HOUR, now), "mysis")
    assert (line.sums.credits, line.sums.per_hour) == (None, None)
    assert line.sums.unknown_turns == 3


def test_rates_leave_out_turns_that_told_nothing(db: None):
    now = timezone.now()
    mysis = make_mysis()
    spent = {"cost": Decimal("0.01")}
    add_turns(mysis, now - 30 * MINUTE, 20, 5, **spent)
    add_turns(mysis, now - 10 * MINUTE, 10, 0, **spent)
    unknown = mysis.turns.filter(number__gt=20)
    unknown.update(credits_before=None, credits_after=None)
    # Its last turn told nothing, so the time after it is unknown too.
    [line] = list_lines(add_up_yield(now - HOUR, now), "mysis")
    assert line.sums.hours == pytest.approx(30.5 / 60)
    assert line.sums.known_hours == pytest.approx(20 / 60)
    assert line.sums.per_hour == pytest.approx(300)
    assert line.sums.per_1k_tokens == pytest.approx(50)
    assert line.sums.per_dollar == pytest.approx(500)
    # The row of the fleet tells the same.
    hour = charts.load_last_hours([mysis.pk], now)[mysis.pk]
    assert hour.per_hour == pytest.approx(300)
    assert hour.per_1k_tokens == pytest.approx(50)
    assert hour.per_dollar == pytest.approx(500)


def test_a_minute_of_twelve_is_no_five_minutes_of_one(db: None):
    now = timezone.now()
    for _ in range(12):
        add_turns(make_mysis(), now - MINUTE, 1, 50)
    found = add_up_yield(now - HOUR, now)
    [line] = list_lines(found, "model")
    assert (line.sums.credits, line.sums.per_hour) == (600, None)
    assert line.sums.known_seconds > 5 * 60
    assert yields.add_up_lines(found).per_hour is None
    # One that was tried for a minute takes the rate from nobody.
    for mysis in Mysis.objects.all()[:11]:
        add_turns(mysis, now - 30 * MINUTE, 20, 5)
    [line] = list_lines(add_up_yield(now - HOUR, now), "model")
    assert line.sums.per_hour is not None


def test_the_total_leaves_out_who_stood_on_the_ground(db: None):
    now = timezone.now()
    stopped = make_mysis(state="stopped")
    add_turns(stopped, now - 3 * HOUR, 5, 5)
    add_turns(make_mysis(), now - 30 * MINUTE, 30, 5)
    Mysis.objects.filter(pk=make_mysis().pk).update(created_at=now - 3 * HOUR)
    found = add_up_yield(now - HOUR, now)
    assert len(list_lines(found, "mysis")) == 3
    total = yields.add_up_lines(found)
    assert total.hours == pytest.approx(30.5 / 60)
    assert total.per_hour == pytest.approx(150 / total.hours)
    # An idle one belongs to it: it could have flown.
    Mysis.objects.filter(pk=stopped.pk).update(state="idle")
    total = yields.add_up_lines(add_up_yield(now - HOUR, now))
    assert total.hours == pytest.approx(1 + 30.5 / 60)


def test_orders_done_are_those_said_to_be(db: None):
    now = timezone.now()
    mysis = make_mysis()
    turn = make_turn(mysis, model="pilot")
    for state in (OrderState.DONE, OrderState.NOT_DONE, OrderState.ANSWERED):
        said = make_memory(mysis, sender="operator:a")
        Delivery.objects.create(
            memory=said,
            mysis=mysis,
            turn=turn,
            turn_number=1,
            call_number=1,
            done_at=now,
        )
        order = Order.objects.create(text="Dock.", sender="operator:a")
        OrderRecipient.objects.create(
            order=order, mysis=mysis, memory=said, state=state
        )
    [line] = list_lines(add_up_yield(now - HOUR, now), "mysis")
    assert line.sums.orders_done == 1


def change_prompt(
    mysis: Mysis, now: datetime, gains: tuple[int, int], versions: list[PromptVersion]
) -> None:
    """Two hours of flight; from the middle on with the second version."""
    add_turns(mysis, now - 125 * MINUTE, 60, gains[0], prompt_version=versions[0])
    add_turns(mysis, now - 65 * MINUTE, 65, gains[1], prompt_version=versions[1])
    mysis.turns.filter(number=61).update(changed="prompt")


def test_a_change_is_compared_over_equal_spans(db: None):
    now = timezone.now()
    prompt = Prompt.objects.create(name="corsair")
    versions = [
        PromptVersion.objects.create(prompt=prompt, number=number, text="Trade.")
        for number in (2, 3)
    ]
    for _ in range(3):
        change_prompt(make_mysis(), now, (100, 118), versions)
    [mark] = find_marks(timedelta(hours=6), now)
    assert mark.title == "corsair v2 to v3"
    assert mark.explain() == "+18 % over 1 h, 3 Myses"
    assert (mark.before, mark.after) == (6000, 7080)
    # Another change in between leaves too few that can be compared.
    turns = Turn.objects.filter(number=70)
    turns.update(changed="model", model="gpt")
    told = {mark.what: mark.explain() for mark in find_marks(6 * HOUR, now)}
    assert told["prompt"] == "not enough to compare yet"


def test_changes_of_one_turn_claim_nothing_each(db: None):
    now = timezone.now()
    prompt = Prompt.objects.create(name="corsair")
    versions = [
        PromptVersion.objects.create(prompt=prompt, number=number, text="Trade.")
        for number in (2, 3)
    ]
    mysis = make_mysis()
    change_prompt(mysis, now, (100, 118), versions)
    mysis.turns.filter(number__gt=60).update(model="gpt")
    mysis.turns.filter(number=61).update(changed="prompt model")
    told = {mark.what: mark.explain() for mark in find_marks(6 * HOUR, now)}
    assert told == {
        "prompt": "changed in one turn with the model: not told apart",
        "model": "changed in one turn with the prompt: not told apart",
    }


@pytest.mark.parametrize("side", ["before", "after"])
def test_who_flew_little_of_a_span_is_not_compared(db: None, side: str):
    now = timezone.now()
    prompt = Prompt.objects.create(name="corsair")
    versions = [
        PromptVersion.objects.create(prompt=prompt, number=number, text="Trade.")
        for number in (2, 3)
    ]
    mysis = make_mysis()
    change_prompt(mysis, now, (100, 118), versions)
    if side == "after":
        mysis.turns.filter(number__gt=70).delete()
    else:
        mysis.turns.filter(number__range=(2, 50)).delete()
        slept = mysis.turns.get(number=1).finished_at
        mysis.turns.filter(number=51).update(previous_end=slept, idle_seconds=49.5 * 60)
    [mark] = find_marks(6 * HOUR, now)
    assert mark.explain() == "not enough to compare yet"


def test_200_myses_take_as_many_statements_as_two(db: None):
    now = timezone.now()

    def count() -> int:
        with record_statements() as asked:
            found = add_up_yield(now - HOUR, now)
            for by in yields.GROUPINGS:
                list_lines(found, by)
            find_marks(HOUR, now)
        return len(asked)

    for _ in range(2):
        make_turn(make_mysis(), model="pilot")
    few = count()
    Mysis.objects.bulk_create(Mysis(name=f"Fleet {n}") for n in range(200))
    for mysis in Mysis.objects.filter(name__startswith="Fleet"):
        make_turn(mysis, model="pilot")
    assert count() == few <= 8


@given(st.lists(st.none() | st.integers(-50, 50)), st.sampled_from(sorted(FIGURES)))
def test_unknown_figures_stand_last_either_way(values: list[int | None], order: str):
    lines = [
        YieldLine(str(place), Sums(credits=value, known_seconds=3600))
        for place, value in enumerate(values)
    ]
    for asked in (order, f"-{order}"):
        told = [FIGURES[order].read(line) for line in sort_lines(lines, asked)]
        known = [value for value in told if value is not None]
        assert told == known + [None] * (len(told) - len(known))
        down = FIGURES[order].most_first != asked.startswith("-")
        assert known == sorted(known, reverse=down)


@given(st.sampled_from("mhd"), st.integers(0, 10**6))
def test_a_span_is_read_or_refused(unit: str, amount: int):
    found = yields.parse_span(f"{amount}{unit}")
    assert found is None or yields.SHORTEST <= found <= yields.LONGEST
    assert yields.parse_span(f"-{amount}{unit}") is None


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("Fuel", "100/100", "ok"),
        ("Fuel", "50/100", "near"),
        ("Fuel", "25/100", "spent"),
        ("Hull", "1,200/4,000", "near"),
        ("Cargo", "5/100", "ok"),
        ("Cargo", "100/100", "near"),
    ],
)
def test_bars_colour_by_what_is_left(name: str, value: str, level: str):
    fact = ShownFact(name, value, "fresh", (), (), 0)
    [found] = _read_levels({name: fact})
    assert (found.name, found.value, found.level) == (name.lower(), value, level)


def test_page_and_rest_tell_the_same(sign_in: Callable[..., Client]):
    now = timezone.now()
    add_turns(make_mysis(name="Ada"), now - 30 * MINUTE, 20, 5)
    viewer = sign_in("viewer")
    page = viewer.get("/yield/?by=mysis&since=6h&sort=-per_hour").content.decode()
    assert 'aria-sort="ascending"' in page
    assert "+100" in page
    found = viewer.get("/api/v1/yield?since=6h").json()
    [item] = found["items"]
    assert (item["key"], item["credits"], found["total"]["credits"]) == (
        "Ada",
        100,
        100,
    )
    assert found["marks"] == []
    for by in yields.GROUPINGS:
        assert viewer.get(f"/yield/?by={by}").status_code == 200
        assert viewer.get(f"/api/v1/yield?by={by}").status_code == 200
    wrong = viewer.get("/api/v1/yield?since=1y")
    assert wrong.status_code == 422
    assert "since" in wrong.json()["detail"]
    assert viewer.get("/api/v1/yield?by=ship").status_code == 422


def test_lines_that_read_alike_are_told_apart(sign_in: Callable[..., Client]):
    now = timezone.now()
    prompt = Prompt.objects.create(name="corsair")
    for number in (1, 2):
        version = PromptVersion.objects.create(
            prompt=prompt, number=number, text="Trade."
        )
        make_turn(make_mysis(), model="a/b", prompt_version=version)
    make_turn(make_mysis(), model=yields.NOT_KEPT, policy_name=BUILT_IN)
    make_turn(make_mysis())
    found = add_up_yield(now - HOUR, now + MINUTE)
    for by in yields.GROUPINGS:
        labels = [line.label for line in list_lines(found, by)]
        assert len(set(labels)) == len(labels), by
    viewer = sign_in("viewer")
    for by in yields.GROUPINGS:
        told: list[str] = []
        cursor: str | None = ""
        while cursor is not None and len(told) < 10:
            asked = {"by": by, "limit": "1"} | ({"cursor": cursor} if cursor else {})
            page = viewer.get("/api/v1/yield", asked).json()
            told += [item["key"] for item in page["items"]]
            cursor = page["next"]
        assert told == sorted(line.label for line in list_lines(found, by))
    assert (
        len({line.label for line in yields.name_prompt_versions([98, 99]).values()})
        == 3
    )


def test_an_empty_fleet_says_so(admin: Client):
    assert "No Myses yet." in admin.get("/yield/").content.decode()
    assert (
        "No turn in the last 7d."
        in admin.get("/yield/?by=prompt&since=7d").content.decode()
    )


def test_the_fleet_is_sorted_by_its_yield(db: None):
    now = timezone.now()
    for name, gain in (("Ada", 5), ("Bo", 50), ("Cy", -5)):
        add_turns(make_mysis(name=name), now - 30 * MINUTE, 20, gain)
    make_mysis(name="Di")
    rows = fleet.load_view(fleet.FleetView(sort="yield"), now).shown
    assert [row.name for row in rows] == ["Bo", "Ada", "Cy", "Di"]
