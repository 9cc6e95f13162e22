"""Workers that are killed while they tell of alerts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.utils import timezone

from agents.actions.alerts import save_alert_target
from agents.models import Alert, AlertDelivery, AlertTarget
from sandbox.game.testing import SandboxServer
from tests.agents.alerts.receiver import Receiver
from tests.agents.runtime.workers import Workers
from tests.factories import make_mysis

PATIENCE = 60.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def test_every_alert_is_told_though_workers_die_and_the_webhook_is_down(
    transactional_db: Any, tmp_path: Path, receiver: Receiver
):
    """One is killed before the answer came, one is told that the target is down.

    What was asked again went under the key that it had before. So with a digest that is
    due meanwhile.
    """
    target = AlertTarget(name="on call", kind="webhook")
    save_alert_target(target=target, url=receiver.url)
    AlertTarget.objects.update(digest_hour=6, digest_at=timezone.now())
    for name in ("Ada", "Bea", "Cid"):
        make_mysis(name=name, state="errored", last_error=f"{name} is lost.")
    receiver.gate = Event()
    with SandboxServer() as game, Workers(tmp_path, game.url) as workers:
        first = workers.start()
        assert receiver.arrived.wait(PATIENCE)
        workers.kill(first)
        receiver.gate.set()
        receiver.gate = None
        receiver.statuses = [500]
        # As if the time had passed in which an answer could have come, or a digest.
        AlertDelivery.objects.update(due_at=timezone.now())
        if not AlertDelivery.objects.filter(kind="digest").exists():
            AlertTarget.objects.update(digest_at=timezone.now())
        workers.start()
        assert receiver.await_requests(6, PATIENCE)
        for _ in range(1_000):
            if not AlertDelivery.objects.exclude(state="sent").exists():
                break
            receiver.pause.wait(0.02)
        raised = Alert.objects.count()
    assert raised == 3
    assert AlertDelivery.objects.filter(state="sent").count() == 4
    assert AlertDelivery.objects.filter(kind="digest").count() == 1
    keys = {one.item["id"]: one.headers["Idempotency-Key"] for one in receiver.got}
    assert len(keys) == len(set(keys.values())) == 4
    for one in receiver.got:
        assert one.headers["Idempotency-Key"] == keys[one.item["id"]]
    # Once more for the killed worker, once more for the answer 500.
    assert sum(receiver.count_events().values()) == 6
