"""Messages on their way: queued, shown in call n of turn t, done."""

from __future__ import annotations

from itertools import count
from typing import Any

from channels.db import database_sync_to_async

from agents import actions
from agents.models import Event, Mysis, Turn
from memory.models import Memory
from sandbox.game.testing import SandboxServer
from tests.factories import give_policy, make_memory
from tests.fakes.openai import FakeProvider, call, completion
from tests.programs import Program
from tests.statements import record_statements

from .conftest import fly, in_mid_call

NUMBERS = count(1)
in_db = database_sync_to_async


def delivery(mysis: Mysis, text: str) -> dict[str, Any]:
    """What the API tells of a message."""
    viewer = Program("viewer", name=f"viewer {next(NUMBERS)}")
    items = viewer.get(f"/myses/{mysis.pk}/messages").json()
    [found] = [one for one in items["items"] if one["content"] == text]
    reached: dict[str, Any] = found["delivery"]
    return reached


def kinds(mysis: Mysis, kind: str, key: str) -> list[Any]:
    rows = Event.objects.filter(mysis=mysis, kind=kind).order_by("pk")
    return [row.data[key] for row in rows if key in row.data]


async def test_a_message_is_queued_then_shown_then_done(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    sent = await in_db(actions.send_message)(mysis=eve, text="Go.", by="test")
    nothing = {"turn": None, "number": None, "call": None}
    assert await in_db(delivery)(eve, "Go.") == nothing | {
        "state": "queued", "shown_at": None, "done_at": None,
    }  # fmt: skip
    async with in_mid_call(eve, provider, completion("Aye.")):
        turn = await in_db(Turn.objects.get)()
        shown = await in_db(delivery)(eve, "Go.")
        assert (shown["state"], shown["turn"]) == ("shown", turn.pk)
        assert (shown["number"], shown["call"]) == (1, 1)
    assert (await in_db(delivery)(eve, "Go."))["state"] == "done"
    assert await in_db(kinds)(eve, "turn.finished", "answered") == [[sent.pk]]
    assert await in_db(kinds)(eve, "mysis.state", "shown") == [
        {"turn": turn.pk, "call": 1, "messages": [sent.pk]}
    ]
    await in_db(turn.delete)()
    kept = await in_db(delivery)(eve, "Go.")
    assert (kept["state"], kept["turn"], kept["number"]) == ("done", None, 1)


async def test_a_broadcast_waits_for_no_call_and_is_shown_by_the_next_one(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    """It is stored while the model is silent; the second call of the turn has it."""
    asks = completion(None, tool_calls=[call("get_version")])
    async with in_mid_call(eve, provider, asks):
        provider.answer(completion("Aye."))
        await in_db(actions.send_broadcast)(text="All to Sol.", by="test")
        assert (await in_db(delivery)(eve, "All to Sol."))["state"] == "queued"
    done = await in_db(delivery)(eve, "All to Sol.")
    assert (done["state"], done["number"], done["call"]) == ("done", 1, 2)


async def test_what_a_failed_turn_was_shown_is_not_done(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    await in_db(actions.send_message)(mysis=eve, text="Go.", by="test")
    provider.answer("busy", 503)
    await fly(eve)
    assert (await in_db(delivery)(eve, "Go."))["state"] == "shown"
    provider.answer(completion("Aye."))
    await fly(eve)
    done = await in_db(delivery)(eve, "Go.")
    assert (done["state"], done["number"]) == ("done", 1)


async def test_a_message_without_room_in_the_context_is_told_so(
    eve: Mysis, sandbox: SandboxServer, provider: FakeProvider
):
    await in_db(_narrow)(eve)
    for text in ("First.", "Second."):
        await in_db(actions.send_message)(mysis=eve, text=text, by="test")
    provider.answer(completion("Aye."))
    await fly(eve)
    assert (await in_db(delivery)(eve, "First."))["state"] == "left_out"
    assert (await in_db(delivery)(eve, "Second."))["state"] == "done"


def _narrow(mysis: Mysis) -> None:
    give_policy(mysis, name="narrow", strategy="window", options={"window": 1})


async def test_messages_of_former_versions_are_not_queued_for_ever(eve: Mysis):
    old = await in_db(make_memory)(eve, content="Old.")
    await in_db(Mysis.objects.filter(pk=eve.pk).update)(heard=old.pk)
    assert (await in_db(delivery)(eve, "Old."))["state"] == "done"


async def test_a_broadcast_to_busy_myses_queues_no_job_for_each(
    eve: Mysis, sandbox: SandboxServer
):
    """Whoever is in a turn sees it at the end of that turn."""
    await in_db(Mysis.objects.filter(pk=eve.pk).update)(next_job=None)

    def queries() -> list[str]:
        with record_statements() as caught:
            actions.send_broadcast(text="All to Sol.", by="test")
        return caught

    assert not [sql for sql in await in_db(queries)() if "procrastinate" in sql]
    assert await in_db(Memory.objects.filter(mysis=eve).count)() == 1
