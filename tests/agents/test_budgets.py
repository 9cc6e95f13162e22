"""Hard budgets: the next call is stopped before it is made (money and tokens)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connections, transaction
from django.utils import timezone

from agents import actions, budgets
from agents.actions import ActionError
from agents.budgets import NOTHING, Amount, BudgetSpentError
from agents.models import Budget, BudgetSpend, Event, Mysis, Provider, Usage
from agents.usage import today
from memory.models import ContextPolicy
from tests.factories import make_mysis
from tests.programs import Program
from tests.statements import record_statements

pytestmark = pytest.mark.django_db


def limit(**values: Any) -> Budget:
    """A budget, by default of 1,000 tokens of the fleet a day."""
    given = {"name": "cap", "scope": "fleet", "tokens": 1000} | values
    return actions.save_budget(budget=Budget(**given))


def free() -> Decimal:
    return Decimal(0)


def take(mysis: Mysis, tokens: int = 0, price: Callable[[], Decimal] = free) -> Any:
    with transaction.atomic():
        return budgets.take_budgets(mysis, tokens, price, budgets.find_budgets(mysis))


def test_without_a_budget_nothing_is_counted_or_priced():
    def never() -> Decimal:
        raise AssertionError

    assert take(make_mysis(), 10**9, never) == ()
    limit()
    take(make_mysis(), 10, never)


def test_a_call_is_let_through_while_it_fits_and_the_refusal_names_the_remedy():
    mysis = make_mysis()
    limit(name="small cap")
    take(mysis, 600)
    with pytest.raises(BudgetSpentError) as refused:
        take(mysis, 401)
    said = str(refused.value)
    assert "small cap" in said
    assert "600 of 1,000 tokens" in said
    assert "about 401 tokens" in said
    assert "00:00 UTC" in said
    assert "raised" in said
    take(mysis, 400)
    with pytest.raises(BudgetSpentError):
        take(mysis, 0)


def test_what_was_used_takes_the_place_of_the_estimate():
    mysis = make_mysis()
    limit()
    taken = take(mysis, 900)
    budgets.settle_budgets(taken, Amount(100))
    taken = take(mysis, 900)
    budgets.settle_budgets(taken, NOTHING)
    assert BudgetSpend.objects.get().tokens == 100


def use(mysis: Mysis, *, day: date | None = None, **values: Any) -> None:
    """What calls of a Mysis came to on a day: 600 tokens and $0.30, if not told."""
    given: dict[str, Any] = {
        "day": day or today(),
        "mysis": mysis,
        "model": mysis.model,
        "input_tokens": 500,
        "output_tokens": 100,
        "cached_tokens": 400,
        "cost": Decimal("0.30"),
    }
    Usage.objects.create(**given | values)


def test_a_budget_of_a_day_counts_what_was_used_before_it_was_made():
    mysis = make_mysis()
    use(mysis)
    use(mysis, day=today() - timedelta(days=1))
    limit()
    spend = BudgetSpend.objects.get()
    assert (spend.tokens, spend.cost, spend.day) == (600, Decimal("0.30"), today())
    with pytest.raises(BudgetSpentError, match="600 of 1,000 tokens are spent today"):
        take(mysis, 401)
    take(mysis, 400)


def test_a_budget_altogether_counts_from_its_making_on():
    mysis = make_mysis()
    use(mysis)
    limit(period="total")
    take(mysis, 1000)


def test_each_mysis_has_its_own_day_behind_it():
    worker, idler = make_mysis(), make_mysis()
    use(worker)
    limit(scope="each")
    with pytest.raises(BudgetSpentError):
        take(worker, 401)
    take(idler, 1000)


@pytest.mark.parametrize("scope", ["mysis", "group", "policy", "provider"])
def test_a_new_budget_counts_the_day_of_its_target_alone(scope: str):
    policy = ContextPolicy.objects.create(name="tight")
    mine = make_mysis(model="lab:x", group="red", policy=policy)
    other = make_mysis(model="pilot", group="blue")
    use(mine, policy="tight")
    use(other)
    targets: dict[str, dict[str, Any]] = {
        "mysis": {"mysis": mine},
        "group": {"label": "red"},
        "policy": {"policy": policy},
        "provider": {"label": "lab"},
    }
    limit(scope=scope, **targets[scope])
    assert BudgetSpend.objects.get().tokens == 600


def test_another_limit_keeps_the_count_and_another_target_begins_it_anew():
    red, blue = make_mysis(group="red"), make_mysis(group="blue")
    use(blue, input_tokens=7, output_tokens=0)
    budget = limit(scope="group", label="red")
    take(red, 300)
    budget.tokens = 2000
    actions.save_budget(budget=budget)
    assert BudgetSpend.objects.get().tokens == 300
    budget.label = "blue"
    actions.save_budget(budget=budget)
    assert BudgetSpend.objects.get().tokens == 7


def test_calls_under_way_pay_nothing_back_to_a_count_that_began_anew():
    red = make_mysis(group="red")
    budget = limit()
    taken = take(red, 600)
    budget.scope, budget.label = "group", "red"
    actions.save_budget(budget=budget)
    take(red, 10)
    budgets.settle_budgets(taken, Amount(50))
    assert BudgetSpend.objects.get().tokens == 10


def test_what_was_spent_altogether_outlives_a_change_of_the_period():
    mysis = make_mysis()
    use(mysis, day=today() - timedelta(days=3))
    budget = limit(period="total", tokens=2000)
    Budget.objects.update(created_at=timezone.now() - timedelta(days=2))
    budget.refresh_from_db()
    use(mysis, day=today() - timedelta(days=1))
    use(mysis)
    for period, tokens in (("day", 600), ("total", 1200)):
        budget.period = period
        actions.save_budget(budget=budget)
        assert BudgetSpend.objects.get().tokens == tokens
    take(mysis, 800)
    with pytest.raises(BudgetSpentError, match="2,000 of 2,000 tokens"):
        take(mysis, 1)


def test_money_is_limited_like_tokens():
    mysis = make_mysis()
    limit(tokens=None, cost=Decimal("0.50"))
    taken = take(mysis, 10**9, lambda: Decimal("0.30"))
    with pytest.raises(BudgetSpentError, match=r"\$0\.3000 of \$0\.5000"):
        take(mysis, 1, lambda: Decimal("0.21"))
    budgets.settle_budgets(taken, Amount(5, Decimal("0.55")))
    # Where no price is known: once the money is gone, not even a free call.
    with pytest.raises(BudgetSpentError):
        take(mysis, 1)


@pytest.fixture
def blind() -> Mysis:
    """One whose model nobody knows a price of, beside others that have one."""
    Provider.objects.create(name="lab", kind="openai", base_url="http://127.0.0.1:9/v1")
    make_mysis(model="pilot")
    make_mysis(model="lab:gpt-5-nano", group="red")
    make_mysis(model="ollama:qwen3:4b")
    return make_mysis(model="lab:our-own", group="blue")


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        ({}, True),
        ({"cost": None, "tokens": 5}, False),
        ({"scope": "each"}, True),
        ({"scope": "group", "label": "blue"}, True),
        ({"scope": "group", "label": "red"}, False),
        ({"scope": "provider", "label": "lab"}, True),
        ({"scope": "provider", "label": "ollama"}, False),
    ],
)
def test_a_limit_of_money_says_what_it_does_not_limit(
    blind: Mysis, values: dict[str, Any], warns: bool
):
    budget = limit(**{"tokens": None, "cost": Decimal(1)} | values)
    said = budgets.find_price_warnings([budget]).get(budget.pk, "")
    assert ("No price is known of lab:our-own:" in said) is warns
    assert "limit of tokens" in said or not warns


def test_a_call_without_a_price_is_told_once(blind: Mysis, other_process: None):
    limit(tokens=None, cost=Decimal(1))
    take(make_mysis(model="pilot"), 10)
    assert not Event.objects.filter(kind="error").exists()
    for _ in range(2):
        take(blind, 10)
    told = Event.objects.get(kind="error")
    assert (told.mysis_id, told.data["code"]) == (blind.pk, "unpriced")


@pytest.fixture
def other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has looked at no model yet."""
    monkeypatch.setattr(budgets, "_checked_models", set())


def test_a_budget_of_nothing_stops_everything():
    limit(tokens=0)
    with pytest.raises(BudgetSpentError):
        take(make_mysis(), 0)


def test_a_day_begins_anew_and_a_total_does_not():
    mysis = make_mysis()
    limit(name="day")
    limit(name="ever", tokens=1500, period="total")
    first = take(mysis, 900)
    BudgetSpend.objects.filter(budget__name="day").update(
        day=today() - timedelta(days=1)
    )
    assert budgets.explain_refusal(mysis, budgets.find_budgets(mysis)) == ""
    # An answer that comes after midnight is no part of the new day.
    budgets.settle_budgets(first, Amount(1000))
    take(mysis, 400)
    spent = {one.budget.name: one.spent for one in budgets.read_mysis_statuses(mysis)}
    assert spent == {"day": Amount(400), "ever": Amount(1400)}
    with pytest.raises(BudgetSpentError, match="ever"):
        take(mysis, 200)


def test_each_scope_counts_whom_it_names():
    policy = ContextPolicy.objects.create(name="tight")
    ada = make_mysis(name="Ada", group="miners", policy=policy, model="openai:gpt-5")
    eve = make_mysis(name="Eve", model="pilot")
    limit(name="f")
    limit(name="e", scope="each")
    limit(name="m", scope="mysis", mysis=ada)
    limit(name="g", scope="group", label="miners")
    limit(name="p", scope="policy", policy=policy)
    limit(name="o", scope="provider", label="openai")
    limit(name="other", scope="provider", label="gpt-5")
    for mysis in (ada, ada, eve):
        take(mysis, 100)

    def spent(mysis: Mysis) -> dict[str, int]:
        found = budgets.read_mysis_statuses(mysis)
        return {one.budget.name: one.spent.tokens for one in found if one.spent}

    own = {"e": 200, "m": 200, "g": 200, "p": 200, "o": 200}
    assert spent(ada) == {"f": 300} | own
    assert spent(eve) == {"f": 300, "e": 100}


@pytest.mark.parametrize(
    "values",
    [
        {"tokens": None},
        {"scope": "mysis"},
        {"scope": "group"},
        {"scope": "fleet", "label": "x"},
        {"cost": Decimal(-1)},
        {"name": "7"},
        {"scope": "moon"},
    ],
)
def test_a_budget_that_limits_nothing_or_nobody_is_refused(values: dict[str, Any]):
    with pytest.raises(ActionError) as refused:
        limit(**values)
    assert refused.value.status == 422


def held(mysis: Mysis) -> None:
    mysis.state, mysis.hold = Mysis.State.RUNNING, "The budget cap has no room."
    mysis.save()


def test_a_raised_or_removed_budget_lets_those_who_are_held_look_again():
    budget = limit()
    eve = make_mysis(name="Eve")
    for act in (
        lambda: actions.save_budget(budget=budget),
        lambda: actions.update_mysis(mysis=eve, by="test", group="x"),
        lambda: actions.delete_budget(budget=budget),
    ):
        eve.next_job = None
        held(eve)
        act()
        eve.refresh_from_db()
        assert eve.next_job is not None


@pytest.mark.parametrize("act", [actions.delete_budget, actions.save_budget])
def test_rows_of_myses_are_locked_before_counters(act: Callable[..., object]):
    """As by a call that is paid for: each would else wait for what the other holds."""
    budget, mysis = limit(), make_mysis()
    take(mysis, 10)
    held(mysis)
    with record_statements() as said:
        act(budget=budget)
    locked = next(n for n, sql in enumerate(said) if "FOR UPDATE" in sql)
    counters = [n for n, sql in enumerate(said) if "agents_budgetspend" in sql]
    assert "agents_mysis" in said[locked]
    assert all(locked < number for number in counters)


@pytest.mark.django_db(transaction=True)
def test_many_workers_at_once_never_take_more_than_there_is():
    """The bound: not one token more is lent than the limit, however many ask."""
    myses = [make_mysis() for _ in range(8)]
    limit(tokens=1000)
    through: list[int] = []
    start = threading.Barrier(len(myses))

    def work(mysis: Mysis) -> None:
        start.wait()
        for _ in range(30):
            try:
                take(mysis, 7)
                through.append(7)
            except BudgetSpentError:
                break
        connections.close_all()

    threads = [threading.Thread(target=work, args=(mysis,)) for mysis in myses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(through) == 994
    assert BudgetSpend.objects.get().tokens == 994


def test_budgets_over_rest():
    admin, viewer = Program(), Program("viewer")
    make_mysis(name="Ada", group="miners")
    assert viewer.post("/budgets", {"name": "x", "scope": "fleet"}).status_code == 403
    made = admin.post(
        "/budgets",
        {"name": "cap", "scope": "mysis", "target": "Ada", "cost": 0.5, "tokens": 900},
    )
    assert made.status_code == 201
    assert made.json() == {
        "id": Budget.objects.get().pk, "name": "cap", "scope": "mysis",
        "target": "Ada", "period": "day", "tokens": 900, "cost": 0.5,
        "spent": {"tokens": 0, "cost": 0},
        "warning": None,
    }  # fmt: skip
    take(Mysis.objects.get(), 100)
    changed = admin.patch("/budgets/cap", {"tokens": None, "period": "total"}).json()
    assert (changed["tokens"], changed["cost"], changed["period"]) == (
        None, 0.5, "total",
    )  # fmt: skip
    moved = admin.patch("/budgets/cap", {"scope": "group", "target": "miners"}).json()
    assert (moved["scope"], moved["target"]) == ("group", "miners")
    assert viewer.get("/budgets").json()["items"] == [moved]
    del moved["warning"]
    assert viewer.get("/fleet").json()["budgets"] == [moved]
    each = admin.post("/budgets", {"name": "e", "scope": "each", "tokens": 500}).json()
    assert (each["target"], each["spent"]) == (None, None)
    own = viewer.get("/myses/Ada").json()
    assert [one["name"] for one in own["budgets"]] == ["cap", "e"]
    assert own["budgets"][1]["spent"] == {"tokens": 0, "cost": 0}
    assert (own["group"], own["hold"]) == ("miners", None)
    assert admin.delete("/budgets/cap").status_code == 204
    assert admin.get("/budgets/cap").status_code == 404
