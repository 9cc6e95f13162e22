"""Price before pay: predictions beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from agents import actions, context_inputs
from agents.lab import prices
from agents.lab.prices import Prediction, predict_price
from agents.lab.retaken import Setting, _spread
from agents.llm.endpoints import resolve
from agents.llm.model_types import Usage, price_usage
from agents.models import ModelCall, Mysis, ToolCatalogue, Turn
from memory.assembly import prepare
from memory.models import ContextPolicy, SentContext
from tests.browser import scenes
from tests.factories import make_mysis, make_provider, make_turn
from tests.programs import Program

pytestmark = pytest.mark.django_db
MODEL = "openai:gpt-5-nano"
# A provider counts more than we do, and knows so much of a request already.
MISSED, KNOWN = 1.2, 0.5


@pytest.fixture
def mysis() -> Mysis:
    return make_captain()


def make_captain() -> Mysis:
    """One on a model that has a price."""
    make_provider(name="openai", kind="openai", default_model="gpt-5-nano", key="k")
    made = make_mysis(name="Ada", model=MODEL)
    scenes.add_account(made)
    return made


def fly(mysis: Mysis, calls: int, *, cached: float = KNOWN, **view: Any) -> None:
    """Turns of one call each, in a log that grows; reported as a provider would."""
    for _ in range(calls):
        scenes.add_conversation(mysis, exchanges=2)
        record(mysis, cached=cached, **view)


def record(mysis: Mysis, *, cached: float = KNOWN, **view: Any) -> SentContext:
    turn = make_turn(mysis, outcome="done", model=mysis.model)
    made = context_inputs.preview_context(mysis, **view)
    read = round(sum(made.assembly.stats["tokens_by_category"].values()) * MISSED)
    usage = Usage(read, 50, round(read * cached))
    call = ModelCall.objects.create(
        turn=turn,
        number=1,
        model=mysis.model,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cached_tokens=usage.cached,
        cost=price_usage(resolve(mysis.model), usage) or 0,
    )
    return prepare.record_call(call_id=call.pk, prepared=made)


def predict(mysis: Mysis, **setting: Any) -> Prediction:
    return predict_price([mysis], Setting(**setting), timezone.now())


def add_up(calls: Iterable[ModelCall]) -> tuple[int, int, Decimal]:
    rows = list(calls)
    return (
        sum(call.input_tokens for call in rows),
        sum(call.output_tokens for call in rows),
        sum((call.cost for call in rows), Decimal(0)),
    )


def test_what_is_not_changed_costs_as_much(mysis: Mysis):
    fly(mysis, 6)
    found = predict(mysis, policy=None)
    read, written, cost = add_up(ModelCall.objects.all())
    assert found.now == prices.Spending(read, written, found.now.cached, cost)
    assert found.then is not None
    assert (found.then.input, found.then.output) == (read, written)
    assert found.then.cached == found.now.cached
    assert float(found.then.cost or 0) == pytest.approx(float(cost))
    assert (found.calls, found.sampled, found.notes) == (6, 6, ())
    assert found.basis == "From 6 calls of the last hour."
    assert (found.tokens_percent, found.cost_percent) == (0, 0)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [("window", {"window": 4}), ("tiered", {"tools": "on_demand"})],
)
def test_predicted_is_what_is_measured_when_the_setting_is_taken(
    mysis: Mysis, strategy: str, options: dict[str, Any]
):
    """The same log, flown once as it is and once under the setting."""
    tool = {"description": "Go there. " * 9, "parameters": {}, "policy": "mutation"}
    ToolCatalogue.objects.create(
        url=settings.SPACEMOLT_MCP_URL,
        tools=[{"name": f"act_{number}", **tool} for number in range(40)],
    )
    policy = ContextPolicy.objects.create(
        name="lean", strategy=strategy, options=options, budget_tokens=60_000
    )
    other = copy(mysis)
    other.policy = policy
    as_it_is, as_it_would_be = [], []
    for _ in range(5):
        scenes.add_conversation(mysis, exchanges=3)
        as_it_is.append(record(mysis, cached=0).pk)
        before = Turn.objects.count()
        as_it_would_be.append(record(other, cached=0).call.input_tokens)
        assert Turn.objects.count() == before + 1
        # It is not of the history that is priced.
        Turn.objects.order_by("-pk")[0].delete()
    found = predict(mysis, policy=policy)
    assert found.then is not None
    assert found.sampled == len(as_it_is)
    assert found.then.input == pytest.approx(sum(as_it_would_be), rel=0.01)
    assert found.then.input < found.now.input


def test_another_model_is_priced_by_its_own_list(mysis: Mysis):
    fly(mysis, 3, cached=0)
    found = predict(mysis, model="openai:gpt-5")
    assert found.then is not None
    counted = sum(
        sum(row.stats["tokens_by_category"].values())
        for row in SentContext.objects.all()
    )
    # What our count misses with one model says nothing of another.
    assert found.then.input == counted
    usage = Usage(counted, found.now.output)
    wanted = price_usage(resolve("openai:gpt-5"), usage)
    assert float(found.then.cost or 0) == pytest.approx(float(wanted or 0), rel=0.001)
    unknown = predict(mysis, model="openai:unheard-of-7b")
    assert unknown.then is not None
    assert unknown.then.cost is None
    assert unknown.notes == ("No price of openai:unheard-of-7b is known: tokens only.",)
    nobody = predict(mysis, model="nobody:x")
    assert nobody.then is None
    assert "nobody" in nobody.problem


def test_a_longer_prompt_costs_its_tokens_in_each_call(mysis: Mysis):
    fly(mysis, 3, cached=0)
    text = "Fly. " * 2_000
    found = predict(mysis, text=text)
    made = context_inputs.build_subject(mysis)
    assert found.then is not None
    # Ten thousand characters of prose, in the place of the built-in prompt.
    more = (2_500 - len(made.system or "") / 4) * 3 * MISSED
    assert found.then.input - found.now.input == pytest.approx(more, rel=0.1)


def test_the_cache_knows_as_much_of_what_two_calls_share(mysis: Mysis):
    fly(mysis, 4)
    longer = predict(mysis, text="Fly. " * 2_000)
    assert longer.then is not None
    # What is new stands at the beginning of each, so half of it is known too.
    more = longer.then.input - longer.now.input
    assert longer.then.cached - longer.now.cached > 0.4 * more
    policy = ContextPolicy(name="one", strategy="coalesced", budget_tokens=60_000)
    found = predict(mysis, policy=policy)
    assert found.then is not None
    before, after = (one.cached / one.input for one in (found.now, found.then))
    assert 0 < after < before


def test_it_says_what_it_rests_on_and_what_it_cannot_tell(mysis: Mysis):
    assert "No call of it was answered in the last hour" in predict(mysis).problem
    fly(mysis, 3)
    ModelCall.objects.create(
        turn=Turn.objects.all()[0], kind="summary", number=1, model=MODEL,
        input_tokens=900, output_tokens=100, cost=Decimal("0.5"),
    )  # fmt: skip
    eager = ContextPolicy(
        strategy="summary",
        options={"threshold": 1, "max_summary_tokens": 20, "keep_recent": 1},
    )
    found = predict(mysis, policy=eager)
    assert found.notes[0].endswith("what it saves later, is not in this.")
    assert "Summaries are counted as they were." in found.notes
    tight = predict(mysis, policy=ContextPolicy(budget_tokens=300, budget_reserve=100))
    assert tight.notes[0].startswith("3 of 3 calls would have had no room")
    # A strategy that is gone meanwhile leaves its calls out.
    one = SentContext.objects.latest("pk")
    SentContext.objects.filter(pk=one.pk).update(strategy="gone")
    assert predict(mysis, text="Fly.").sampled == 2
    SentContext.objects.all().delete()
    gone = predict(mysis, policy=eager)
    assert (gone.calls, gone.then) == (3, None)
    assert "no longer kept" in gone.problem
    Turn.objects.update(started_at=timezone.now() - timedelta(hours=2))
    assert predict(mysis).calls == 0


def test_of_many_calls_an_even_few_are_assembled_anew(mysis: Mysis):
    fly(mysis, 1)
    row = SentContext.objects.get()
    for _ in range(49):
        sent, call = copy(row), copy(row.call)
        call.pk, call.turn = None, make_turn(mysis, outcome="done")
        call.save()
        sent.pk, sent.call = None, call
        sent.save()
    found = predict(mysis, policy=None)
    assert (found.calls, found.sampled) == (50, 20)
    assert found.basis == "From 50 calls of the last hour, 20 of them assembled anew."
    assert found.then is not None
    assert found.then.input == found.now.input
    # Whatever is left out for want of time, what was done is spread over the hour.
    assert _spread(8) == [0, 4, 2, 6, 1, 5, 3, 7]


# --- Where it is asked


def test_the_forms_of_a_mysis_say_it_and_save_nothing(admin: Client, mysis: Mysis):
    fly(mysis, 2)
    policy = ContextPolicy.objects.create(
        name="lean", strategy="window", options={"window": 3}
    )
    address = f"/myses/{mysis.page_key}/edit/policy/"
    text = admin.post(f"{address}price/", {"policy": policy.pk}).content.decode()
    assert "From 2 calls of the last hour." in text
    assert "%)" in text
    # Without a script a button asks for it.
    page = admin.get(address).content.decode()
    assert 'name="price"' in page
    asked = admin.post(address, {"policy": policy.pk, "price": "yes"})
    assert asked.status_code == 200
    assert "From 2 calls of the last hour." in asked.content.decode()
    mysis.refresh_from_db()
    assert mysis.policy is None
    odd = f"/myses/{mysis.page_key}/edit"
    assert "not known" in admin.post(f"{odd}/model/price/", {"model": "x:y"}).text
    assert admin.post(f"{odd}/model/price/", {"model": ""}).status_code == 200
    assert admin.post(f"{odd}/group/price/", {}).status_code == 404
    assert admin.get(f"{address}price/").status_code == 405


def test_an_author_sees_it_before_saving(admin: Client, mysis: Mysis):
    fly(mysis, 2)
    actions.save_prompt(prompt=actions.get_default_prompt(), text="Fly.", by="ann")
    prompt = actions.get_default_prompt()
    mysis.prompt = prompt
    mysis.save()
    sent = {"name": prompt.name, "text": "Fly far. " * 500}
    at = f"/admin/agents/prompt/{prompt.pk}/preview/"
    assert "From 2 calls" in admin.post(f"{at}price/", sent).content.decode()
    assert "From 2 calls" in admin.post(at, sent).content.decode()
    policy = {
        "name": "new", "strategy": "window", "options": '{"window": 3}',
        "budget_tokens": 32_000, "budget_reserve": 2_000,
    }  # fmt: skip
    at = "/admin/memory/contextpolicy/preview/price/"
    assert "From 2 calls" in admin.post(at, policy).content.decode()
    assert admin.post(at, policy | {"options": "["}).status_code == 200
    assert "preview/price/" in admin.get("/admin/memory/contextpolicy/add/").text
    at = f"/admin/agents/mysis/{mysis.pk}/"
    assert f"{mysis.pk}/price/" in admin.get(f"{at}change/").text
    same = {"model": MODEL, "prompt": prompt.pk, "policy": ""}
    assert "%" not in admin.post(f"{at}price/", same).text
    other = admin.post(f"{at}price/", same | {"model": "openai:gpt-5"}).text
    assert "What its cache would save is not known." in other
    assert admin.post(f"{at}price/", {"model": ""}).status_code == 200
    assert admin.get(f"{at}price/").status_code == 405
    prompt.refresh_from_db()
    assert prompt.current is not None
    assert prompt.current.text == "Fly."


def test_programs_ask_over_rest(admin_program: Program, mysis: Mysis):
    fly(mysis, 2)
    ContextPolicy.objects.create(name="lean", strategy="window", is_default=True)
    asked = {"mysis": "Ada", "strategy": "window", "options": {"window": 3}}
    found = admin_program.post("/prices", asked).json()
    assert found["now"]["tokens"] > found["then"]["tokens"]
    assert found["basis"] == "From 2 calls of the last hour."
    viewer = Program("viewer")
    assert viewer.post("/prices", {"policy": "lean"}).json()["calls"] == 2
