"""What is changed while a turn is under way, also while one of its steps waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction
from django.utils import timezone

from agents import actions, db, usage
from agents.dashboard.troubles import find_troubles
from agents.models import (
    Account,
    Budget,
    BudgetSpend,
    ErrorCode,
    Mysis,
    Turn,
    Usage,
)
from agents.runtime import turn_rows
from agents.runtime.finish import Ending, finish_turn
from agents.runtime.turn import take_turn
from agents.usage import CallCost, CallPlace
from memory.assembly import turn_reads
from memory.models import ContextPolicy, Memory, Note, SentContext, fetch_rows
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly, in_mid_call, refreshed
from tests.agents.runtime.logs import in_db
from tests.factories import make_provider
from tests.fakes.openai import FakeProvider, call, completion

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@contextmanager
def held(mysis: Mysis, step: Callable[[], object]) -> Iterator[None]:
    """Hold the row, let ``step`` wait for it elsewhere, and change the row inside."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    with transaction.atomic():
        actions.base.lock_mysis(mysis)
        thread.start()
        while not fetch_rows(WAITING)[0][0]:
            assert thread.is_alive()
        yield
    thread.join()
    assert failures == []


def begin(mysis: Mysis) -> turn_rows.TurnHandle:
    begun = turn_rows.begin_turn(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
    assert begun is not None
    return begun


def test_a_policy_and_an_account_that_are_set_while_a_step_waits(ada: Mysis):
    """PostgreSQL gives the row as it is then, and what was joined to it before."""
    handle = begin(ada)
    policy = ContextPolicy.objects.create(name="news", strategy="window")
    account = Account.objects.create(username="Nova", assigned_to=ada)
    seen: list[Mysis] = []

    def step() -> None:
        with transaction.atomic():
            seen.append(turn_rows.lock_for_call(handle)[0])

    with held(ada, step):
        Mysis.objects.filter(pk=ada.pk).update(policy=policy, account=account)
    [mysis] = seen
    assert mysis.policy is not None
    assert mysis.account is not None
    assert (mysis.policy.name, mysis.account.username) == ("news", "Nova")


def test_a_turn_ends_whatever_was_set_while_it_waited(ada: Mysis):
    handle = begin(ada)
    account = Account.objects.create(username="Nova", assigned_to=ada)
    Memory.objects.create(
        mysis=ada,
        turn_id=handle.turn_id,
        role="tool",
        origin="tool",
        tool_call_id="x",
        tool_name="mine",
        pending=True,
    )
    with held(ada, lambda: finish_turn(handle, Ending(Turn.Outcome.DONE), 0)):
        Mysis.objects.filter(pk=ada.pk).update(account=account)
    assert Turn.objects.get().outcome == Turn.Outcome.DONE


def test_what_a_call_cost_waits_for_the_mysis_before_it_holds_the_usage(ada: Mysis):
    place = CallPlace(
        call_id=0, mysis_id=ada.pk, day=usage.today(), policy="", model="pilot"
    )
    usage.record_cost(place, CallCost(input_tokens=1))
    with held(ada, lambda: usage.record_cost(place, CallCost(input_tokens=2))):
        fetch_rows("SELECT FROM agents_usage FOR UPDATE NOWAIT")
    assert Usage.objects.get().input_tokens == 3


async def test_another_model_counts_from_the_next_turn(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    """Another kind's request, sent to the endpoint of the first, would be refused."""
    asks = completion(None, tool_calls=[call("get_version")])
    async with in_mid_call(eve, provider, asks):
        provider.answer(completion("Seen, and done."))
        await in_db(choose_another_kind)(eve)
    assert [each["model"] for each in provider.requests] == ["gpt-5-nano"] * 2
    assert (await refreshed(eve)).state == Mysis.State.RUNNING


def choose_another_kind(mysis: Mysis) -> None:
    where = "http://127.0.0.1:9"
    make_provider(name="claude", kind="anthropic", base_url=where, window=1000)
    actions.update_mysis(mysis=mysis, by="test", model="claude:claude-x")


async def test_a_call_that_is_not_sent_costs_no_budget(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    await in_db(leave_no_room)(eve)
    row = await fly(eve, "start")
    assert row.last_error_code == ErrorCode.CONTEXT
    assert provider.requests == []
    [trouble] = await in_db(find_troubles)(timezone.now())
    # The whole of it stands on the front page, and leads to what mends it.
    assert trouble.text == row.last_error
    assert "No room: the tools need" in trouble.text
    assert "(budget 600, of which 100 for the answer)" in trouble.text
    assert "send tools on demand" in trouble.text
    assert trouble.fix.label == "Its context policy"
    spent = await in_db(BudgetSpend.objects.get)()
    assert (spent.tokens, spent.cost) == (0, 0)


def leave_no_room(mysis: Mysis) -> None:
    policy = ContextPolicy.objects.create(
        name="tiny", strategy="window", budget_tokens=600, budget_reserve=100
    )
    more = {"policy": policy, "model_settings": {"max_tokens": 5000}}
    Mysis.objects.filter(pk=mysis.pk).update(**more)
    Budget.objects.create(name="All", scope="fleet", tokens=1_000_000)


async def test_a_worker_that_ends_while_a_turn_begins_ends_the_turn(
    ada: Mysis, monkeypatch: pytest.MonkeyPatch
):
    begun, go_on = threading.Event(), threading.Event()
    begin_turn = turn_rows.begin_turn

    def begin_slowly(*args: int, **more: str) -> turn_rows.TurnHandle | None:
        handle = begin_turn(*args, **more)  # type: ignore[arg-type]
        begun.set()
        assert go_on.wait(60)
        return handle

    monkeypatch.setattr(turn_rows, "begin_turn", begin_slowly)
    turn = asyncio.create_task(
        take_turn(ada.pk, job_id=ada.next_job or 0, trigger="start")
    )
    assert await asyncio.to_thread(begun.wait, 20)
    turn.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (await in_db(Turn.objects.get)()).outcome == Turn.Outcome.INTERRUPTED
    assert (await refreshed(ada)).next_job is not None


async def test_no_step_waits_for_long_searches(ada: Mysis):
    searched = threading.Event()
    searches = [
        asyncio.ensure_future(db.run_long_in_db(searched.wait, 20))
        for _ in range(db.MOST_THREADS * 2)
    ]
    await asyncio.sleep(0)  # all of them are handed over
    assert (await db.run_in_db(turn_rows.lock_mysis, ada.pk)) is not None
    assert not any(each.done() for each in searches)
    searched.set()
    await asyncio.gather(*searches)


async def test_a_note_is_shown_from_the_next_call_on_and_after_a_restart(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    words = '{"name": "base", "text": "Sol\\n## Standing orders\\n- attack"}'
    provider.answer(completion(None, tool_calls=[call("zoea_note", words)]))
    provider.answer(completion("Noted."))
    await fly(eve, "start")
    # As in a process that begins anew.
    turn_reads._works.clear()
    forget = completion(None, tool_calls=[call("zoea_forget", '{"name": "base"}')])
    provider.answer(forget)
    provider.answer(completion("Forgotten."))
    await fly(eve)
    systems = [each["messages"][0]["content"] for each in provider.requests]
    section = '\nNote "base":\n> Sol\n> ## Standing orders\n> - attack'
    assert [text.endswith(section) for text in systems] == [False, True, True, False]
    assert systems[0] == systems[3]
    assert systems[1].startswith(systems[0])
    note = await in_db(Note.objects.get)()
    assert (note.author, note.ended_by) == ("mysis:Eve", "mysis:Eve")
    sent = await in_db(SentContext.objects.order_by("pk").last)()
    assert sent is not None
    assert "notes" not in sent.stats
