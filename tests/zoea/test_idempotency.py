"""Writes under an Idempotency-Key: done once, answered the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from agents import actions, events
from agents.models import Broadcast, Mysis
from memory.problems import Problem
from tests.factories import make_mysis
from tests.programs import Program
from zoea import idempotency
from zoea.models import IdempotencyRecord
from zoea.rate_limits import Limiter

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


def test_an_answer_without_a_body_is_repeated_too() -> None:
    program = Program()
    make_mysis(name="Ada")
    assert program.delete("/myses/Ada", **key("d")).status_code == 204
    assert program.delete("/myses/Ada", **key("d")).status_code == 204
    assert program.delete("/myses/Ada").status_code == 404


def test_a_refusal_is_not_remembered() -> None:
    """It says what to do, and then the same request has to work."""
    program, mysis = Program(), make_mysis(name="Ada")
    actions.stop_mysis(mysis=mysis, by="test")
    refused = program.post("/myses/Ada/message", {"text": "x"}, **key())
    assert (refused.status_code, refused.json()["code"]) == (409, "stopped")
    assert not IdempotencyRecord.objects.exists()
    assert program.post("/myses/Ada/start").status_code == 200
    sent = program.post("/myses/Ada/message", {"text": "x"}, **key())
    assert (sent.status_code, sent.json()["content"]) == (200, "x")
    assert "Idempotent-Replayed" not in sent


def test_a_refusal_leaves_nothing_of_what_was_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**values: Any) -> None:
        Broadcast.objects.create(text="half", sender="x")
        raise Problem(409, "late", "Too late.")

    monkeypatch.setattr(actions, "send_broadcast", refuse)
    refused = Program().post("/broadcasts", {"text": "x"}, **key())
    assert refused.status_code == 409
    assert not Broadcast.objects.exists()


def test_what_only_computes_is_not_kept() -> None:
    program = Program("viewer")
    body = {"messages": [{"id": 1, "role": "user", "content": "x"}]}
    answers = [program.post("/context/assemble", body, **key()) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert "Idempotent-Replayed" not in answers[1]
    assert not IdempotencyRecord.objects.exists()


def test_a_long_answer_is_not_kept_yet_the_write_is_done_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idempotency, "MAX_BODY", 100)
    program = Program()
    assert program.post("/myses", BODY, **key()).status_code == 201
    again = program.post("/myses", BODY, **key())
    assert again.status_code == 409
    assert again.json()["code"] == "idempotency_answer_not_kept"
    assert Mysis.objects.count() == 1
    assert len(IdempotencyRecord.objects.get().body) < 300


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


def test_a_failed_server_is_not_remembered_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program()
    real = events.append

    def broken(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(events, "append", broken)
    failed = program.post("/myses", BODY, **key())
    assert failed.status_code == 500
    assert not Mysis.objects.exists()
    assert not IdempotencyRecord.objects.exists()
    monkeypatch.undo()
    assert program.post("/myses", BODY, **key()).status_code == 201


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


def test_who_was_slow_and_lost_the_claim_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another took it for dead: only one of the two may have been done."""
    program, real = Program("operator"), actions.send_broadcast

    def slow(**values: Any) -> Broadcast:
        sent = real(**values)
        IdempotencyRecord.objects.all().delete()
        return sent

    monkeypatch.setattr(actions, "send_broadcast", slow)
    assert program.post("/broadcasts", {"text": "x"}, **key()).status_code == 500
    assert not Broadcast.objects.exists()


def test_old_answers_go_by_the_way_and_by_prune(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program("operator")

    def old() -> None:
        made = program.post("/broadcasts", {"text": "x"}, **key("old"))
        assert made.status_code == 201
        long_ago = timezone.now() - timedelta(hours=25)
        IdempotencyRecord.objects.filter(key="old").update(created_at=long_ago)

    old()
    program.post("/broadcasts", {"text": "x"}, **key("new"))
    call_command("prune", "--keep-days=30", stdout=StringIO())
    kept = IdempotencyRecord.objects.values_list("key", flat=True)
    assert list(kept) == ["new"]
    old()
    monkeypatch.setattr(idempotency, "_sweeps", Limiter(rate=1, burst=1))
    program.post("/broadcasts", {"text": "x"}, **key("newer"))
    assert set(kept.all()) == {"new", "newer"}


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
