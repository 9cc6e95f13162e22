"""Orders in turns: shown, answered, reported; offered tools, nudges, workers that die."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agents import actions, events
from agents.actions import orders
from agents.context_inputs import build_subject, preview_context
from agents.models import Mysis, OrderRecipient, Turn
from agents.order_status import read_order
from memory.context.types import CRITICAL_REMINDERS, NUDGES
from memory.models import Memory
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, refreshed
from tests.agents.runtime.logs import in_db
from tests.agents.runtime.workers import Workers
from tests.factories import give_policy
from tests.fakes.openai import FakeProvider, Json, Reply, call, completion

PATIENCE = 120.0
MOST_TURNS = 40
TOOL = "zoea_report_order"
MISSION = ("mine", "sell", "travel", "jump")


def give(mysis: Mysis, text: str) -> int:
    """A new order, by its number."""
    sent, _ = actions.messages.send_order(myses=[mysis], text=text, by="operator:ann")
    return int(sent.pk)


def state(number: int) -> str:
    found = read_order(number)
    assert found is not None
    return found.state


def times(number: int) -> tuple[bool, bool]:
    """Whether it is known when an order was shown, and when it was answered."""
    row = OrderRecipient.objects.get(order=number)
    return row.shown_at is not None, row.answered_at is not None


def changes(number: int) -> list[str]:
    """The states that an order's events tell, one after the other."""
    lines = events.read_after(0, kinds=["order.changed"])
    return [one["data"]["state"] for one in lines if one["data"]["order"] == number]


def report(number: int | None = None, status: str = "done", **more: Any) -> Json:
    given = {"status": status, **({"order": number} if number else {}), **more}
    return call(TOOL, json.dumps(given))


def tools(request: Json) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


def said_last(request: Json) -> str:
    """The last message: it begins with the nudge and ends with the state block."""
    return str(request["messages"][-1]["content"])


def count_accepted(mysis: Mysis) -> int:
    """The actions of the mission that the game took."""
    rows = Memory.objects.filter(mysis=mysis, is_error=False, tool_name__in=MISSION)
    return rows.count()


async def results(mysis: Mysis) -> list[Memory]:
    rows = Memory.objects.filter(mysis=mysis, tool_name=TOOL).order_by("pk")
    found: list[Memory] = await in_db(list)(rows)
    return found


async def test_an_order_goes_from_queued_to_done(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    number = await in_db(give)(eve, "Return to base.")
    assert await in_db(state)(number) == "queued"
    provider.answer(completion(None, tool_calls=[call("get_version")]))
    gate = provider.arrived.__class__()
    provider.answers.append(Reply(200, completion("Aye."), wait=gate))
    flight = asyncio.create_task(fly(eve))
    while len(provider.requests) < 2:
        await asyncio.to_thread(provider.arrived.wait)
        provider.arrived.clear()
    assert await in_db(state)(number) == "shown"
    assert await in_db(times)(number) == (True, False)
    gate.set()
    await flight
    assert await in_db(state)(number) == "answered"
    assert await in_db(times)(number) == (True, True)
    provider.answer(completion(None, tool_calls=[report(number, note="Docked.")]))
    provider.answer(completion("Done."))
    await fly(eve)
    assert await in_db(state)(number) == "done"
    assert await in_db(changes)(number) == ["queued", "shown", "answered", "done"]
    [result] = await results(eve)
    assert json.loads(result.content) == {
        "order": number, "state": "done", "note": "Docked.",
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["full", "compact", "on_demand"])
async def test_the_report_is_offered_and_counted_while_an_order_is_open(
    mode: str, eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(give_policy)(eve, name=mode, strategy="tiered", options={"tools": mode})
    provider.answer(completion("Aye."))
    await fly(eve)
    number = await in_db(give)(eve, "Return to base.")

    def counted() -> tuple[bool, int]:
        subject = build_subject(Mysis.objects.get(pk=eve.pk))
        sent = subject.offered.sent if subject.offered else ()
        stats = preview_context(Mysis.objects.get(pk=eve.pk)).assembly.stats
        tokens = stats["tokens_by_category"]["tools"]
        return TOOL in [tool["name"] for tool in sent], tokens

    offered, more = await in_db(counted)()
    provider.answer(completion(None, tool_calls=[report(number)]))
    provider.answer(completion("Done."))
    await fly(eve)
    without, fewer = await in_db(counted)()
    assert [TOOL in tools(each) for each in provider.requests] == [False, True, False]
    assert (offered, without) == (True, False)
    assert more > fewer


async def test_the_nudge_names_what_is_open(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    numbers = [await in_db(give)(eve, f"Order {n}\nof many.") for n in range(7)]
    provider.answer(completion("Aye."))
    await fly(eve)
    provider.answer(completion("Still."))
    await fly(eve)
    named = "; ".join(f'{numbers[n]} "Order {n} of many."' for n in range(2, 7))
    assert said_last(provider.requests[1]).startswith(
        f"{NUDGES[1]}\n\nOpen orders: {named}; and 2 more. Report on each with {TOOL}"
    )
    assert CRITICAL_REMINDERS in said_last(provider.requests[1])
    for number in numbers[1:]:
        await in_db(tick)(number)
    provider.answer(completion("Still."))
    await fly(eve)
    assert f'Open orders: {numbers[0]} "Order 0 of many.". Report' in said_last(
        provider.requests[2]
    )
    await in_db(tick)(numbers[0])
    row = await refreshed(eve)
    if row.state == "running":
        await fly(eve)
    else:
        await in_db(actions.start_mysis)(mysis=row, by="test")
        await fly(eve)
    assert "Open orders" not in said_last(provider.requests[3])
    assert TOOL not in tools(provider.requests[3])


def tick(number: int) -> None:
    orders.change_order(
        order=OrderRecipient.objects.get(order=number).order, by="x", state="done"
    )


async def test_a_bad_report_is_an_error_result_with_its_remedy(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    number = await in_db(give)(eve, "Return to base.")
    bad: list[tuple[Json, str]] = [
        (
            {"order": 99999, "status": "done"},
            "order 99999 does not exist. Open for you: ",
        ),
        ({"status": "ready"}, "'status' of zoea_report_order cannot be"),
        ({"order": "x", "status": "done"}, "'order' of zoea_report_order cannot be"),
        ({"order": 1}, "Argument 'status' is missing"),
        (
            {"status": "done", "note": "x" * 1001},
            "'note' of zoea_report_order cannot be",
        ),
    ]
    made = [call(TOOL, json.dumps(one), f"c{n}") for n, (one, _) in enumerate(bad)]
    provider.answer(completion(None, tool_calls=made))
    provider.answer(completion("Hm."))
    await fly(eve)
    for result, (_, words) in zip(await results(eve), bad, strict=True):
        assert result.is_error
        assert words in result.content
    assert await in_db(state)(number) == "answered"


async def test_a_report_that_it_works_on_it_leaves_an_order_open(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    number = await in_db(give)(eve, "Return to base.")
    made = report(None, "working", note="Under way.")
    provider.answer(completion(None, tool_calls=[made]))
    provider.answer(completion("Aye."))
    await fly(eve)
    found = await in_db(read_order)(number)
    assert found is not None
    assert (found.state, found.recipients[0].note) == ("answered", "Under way.")
    assert (await in_db(changes)(number))[-2:] == ["shown", "answered"]


async def test_an_order_without_room_in_the_context_stays_queued(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(give_policy)(
        eve, name="narrow", strategy="window", options={"window": 1}
    )
    first, second = [await in_db(give)(eve, text) for text in ("First.", "Second.")]
    provider.answer(completion("Aye."))
    await fly(eve)
    assert await in_db(state)(first) == "queued"
    assert await in_db(state)(second) == "answered"


async def test_each_state_comes_once_though_a_worker_is_killed_in_each(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer, tmp_path: Path
):
    """Before the answer that reports, and after it: what is said stays said."""
    number = await in_db(give)(eve, "Return to base.")
    gate = provider.arrived.__class__()
    late = Reply(body=completion("Aye."), wait=gate)
    reports = Reply(body=completion(None, tool_calls=[report(status="working")]))
    ends = Reply(body=completion(None, tool_calls=[report(note="Docked.")]))
    answers = [late, reports, late, ends, late, Reply(body=completion("Aye."))]
    provider.answers.extend(answers)
    told = ["queued", "shown", "shown", "done"]
    with Workers(tmp_path, sandbox.url) as workers:
        # One dies as it is shown, one once it is worked on, one once it is done.
        for requests, known in ((1, 2), (3, 3), (5, 4)):
            worker = workers.start()
            await asyncio.to_thread(await_requests, provider, requests)
            assert await in_db(changes)(number) == told[:known]
            workers.kill(worker)
        workers.start()
        await in_db(await_end)(eve, 4)
        gate.set()
    assert await in_db(changes)(number) == told
    row = await in_db(OrderRecipient.objects.get)(order=number)
    assert (row.state, row.note, row.changed_by) == ("done", "Docked.", "mysis:Eve")
    calls = [one.is_error for one in await results(eve)]
    assert calls == [False, False]


def await_requests(provider: FakeProvider, count: int) -> None:
    """Wait until a model was asked so many times."""
    while len(provider.requests) < count:
        provider.arrived.clear()
        if len(provider.requests) < count:
            assert provider.arrived.wait(PATIENCE)


def await_end(mysis: Mysis, number: int) -> None:
    """Wait for the event of the end of a turn."""
    after = 0
    while True:
        for line in events.read_after(after, kinds=["turn.finished"]):
            after = line["id"]
            if line["data"]["number"] == number:
                assert Turn.objects.get(pk=line["data"]["turn"]).outcome == "done"
                return


@pytest.mark.parametrize(
    ("strategy", "text", "note"),
    [
        (
            "tiered",
            "Go to Nowhere Land.",
            'I cannot do "Go to Nowhere Land": I find no place called Nowhere Land.',
        ),
        (
            "coalesced",
            "Dock at the nearest base, refuel, and report your credits.",
            r"Docked at .*\. (?:Refuelled|Nothing to refuel): fuel .*100/100\. Ada repo",
        ),
        (
            "coalesced",
            "Go back to work: mine ore and sell it.",
            "Back at work: mined, and sold ",
        ),
    ],
)
async def test_the_pilot_reports_what_became_of_an_order(
    strategy: str, text: str, note: str, ada: Mysis, sandbox: SandboxServer
):
    await in_db(give_policy)(ada, name="own", strategy=strategy)
    await fly(ada)
    await asyncio.to_thread(sandbox.step)
    number = await in_db(give)(ada, text)
    for _ in range(MOST_TURNS):
        row = await refreshed(ada)
        if row.state != "running":
            break
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
        found = await in_db(read_order)(number)
        assert found is not None
        if not found.is_open:
            break
    wanted = "not_done" if note.startswith("I ") else "done"
    assert (found.state, found.recipients[0].changed_by) == (wanted, "mysis:Ada")
    assert re.match(note, found.recipients[0].note)
    # It goes on with its mission by itself.
    await assert_goes_on(ada, sandbox)


async def assert_goes_on(mysis: Mysis, game: SandboxServer) -> None:
    """The mission has another action that the game took, within a few turns."""
    done = await in_db(count_accepted)(mysis)
    for _ in range(8):
        await fly(mysis)
        await asyncio.to_thread(game.step)
        if await in_db(count_accepted)(mysis) > done:
            break
    assert (await refreshed(mysis)).state == "running"
    assert await in_db(count_accepted)(mysis) > done


async def test_who_holds_as_ordered_flies_on_after_a_start(
    ada: Mysis, sandbox: SandboxServer
):
    await in_db(give_policy)(ada, name="own", strategy="coalesced")
    await fly(ada)
    await asyncio.to_thread(sandbox.step)
    number = await in_db(give)(ada, "Hold.")
    done = await in_db(count_accepted)(ada)
    while (await refreshed(ada)).state == "running":
        await fly(ada)
        await asyncio.to_thread(sandbox.step)
    assert await in_db(state)(number) == "done"
    assert await in_db(count_accepted)(ada) == done
    await in_db(actions.start_mysis)(mysis=ada, by="operator:ann")
    await assert_goes_on(ada, sandbox)
