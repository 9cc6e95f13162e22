"""Writes under an Idempotency-Key: done once, answered the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents import actions, events
from agents.models import Broadcast, Mysis
from tests.factories import make_mysis
from tests.programs import Program
from zoea.models import IdempotencyRecord

pytestmark = pytest.mark.django_db(transaction=True)
BODY = {"name": "Ada", "model": "pilot"}


def key(text: str = "k1") -> dict[str, str]:
    return {"Idempotency-Key": text}


def test_the_same_write_twice_is_done_once_and_answered_alike() -> None:
    program = Program()
    first = program.post("/myses", BODY, **key())
    again = program.post("/myses", BODY, **key())
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again["Content-Type"] == first["Content-Type"]
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert Mysis.objects.count() == 1


def test_an_answer_without_a_body_and_a_refusal_are_repeated_too() -> None:
    program = Program()
    make_mysis(name="Ada")
    assert program.delete("/myses/Ada", **key("d")).status_code == 204
    assert program.delete("/myses/Ada", **key("d")).status_code == 204
    assert program.delete("/myses/Ada").status_code == 404
    refused = program.post("/myses", {"name": "1"}, **key("r"))
    again = program.post("/myses", {"name": "1"}, **key("r"))
    assert (refused.status_code, again.content) == (422, refused.content)


@pytest.mark.parametrize("other", [{"name": "Bob", "model": "pilot"}, None])
def test_another_request_under_the_key_is_422(other: Any) -> None:
    program = Program()
    program.post("/myses", BODY, **key())
    refused = program.post("/myses", other, **key())
    assert refused.status_code == 422
    assert refused.json()["code"] == "idempotency_key_reused"
    assert program.post("/broadcasts", BODY, **key()).status_code == 422


def test_keys_belong_to_who_uses_them() -> None:
    first, second = Program("operator", "a"), Program("operator", "b")
    for program in (first, second, first):
        assert program.post("/broadcasts", {"text": "x"}, **key()).status_code == 201
    assert Broadcast.objects.count() == 2


@pytest.mark.parametrize("bad", ["", "x" * 201, "é", "a\tb"])
def test_an_unusable_key_is_422(bad: str) -> None:
    refused = Program().post("/myses", BODY, **key(bad))
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("Idempotency-Key")
    assert Mysis.objects.count() == 0


def test_without_a_key_every_write_counts() -> None:
    program = Program("operator")
    for _ in range(2):
        assert program.post("/broadcasts", {"text": "x"}).status_code == 201
    assert Broadcast.objects.count() == 2


def test_a_failed_server_is_not_remembered_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program("operator")
    real = events.append

    def broken(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(events, "append", broken)
    failed = program.post("/broadcasts", {"text": "x"}, **key())
    assert failed.status_code == 500
    assert not Broadcast.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    monkeypatch.undo()
    assert program.post("/broadcasts", {"text": "x"}, **key()).status_code == 201


def test_while_the_first_still_runs_the_second_is_409(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program("operator")
    inside, go_on = threading.Event(), threading.Event()
    real = actions.send_broadcast

    def slow(**values: Any) -> Broadcast:
        inside.set()
        assert go_on.wait(30)
        return real(**values)

    def first() -> Any:
        try:
            return program.post("/broadcasts", {"text": "x"}, **key()).status_code
        finally:
            connection.close()

    monkeypatch.setattr(actions, "send_broadcast", slow)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first)
        assert inside.wait(30)
        second = program.post("/broadcasts", {"text": "x"}, **key())
        go_on.set()
        assert running.result(30) == 201
    assert second.status_code == 409
    assert second["Retry-After"] == "1"
    assert program.post("/broadcasts", {"text": "x"}, **key()).status_code == 201
    assert Broadcast.objects.count() == 1


def test_many_at_once_do_it_once() -> None:
    program = Program("operator")

    def send() -> Any:
        try:
            return program.post("/broadcasts", {"text": "x"}, **key()).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        found = [job.result(60) for job in [pool.submit(send) for _ in range(16)]]
    assert set(found) <= {201, 409}
    assert 201 in found
    assert Broadcast.objects.count() == 1


def test_an_abandoned_claim_and_an_old_answer_make_room() -> None:
    program = Program("operator")
    now = timezone.now()
    for age in (timedelta(minutes=6), timedelta(hours=25)):
        program.post("/broadcasts", {"text": "x"}, **key())
        status = None if age < timedelta(hours=1) else 201
        IdempotencyRecord.objects.update(created_at=now - age, status=status)
        assert program.post("/broadcasts", {"text": "y"}, **key()).status_code == 201
        IdempotencyRecord.objects.all().delete()
    assert Broadcast.objects.filter(text="y").count() == 2
