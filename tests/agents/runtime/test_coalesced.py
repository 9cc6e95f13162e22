"""`coalesced` in the fleet: what a model under it sees, call by call, of a real game."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from agents import actions, tool_catalogue
from agents.actions import orders
from agents.game import sessions
from agents.models import Delivery, Mysis, Order, Pin
from memory.assembly import turn_reads
from memory.assembly.sent_view import render_sent
from memory.context.types import CRITICAL_REMINDERS, NUDGES
from memory.models import ContextPolicy, Memory, SentContext
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import in_db
from tests.factories import give_policy, make_provider
from tests.fakes.openai import KEY, FakeProvider, Json, Reply, call, completion
from tests.long_run import few_or_many

REGISTER = call("register", '{"username": "Eve", "empire": "solarian"}')
TURNS = few_or_many(40, 100)


@pytest.fixture
def coalesced(eve: Mysis) -> Mysis:
    """A running Mysis under the strategy."""
    give_policy(eve, strategy="coalesced")
    return eve


def view(request: Json) -> str:
    """The one message of a request beside the system's."""
    system, said = request["messages"]
    assert (system["role"], said["role"]) == ("system", "user")
    return str(said["content"])


def newest(provider: FakeProvider) -> str:
    return view(provider.requests[-1])


def flat(text: str) -> str:
    """JSON without the line breaks of its indentation."""
    return re.sub(r"\s*\n\s*", " ", text.strip())


def results(mysis: Mysis, tool: str) -> list[Memory]:
    return list(Memory.objects.filter(mysis=mysis, tool_name=tool).order_by("pk"))


async def say(mysis: Mysis, text: str) -> Memory:
    row: Memory = await in_db(actions.send_message)(mysis=mysis, text=text, by="test")
    return row


async def states(mysis: Mysis) -> list[tuple[bool, bool]]:
    """Of each order in its turn: whether it was shown, and whether it is done."""
    rows = Delivery.objects.filter(mysis=mysis).order_by("memory_id")
    found: list[Delivery] = await in_db(list)(rows)
    return [(row.shown, row.done_at is not None) for row in found]


async def test_each_call_is_told_what_the_one_before_brought(
    coalesced: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    first = await say(coalesced, "Fly to the belt.")
    provider.answer(completion(None, tool_calls=[REGISTER]))
    provider.answer(completion("Aye.", tool_calls=[call("get_status")]))
    provider.answer(completion(None, tool_calls=[call("mine")]))
    provider.answer(completion(None, tool_calls=[call("undock")]))
    provider.answer(completion("Off."))
    await fly(coalesced)
    one, two, three, four, five = map(view, provider.requests)
    mission = f"Fly to the belt.\n; order ctx://{coalesced.pk}/{first.pk}, open\n\n"
    assert all(text.startswith(mission) for text in (one, two, three, four, five))
    left = [f"\n\nTurns left: {turns}\n\n" for turns in (10, 9, 8, 7, 6)]
    assert all(
        words in text
        for words, text in zip(left, map(view, provider.requests), strict=True)
    )
    [registered] = await in_db(results)(coalesced, "register")
    told = f';   register("Eve", "solarian")\n;     {flat(registered.content)}\n'
    assert told in two
    [status] = await in_db(results)(coalesced, "get_status")
    assert f";   get_status()\n;     {flat(status.content)}\n" in three
    assert ";; Output:\nAye.\n" in three
    assert '\ndata/get_status                  ; "state://get_status"\n' in three
    assert "\n(tool/travel target_poi) " in two
    [refused] = await in_db(results)(coalesced, "mine")
    assert refused.is_error
    assert f";; Error:\n;   mine()\n;     {flat(refused.content)}\n" in four
    assert ";; Error:" not in five
    assert flat(refused.content) not in five, "it went well again"
    assert all(text.endswith(CRITICAL_REMINDERS) for text in (one, two, five))
    assert "## Current Game State" in five
    box = (await in_db(SentContext.objects.latest)("pk")).stats["compression"]
    assert (box["turns_compressed"], box["error_turns_collapsed"]) == (4, 1)
    assert (box["tool_calls_total"], box["printlns_total"]) == (3, 1)
    assert await states(coalesced) == [(True, True)]


async def test_the_last_call_of_a_turn_says_so(
    coalesced: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(Mysis.objects.filter(pk=coalesced.pk).update)(max_iterations=3)
    await say(coalesced, "Fly to the belt.")
    provider.answer(completion(None, tool_calls=[REGISTER]))
    provider.answer(completion(None, tool_calls=[call("get_status")]))
    provider.answer(completion("Aye."))
    await fly(coalesced)
    said = [
        re.findall(r"^(?:Turns left: \d+|FINAL WORK TURN)", view(each), re.MULTILINE)
        for each in provider.requests
    ]
    left = ["Turns left: 3", "Turns left: 2", "FINAL WORK TURN"]
    assert said == [[words] for words in left]


async def test_what_is_to_do_is_the_oldest_open_order_then_what_stands(
    coalesced: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """First orders, then standing orders, and without any the first message."""
    for text in ("First.", "Second.", "Third."):
        await say(coalesced, text)
    await fly(coalesced)
    head = newest(provider)
    assert head.startswith("First.\n")
    assert head.index("First.") < head.index("Second.") < head.index("Third.")
    assert head.count(", open\n") == 3
    assert await states(coalesced) == [(True, True)] * 3
    made = await in_db(report)(1, "done")
    provider.answer(completion(None, tool_calls=[made]))
    provider.answer(completion("Aye."))
    await fly(coalesced)
    head = newest(provider)
    assert head.startswith("Third.\n"), "all are answered: the newest is the mission"
    assert head.count(", open\n") == 2, "what is answered only is open still"
    assert "Second.\n" in head
    assert "First." not in head, "what is reported done is gone"
    await in_db(end_orders)()
    await fly(coalesced)
    head = newest(provider)
    assert head.startswith("First.\n")
    assert ", open\n" not in head
    assert "Second." not in head, "answered long ago"
    assert "Third.\n" in head, "the newest order is never lost"
    assert head.endswith(f"{NUDGES[0]}\n\n{CRITICAL_REMINDERS}")
    await in_db(Pin.objects.create)(mysis=coalesced, text="never attack miners")
    await fly(coalesced)
    assert newest(provider).startswith("never attack miners\n\nThird.\n")
    await in_db(actions.send_broadcast)(text="All to Sol.", by="test")
    await fly(coalesced)
    assert newest(provider).startswith("All to Sol.\n")
    for text in ("Fourth.", "Fifth."):
        await say(coalesced, text)
    await fly(coalesced)
    assert newest(provider).startswith("Fourth.\n"), "the oldest without an answer"
    assert await states(coalesced) == [(True, True)] * 6


async def test_what_is_reported_in_its_first_turn_leaves_the_mission_at_once(
    coalesced: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    for text in ("First.", "Second."):
        await say(coalesced, text)
    made = await in_db(report)(1, "done")
    provider.answer(completion(None, tool_calls=[made]))
    provider.answer(completion("Aye."))
    await fly(coalesced)
    one, two = map(view, provider.requests)
    assert one.startswith("First.\n")
    assert two.startswith("Second.\n")
    assert "First." not in two


def report(place: int, status: str) -> dict[str, Any]:
    """The call that reports on an order, by its place among all."""
    number = Order.objects.order_by("pk").values_list("pk", flat=True)[place - 1]
    given = {"order": number, "status": status, "note": "So it is."}
    return call("zoea_report_order", json.dumps(given))


def end_orders() -> None:
    for order in Order.objects.all():
        orders.change_order(order=order, by="test", state="done")


class Impatient(FakeProvider):
    """It mines until it reads that mining is under way, as many models would."""

    def reply(self, body: Json) -> Reply:
        if self.answers:
            return self.answers.popleft()
        calls = view(body).partition(";; Tool calls made:")[2]
        under_way = re.search(r";   mine\(\)\n;     .*(?:queued|pending)", calls)
        mines = completion(None, tool_calls=[call("mine")])
        return Reply(body=completion("Mining.") if under_way else mines)


@pytest.fixture
def impatient(coalesced: Mysis) -> Iterator[FakeProvider]:
    with Impatient() as running:
        make_provider(name="impatient", kind="openai", base_url=running.url, key=KEY)
        Mysis.objects.filter(pk=coalesced.pk).update(model="impatient:gpt-5-nano")
        yield running


async def test_a_queued_action_is_seen_and_not_sent_again(
    coalesced: Mysis, impatient: FakeProvider, sandbox: SandboxServer
):
    belt = call("travel", json.dumps({"target_poi": "sol_belt"}))
    for made in (REGISTER, call("undock"), belt):
        impatient.answer(completion(None, tool_calls=[made]))
        impatient.answer(completion("Done."))
        await fly(coalesced)
        await asyncio.to_thread(sandbox.step, 3)
    await fly(coalesced)
    mined = await in_db(results)(coalesced, "mine")
    assert len(mined) == 1, [row.content for row in mined]


async def test_an_old_result_is_short_and_can_be_recalled(
    coalesced: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(ContextPolicy.objects.update)(
        options={"keep_results": 1, "short_result": 60}
    )
    provider.answer(completion(None, tool_calls=[REGISTER]))
    both = [call("get_status"), call("get_system")]
    provider.answer(completion(None, tool_calls=both))
    provider.answer(completion(None, tool_calls=[call("get_version")]))
    await fly(coalesced)
    [status] = await in_db(results)(coalesced, "get_status")
    whole, later = (view(request) for request in provider.requests[2:4])
    assert flat(status.content) in whole, "of the newest answer all are whole"
    assert flat(status.content) not in later
    handle = f"ctx://{coalesced.pk}/{status.pk}"
    assert f"characters omitted, see {handle}]" in later
    recall = call("zoea_recall", json.dumps({"handle": handle}))
    provider.answer(completion(None, tool_calls=[recall]))
    await fly(coalesced)
    [recalled] = await in_db(results)(coalesced, "zoea_recall")
    assert flat(recalled.content) in newest(provider)


class Diligence:
    """It looks at something, and ends the turn where it finds that told."""

    def __init__(self) -> None:
        self.turns = 0

    def decide(self, text: str) -> tuple[str, str]:
        """The tool to call, or the words that end the turn."""
        if "Turns left: 10\n" in text:
            self.turns += 1
            tools = ("get_cargo", "undock", "get_version", "dock", "mine")
            return (tools[self.turns % 5] if self.turns > 1 else "register"), ""
        told = ";; Tool calls made:" in text or ";; Error:" in text
        return "", f"Turn {self.turns} {'told' if told else 'blind'}."


ACCOUNT = {"username": "Eve", "empire": "solarian"}


class Diligent(FakeProvider):
    def __init__(self) -> None:
        super().__init__()
        self.captain = Diligence()

    def reply(self, body: Json) -> Reply:
        tool, words = self.captain.decide(view(body))
        if words:
            return Reply(body=completion(words))
        arguments = json.dumps(ACCOUNT if tool == "register" else {})
        return Reply(body=completion(None, tool_calls=[call(tool, arguments)]))


@pytest.fixture
def diligent(coalesced: Mysis) -> Iterator[Diligent]:
    with Diligent() as running:
        make_provider(name="diligent", kind="openai", base_url=running.url, key=KEY)
        Mysis.objects.filter(pk=coalesced.pk).update(model="diligent:gpt-5-nano")
        yield running


async def begin_anew() -> None:
    """Forget all that a worker's process knows."""
    await sessions.get_pool().close()
    turn_reads._works.clear()
    tool_catalogue._compared = None
    tool_catalogue._read_last = (None, tool_catalogue.NOTHING)


async def test_many_turns_with_orders_a_restart_and_failures(
    coalesced: Mysis, diligent: Diligent, sandbox: SandboxServer
):
    """Nothing is refused, and the newest result is always there."""
    for turn in range(TURNS):
        if turn % 20 == 5:
            await say(coalesced, f"Order {turn}.")
        if turn == TURNS // 2:
            await begin_anew()
        flown = await fly(coalesced)
        assert (flown.state, flown.last_error) == ("running", "")
        await asyncio.to_thread(sandbox.step)
    assert not diligent.refused
    assert len(diligent.requests) == 2 * TURNS
    kept = await in_db(lambda: list(SentContext.objects.order_by("pk")))()
    for request, sent in zip(diligent.requests, kept, strict=True):
        assert sent.stats["status"] == "reduced" or not sent.stats["messages_in"]
        rendered = await in_db(render_sent)(sent)
        assert rendered.intact
        assert view({**request, "messages": rendered.messages}) == view(request)
    for turn in range(5, TURNS, 20):
        for request in diligent.requests[2 * turn : 2 * turn + 2]:
            assert f"Order {turn}.\n; order ctx://" in view(request)
    assert await states(coalesced) == [(True, True)] * len(range(5, TURNS, 20))
    rows = await in_db(lambda: list(Memory.objects.filter(mysis=coalesced)))()
    said = [row.content for row in rows if row.role == "assistant" and row.content]
    assert not [text for text in said if "blind" in text]
    errors = [row for row in rows if row.is_error]
    assert errors, "docked ships do not mine"
    views = [view(request) for request in diligent.requests]
    for row in rows:
        if row.role == "tool":
            told = flat(row.content)
            assert any(told in text for text in views)
    sizes = [*map(len, views)]
    assert max(sizes[-20:]) < 1.3 * max(sizes[40:60]), "it does not grow for ever"
    box = kept[-1].stats["compression"]
    assert box["turns_compressed"] == 2 * TURNS - 1
    assert (box["tool_calls_shown"], box["printlns_shown"]) == (20, 15)
    assert box["tool_calls_total"] + len(errors) == TURNS
