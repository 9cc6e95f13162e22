"""A broadcast to a fleet: by batches, once to each, whatever comes between."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import actions, events, scheduling
from agents.actions import base, messages
from agents.models import Broadcast, Mysis
from agents.runtime import recovery
from memory.models import Memory
from memory.redaction import sealed
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db(transaction=True)

RETRY_AT = datetime(2100, 1, 1, tzinfo=UTC)
SET_BY_WAKING = (*base.RESET_COLUMNS, "wake_at")


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> list[Mysis]:
    """Five that listen and one that does not, with batches of two."""
    monkeypatch.setattr(messages, "BATCH", 2)
    myses = [make_mysis(state="idle" if n % 2 else "running") for n in range(5)]
    make_mysis(state="stopped")
    return myses


def got() -> dict[int, int]:
    """How many messages each Mysis has."""
    owners = list(Memory.objects.values_list("mysis_id", flat=True))
    return {owner: owners.count(owner) for owner in owners}


def told() -> list[int]:
    lines = events.read_after(0, kinds=["broadcast.sent"])
    return [line["data"]["recipients"] for line in lines]


async def test_upkeep_goes_on_where_a_dead_process_left_off(
    fleet: list[Mysis], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is delivered stays so, nobody gets it twice, and the counts hold."""
    monkeypatch.setattr(messages, "deliver_broadcast", lambda pk: None)
    sent = actions.send_broadcast(text="All home.", by="x", sender=fleet[0])
    assert (got(), actions.count_recipients(sent)) == ({}, 4)
    assert messages._deliver_batch(sent.pk, wait=True)
    assert got() == {fleet[1].pk: 1, fleet[2].pk: 1}
    assert (told(), actions.count_recipients(sent)) == ([], 4)
    for _ in range(2):
        await recovery.reconcile()
        assert got() == {mysis.pk: 1 for mysis in fleet[1:]}
        assert (told(), actions.count_recipients(sent)) == ([4], 4)


def test_within_a_callers_transaction_it_is_delivered_after_the_commit(
    fleet: list[Mysis],
) -> None:
    with transaction.atomic():
        sent = actions.send_broadcast(text="All home.", by="x")
        assert (got(), actions.count_recipients(sent)) == ({}, 5)
    assert got() == {mysis.pk: 1 for mysis in fleet}
    assert (told(), actions.count_recipients(sent)) == ([5], 5)
    assert Broadcast.objects.get().deliver_to is None


def test_a_batch_wakes_each_as_a_message_would() -> None:
    def group(kind: str) -> list[Mysis]:
        idle, waiting, busy, failing = (make_mysis(name=f"{kind}{n}") for n in range(4))
        for mysis in (waiting, busy, failing):
            actions.start_mysis(mysis=mysis, by="x")
        # Its provider is left alone until then, whatever comes.
        failing.refresh_from_db()
        Mysis.objects.filter(pk=failing.pk).update(failures=3)
        scheduling.schedule(failing, trigger="retry", at=RETRY_AT)
        # As a turn leaves it that is under way.
        Mysis.objects.filter(pk=busy.pk).update(next_job=None, nudges=2)
        Mysis.objects.filter(pk=idle.pk).update(failures=3, stuck="so", trail="a b")
        return [idle, waiting, busy, failing]

    one, many = group("one"), group("many")
    before = Mysis.objects.get(pk=many[1].pk).next_job
    for mysis in one:
        actions.send_message(mysis=mysis, text="Home.", by="x")
    for mysis in one:
        Mysis.objects.filter(pk=mysis.pk).update(state="stopped")
    actions.send_broadcast(text="Home.", by="x")
    Mysis.objects.filter(name__startswith="one").update(state="running")

    def now(myses: list[Mysis]) -> list[Any]:
        rows = Mysis.objects.filter(pk__in=[m.pk for m in myses]).order_by("pk")
        return list(rows.values(*SET_BY_WAKING))

    assert now(many) == now(one)
    triggers = ("broadcast", "broadcast", None, "retry")
    for mysis, trigger in zip(many, triggers, strict=True):
        mysis.refresh_from_db()
        assert (mysis.next_job is not None) == (trigger is not None)
        if mysis.next_job is not None:
            job = ProcrastinateJob.objects.get(pk=mysis.next_job)
            assert job.args == {"mysis_id": mysis.pk, "trigger": trigger}
            assert (job.lock, job.status) == (f"mysis-{mysis.pk}", "todo")
    assert not ProcrastinateJob.objects.filter(pk=before).exists()


def test_a_large_fleet_costs_a_batch_no_more_statements() -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            actions.send_broadcast(text="All home.", by="x")
        return len(queries)

    make_mysis()
    make_mysis(state="running")
    sealed.read()
    few = statements()
    for number in range(20):
        make_mysis(state="running" if number % 2 else "idle")
    assert statements() == few


def test_who_comes_later_does_not_get_it(
    fleet: list[Mysis], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "deliver_broadcast", lambda pk: None)
    actions.send_broadcast(text="All home.", by="x")
    actions.delete_mysis(mysis=fleet[0], by="x")
    actions.stop_mysis(mysis=fleet[4], by="x")
    make_mysis()
    messages.resume_broadcasts()
    assert got() == {mysis.pk: 1 for mysis in fleet[1:4]}
    assert told() == [3]
