"""Recorded calls made anew against recorded answers, beside the game and the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import actions
from agents.actions import ActionError
from agents.context_inputs import preview_context
from agents.lab import rewind as lab
from agents.lab.recorded_answers import Called, find_difference
from agents.lab.rewind_walk import run_rewind
from agents.models import (
    Budget,
    BudgetSpend,
    Delivery,
    Event,
    ModelCall,
    Mysis,
    Rewind,
    RewindStep,
    ToolPolicy,
    Turn,
    Usage,
)
from agents.scheduling import BEHIND_TURNS
from memory.assembly import prepare
from memory.assembly.sent_view import render_sent
from memory.models import ContextPolicy, Memory, SentContext
from memory.redaction import HIDDEN
from tests.agents.runtime.logs import in_db
from tests.factories import make_memory, make_mysis, make_provider, make_turn
from tests.fakes.openai import KEY, FakeProvider, Json, Reply, call, completion
from zoea.auth import create_token

BY = "operator:ann"
TRAVEL = '{"to": "Sol", "speed": 2}'
# Tables that a rewind leaves alone.
UNTOUCHED = (Memory, Event, Turn, ModelCall, SentContext, Delivery)


@pytest.fixture(autouse=True)
def _leave_nothing(nothing_left_open: None) -> None:
    """Here every test may open something."""


@pytest.fixture
def eve(transactional_db: Any, provider: FakeProvider) -> Mysis:
    """At rest, on the strict provider, with three calls on record."""
    make_provider(name="strict", kind="openai", base_url=provider.url, key=KEY)
    mysis = make_mysis(name="Eve", model="strict:gpt-5-nano", state="stopped")
    make_memory(mysis, content="Fly to Sol.", sender=BY)
    turn = make_turn(mysis, outcome="done")
    record(
        mysis, turn, 1, "I fly.", call("travel", TRAVEL, "c1"), call("look", "{}", "c2")
    )
    record(mysis, turn, 2, "There. I dock.", call("dock", "{}", "c3"))
    record(mysis, turn, 3, "Docked.")
    return mysis


def record(mysis: Mysis, turn: Turn, number: int, text: str, *calls: Json) -> None:
    """A call of a turn, its answer, and what the game answered."""
    made = ModelCall.objects.create(
        turn=turn, number=number, model=mysis.model, input_tokens=900,
        output_tokens=20, finish_reason="stop",
    )  # fmt: skip
    prepare.record_call(call_id=made.pk, prepared=preview_context(mysis))
    said = {"role": "assistant", "content": text, "tool_calls": list(calls)}
    make_memory(mysis, turn=turn, **said)
    for one in calls:
        name = one["function"]["name"]
        make_memory(
            mysis, turn=turn, role="tool", tool_name=name, tool_call_id=one["id"],
            content=f"answer of {name}",
        )  # fmt: skip


def first(mysis: Mysis) -> SentContext:
    """The stored context of its first call."""
    turn = Turn.objects.get(mysis=mysis)
    return lab.find_call(turn.pk, 1)


async def run(mysis: Mysis, **settings: Any) -> Rewind:
    """A rewind from its first call on, to its end."""

    def start() -> Rewind:
        given = lab.RewindSettings(**settings)
        return lab.start_rewind(sent=first(mysis), settings=given, by=BY)

    made = await in_db(start)()
    await run_rewind(made.pk)
    row: Rewind = await in_db(Rewind.objects.get)(pk=made.pk)
    return row


async def steps(row: Rewind) -> list[RewindStep]:
    found: list[RewindStep] = await in_db(lambda: list(row.steps.order_by("place")))()
    return found


def sayings(*answers: tuple[str, list[Json]]) -> list[Reply]:
    return [
        Reply(body=completion(text, **({"tool_calls": calls} if calls else {})))
        for text, calls in answers
    ]


def fly(arguments: str = TRAVEL, name: str = "travel") -> tuple[str, list[Json]]:
    return "Off.", [call(name, arguments, "x1"), call("look", "{}", "x2")]


DOCK = ("Now to dock.", [call("dock", "{}", "y")])
END: tuple[str, list[Json]] = ("All done.", [])


@pytest.mark.parametrize(
    ("answers", "made", "end", "why"),
    [
        ([fly(), DOCK, END], 3, "end_of_record", ""),
        ([fly('{"speed": 2.0,"to":"Sol"}'), DOCK, END], 3, "end_of_record", ""),
        ([fly(name="jump")], 1, "differs", "Call 1 is jump; recorded was travel."),
        (
            [fly('{"to": "Mars", "speed": 2}')],
            1,
            "differs",
            'Call 1, travel, has to "Mars"; recorded was "Sol".',
        ),
        ([fly(), END], 2, "differs", "It calls nothing; recorded was dock."),
        (
            [fly(), DOCK, fly()],
            3,
            "differs",
            "It calls travel, look; recorded was no call.",
        ),
        ([fly(), fly()], 2, "differs", "Call 1 is travel; recorded was dock."),
    ],
)
async def test_it_goes_on_while_the_calls_are_the_same(
    eve: Mysis,
    provider: FakeProvider,
    answers: list[tuple[str, list[Json]]],
    made: int,
    end: str,
    why: str,
):
    provider.answers.extend(sayings(*answers))
    row = await run(eve)
    assert (row.state, row.end, row.error) == ("done", end, "")
    assert (row.done, row.total, len(provider.requests)) == (made, 3, made)
    found = await steps(row)
    assert [one.differs for one in found] == [""] * (made - 1) + [why]
    assert found[0].recorded["text"] == "I fly."
    assert found[0].made["text"] == answers[0][0]
    assert found[0].made["calls"][1] == {"name": "look", "arguments": "{}"}
    assert (found[0].recorded["input_tokens"], found[0].made["input_tokens"]) == (
        900,
        1000,
    )
    assert provider.refused == []


async def test_the_view_is_that_of_then_with_what_was_said_anew(
    eve: Mysis, provider: FakeProvider
):
    provider.answers.extend(sayings(fly(), DOCK, END))
    await run(eve)
    sent = await in_db(lambda: render_sent(first(eve)).messages)()
    assert provider.requests[0]["messages"] == sent
    second = json.dumps(provider.requests[1]["messages"])
    assert "Off." in second
    assert "I fly." not in second
    assert "answer of travel" in second
    assert "answer of dock" not in second


async def test_another_prompt_model_policy_and_order_count(
    eve: Mysis, provider: FakeProvider
):
    policy = await in_db(ContextPolicy.objects.create)(
        name="short", strategy="window", options={"window": 3}, budget_tokens=9_000
    )
    provider.answers.extend(sayings(fly(), DOCK, END))
    row = await run(
        eve,
        prompt="You are {{ name }}, and brief.",
        model="strict:gpt-oss:20b",
        policy=policy,
        order="Fly to Mars.",
        most_steps=2,
    )
    assert (row.end, row.done) == ("limit", 2)
    asked = provider.requests[0]
    assert asked["model"] == "gpt-oss:20b"
    assert asked["messages"][0]["content"].startswith("You are Eve, and brief.")
    text = json.dumps(provider.requests)
    assert "Fly to Mars." in text
    assert "Fly to Sol." not in text
    used = await in_db(Usage.objects.get)()
    assert (used.policy, used.model, used.calls) == ("short", "strict:gpt-oss:20b", 2)


def count_rows() -> dict[str, Any]:
    tables = {one.__name__: one.objects.count() for one in UNTOUCHED}
    return {**tables, "mysis": Mysis.objects.values().get()}


async def test_nothing_reaches_log_or_game_and_all_is_paid_for(
    eve: Mysis, provider: FakeProvider
):
    # Of money: the price of this model is not known, which is told to nobody.
    budget = await in_db(Budget.objects.create)(
        name="all", scope="fleet", tokens=100_000, cost=5
    )
    before = await in_db(count_rows)()
    provider.answers.extend(sayings(fly(), DOCK))
    provider.refuse(500, "Out of order.")
    row = await run(eve, model="strict:local-llama")
    assert (row.state, row.end, row.done) == ("failed", "error", 2)
    assert "Out of order." in row.error
    assert await in_db(count_rows)() == before
    used = await in_db(Usage.objects.get)()
    assert (used.calls, used.errors) == (3, 1)
    assert (used.input_tokens, used.output_tokens) == (2000, 400)
    assert (row.input_tokens, row.output_tokens) == (2000, 400)
    spent = await in_db(BudgetSpend.objects.get)(budget=budget)
    # The refused one may have been paid: its estimate stays.
    assert spent.tokens > 2400


async def test_a_budget_ends_it_before_a_call(eve: Mysis, provider: FakeProvider):
    await in_db(Budget.objects.create)(name="all", scope="fleet", tokens=10)
    row = await run(eve)
    assert (row.state, row.end, row.done) == ("failed", "budget", 0)
    assert "The budget all (" in row.error
    assert "goes on by itself" not in row.error
    assert provider.requests == []


async def test_discarded_in_mid_call_it_leaves_nothing(
    eve: Mysis, provider: FakeProvider
):
    gate = provider.arrived.__class__()
    provider.answers.extend(sayings(fly()))
    provider.answers.append(Reply(body=completion("Late."), wait=gate))
    made = await in_db(
        lambda: lab.start_rewind(sent=first(eve), settings=lab.RewindSettings(), by=BY)
    )()
    task = asyncio.create_task(run_rewind(made.pk))
    while len(provider.requests) < 2:
        await asyncio.to_thread(provider.arrived.wait)
        provider.arrived.clear()
    await in_db(lambda: lab.discard_rewind(rewind=made, by=BY))()
    await asyncio.wait_for(task, 60)
    gate.set()
    assert not await in_db(Rewind.objects.exists)()
    assert not await in_db(RewindStep.objects.exists)()
    # What the first call cost stays counted, and the other may be charged for.
    used = await in_db(Usage.objects.get)()
    assert (used.calls, used.errors, used.output_tokens) == (2, 1, 200)
    estimate = (await in_db(first)(eve)).stats["tokens_by_category"]
    assert used.input_tokens > 1000 + sum(estimate.values())


async def test_what_secret_tools_are_called_with_is_not_shown(
    eve: Mysis, provider: FakeProvider
):
    await in_db(ToolPolicy.objects.create)(tool="travel", policy="secret")
    provider.answers.extend(sayings(fly('{"to": "Mars", "speed": 2}')))
    [step] = await steps(await run(eve))
    assert step.differs == "Call 1, travel, has other arguments."
    for told in (step.recorded, step.made):
        assert told["calls"] == [
            {"name": "travel", "arguments": HIDDEN},
            {"name": "look", "arguments": "{}"},
        ]


def test_one_that_waits_is_discarded_with_its_job(eve: Mysis):
    made = lab.start_rewind(sent=first(eve), settings=lab.RewindSettings(), by=BY)
    assert ProcrastinateJob.objects.filter(
        pk=made.job_id, queue_name="lab", priority=BEHIND_TURNS
    ).exists()
    lab.fail_lost()
    made.refresh_from_db()
    assert made.state == "queued"
    lab.discard_rewind(rewind=made, by=BY)
    assert not ProcrastinateJob.objects.exists()
    assert not Rewind.objects.exists()


def test_one_whose_worker_is_gone_has_failed(eve: Mysis):
    made = lab.start_rewind(sent=first(eve), settings=lab.RewindSettings(), by=BY)
    ProcrastinateJob.objects.all().delete()
    lab.fail_lost()
    made.refresh_from_db()
    assert (made.state, made.error) == ("failed", lab.LOST)


def test_its_first_call_is_forecast_and_nonsense_is_refused(eve: Mysis):
    sent = first(eve)
    found = lab.forecast(lab.plan_rewind(sent, lab.RewindSettings(), BY), sent)
    stats = sent.stats["tokens_by_category"]
    assert (found.tokens, found.calls) == (sum(stats.values()), 3)
    for settings, words in (
        ({"model": "nobody:m"}, "model: "),
        ({"most_steps": 0}, "steps: "),
        ({"policy": ContextPolicy(name="x", strategy="gone")}, "gone"),
    ):
        given = lab.RewindSettings(**settings)
        with pytest.raises(ActionError, match=words):
            lab.start_rewind(sent=sent, settings=given, by=BY)
    Memory.objects.filter(role="user").delete()
    with pytest.raises(ActionError, match="order: "):
        lab.plan_rewind(sent, lab.RewindSettings(order="Fly."), BY)
    assert not Rewind.objects.exists()


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [
        ('{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}', True),
        ("", "{}", True),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": null}', "{}", False),
        ("no json", "no json", True),
        ("no json", "{}", False),
        (r'{"a\ud800": "b"}', r'{"a\ud800": "\udc00"}', False),
    ],
)
def test_arguments_are_compared_by_what_they_say(then: str, now: str, same: bool):
    words = find_difference([Called("t", then)], [Called("t", now)])
    assert (words == "") is same
    assert words.encode().decode() == words


def test_it_ends_where_a_branch_took_back_what_it_rests_on(eve: Mysis):
    docked = Memory.objects.get(tool_call_id="c2")
    actions.take_branch(mysis=eve, asked=docked.pk, text="No.", by=BY, start=False)
    record(eve, make_turn(eve, outcome="done"), 1, "I wait.")
    sent = SentContext.objects.earliest("pk")
    made = lab.plan_rewind(sent, lab.RewindSettings(), BY)
    assert [one.call.number for one in made.select_calls()] == [1, 2, 3]
    newest = SentContext.objects.latest("pk")
    made = lab.plan_rewind(newest, lab.RewindSettings(), BY)
    assert made.select_calls() == [newest]


def test_over_rest_it_is_started_read_and_discarded(
    eve: Mysis, client: Any, sign_in: Callable[..., Any]
):
    _, secret = create_token(name="helm", role="operator")
    header = {"authorization": f"Bearer {secret}"}
    turn = Turn.objects.get()
    body = {"turn": turn.pk, "call": 1, "order": "Fly to Mars."}
    made = client.post(
        "/api/v1/rewinds", body, content_type="application/json", headers=header
    )
    assert made.status_code == 202, made.content
    told = made.json()
    assert (told["state"], told["total"], told["end"]) == ("queued", 3, None)
    assert told["first_tokens"] > 0
    at = f"/api/v1/rewinds/{told['id']}"
    assert client.get(at, headers=header).json() == {**told, "steps": []}
    listed = client.get("/api/v1/rewinds?mysis=Eve", headers=header).json()
    assert listed["items"] == [told]
    assert client.delete(at, headers=header).status_code == 204
    assert client.get(at, headers=header).status_code == 404
    _, secret = create_token(name="eye", role="viewer")
    header = {"authorization": f"Bearer {secret}"}
    refused = client.post(
        "/api/v1/rewinds", body, content_type="application/json", headers=header
    )
    assert refused.status_code == 403


def test_its_form_forecasts_starts_and_is_for_operators(
    eve: Mysis, sign_in: Callable[..., Any]
):
    client = sign_in("operator")
    turn = Turn.objects.get()
    page = f"/turns/{turn.pk}/calls/1/rewind/"
    drawn = client.get(page)
    form = drawn.context["form"]
    given = {name: form.initial[name] for name in ("prompt", "model", "order")}
    assert given["order"] == "Fly to Sol."
    given["steps"] = "7"
    again = client.post(page, {**given, "forecast": "1"})
    assert again.status_code == 200
    assert "The first call:" in again.content.decode()
    assert not Rewind.objects.exists()
    wrong = client.post(page, {**given, "model": "nobody:m"})
    assert wrong.status_code == 422
    started = client.post(page, {**given, "order": "<b>Mars</b>"})
    row = Rewind.objects.get()
    assert started.url == f"/rewinds/{row.pk}/"
    assert (row.order, row.prompt, row.model, row.most_steps) == (
        "<b>Mars</b>", "", "", 7,
    )  # fmt: skip
    text = client.get(started.url).content.decode()
    assert "waits for a worker" in text
    # Whoever watches it gets the steps that came since, and no old one anew.
    said = {"latency_ms": 5, "input_tokens": 1, "output_tokens": 1}
    for place in (1, 2):
        row.steps.create(
            place=place,
            turn_id=1,
            turn_number=1,
            call_number=1,
            recorded=said,
            made=said,
        )
    told = client.get(f"{started.url}?after=1", headers={"HX-Request": "true"})
    news = told.content.decode()
    assert ("step-1" in news, "step-2" in news, "?after=2" in news) == (
        False, True, True,
    )  # fmt: skip
    assert 'hx-swap-oob="beforeend:#rewind-steps"' in news
    assert "&lt;b&gt;Mars&lt;/b&gt;" in text
    client.post(f"/rewinds/{row.pk}/discard/", {"next": "/myses/Eve/turns/"})
    assert not Rewind.objects.exists()
    told = client.get(started.url, headers={"HX-Request": "true"})
    assert told["HX-Redirect"] == "/"
    viewer = sign_in("viewer")
    assert viewer.post(page, given).status_code == 302
    assert not Rewind.objects.exists()
