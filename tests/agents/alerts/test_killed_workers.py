"""Workers that are killed while they tell of alerts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Event

import pytest
from django.utils import timezone

from agents import events
from agents.actions.alerts import save_alert_target
from agents.models import AlertDelivery, AlertTarget
from tests.agents.alerts.receiver import Receiver
from tests.agents.runtime.workers import Workers
from tests.factories import make_mysis
from tests.long_run import few_or_many

PATIENCE = 120.0
PAUSE = Event()
KILLS = few_or_many(2, 3)


def test_each_alert_counts_once_over_kills_and_a_webhook_that_comes_back(
    workers: Workers,
):
    """The webhook does not even listen at first; then a worker dies in each of its calls.

    A receiver that goes by the keys has each alert once, and what it answered to is
    not told again.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    target = AlertTarget(name="on call", kind="webhook")
    save_alert_target(target=target, url=f"http://127.0.0.1:{port}/hook")
    names = ["Ada", "Bea", "Cid", "Dan"]
    for name in names:
        make_mysis(name=name, state="errored", last_error=f"{name} is lost.")
    worker = workers.start()
    await_row(lambda: AlertTarget.objects.exclude(last_error="").exists())
    workers.kill(worker)
    with Receiver(port=port, gate=Event()) as receiver:
        for _ in range(KILLS):
            receiver.arrived.clear()
            make_due()
            worker = workers.start()
            assert receiver.arrived.wait(PATIENCE)
            workers.kill(worker)
        # Those that were asked in vain get their answers, which nobody reads.
        gate, receiver.gate = receiver.gate, None
        assert gate is not None
        gate.set()
        make_due()
        workers.start()
        sent = AlertDelivery.objects.filter(state="sent")
        await_row(lambda: sent.count() == len(names))
        before = len(receiver.got)
        # A later one is told, and none of those before it comes with it.
        make_mysis(name="Eve", state="errored", last_error="Eve is lost.")
        assert receiver.await_requests(before + 1, PATIENCE)
        await_row(lambda: sent.count() == len(names) + 1)
    told: dict[str, set[int]] = {}
    for one in receiver.got:
        told.setdefault(one.headers["Idempotency-Key"], set()).add(one.item["id"])
    raised = [{one["id"]} for one in events.read_after(0, kinds=["alert.raised"])]
    assert sorted(told.values(), key=min) == raised
    assert receiver.got[-1].item["data"]["text"] == "Eve is lost."
    assert sum(receiver.count_events().values()) == before + 1
    assert before <= len(names) + KILLS


def make_due() -> None:
    """As if the time had passed in which an answer could have come."""
    AlertDelivery.objects.filter(state="waiting").update(due_at=timezone.now())
    AlertTarget.objects.update(retry_at=None)


def await_row(found: Callable[[], bool]) -> None:
    """Wait until the database says so."""
    for _ in range(3_000):
        if found():
            return
        PAUSE.wait(0.02)
    pytest.fail("it never came to pass")
