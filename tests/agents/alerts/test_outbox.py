"""Alerts outside: each event once, whatever dies."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import events
from agents.actions.alerts import save_alert_target
from agents.alerts import daily_digest, outbox
from agents.alerts.outbox import claim_next, fill_outbox, record_answer
from agents.alerts.send import (
    Answer,
    send_message,
)
from agents.dashboard import health
from agents.events import Kind
from agents.models import AlertDelivery, AlertTarget, Event
from tests.agents.alerts.receiver import SECRET, Receiver, make_target
from tests.factories import make_mysis


def tell(kind: Kind = Kind.ALERT_RAISED, **data: Any) -> int:
    """Append the event of an alert; its number."""
    told = {"rule": "hull", "mysis": "Ada", "text": "Hull 20 of 100.", "link": "/x/"}
    number = data.pop("number", 1)
    told |= {"cause": f"hull:{number}", **data}
    events.append(kind, mysis_id=number, data=told)
    return events.read_settled_end().id


def clear(**data: Any) -> int:
    return tell(Kind.ALERT_CLEARED, **data)


def deliver(target: AlertTarget, now: datetime | None = None) -> int:
    """Do what the job does; how many attempts it made."""
    count = 0
    while (attempt := claim_next(target.pk, now)) is not None:
        count += 1
        answer = asyncio.run(send_message(attempt.message))
        record_answer(attempt, answer, now)
    return count


def list_states(target: AlertTarget) -> list[str]:
    return list(target.deliveries.order_by("event").values_list("state", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_webhook_gets_the_event_itself_and_its_signature(
    receiver: Receiver, admin: Client
):
    tell(text="before it was there")
    target = make_target(receiver.url)
    number = tell(text="Zoë's hull: 20 of 100.")
    fill_outbox()
    assert ProcrastinateJob.objects.filter(task_name=outbox.TASK).count() == 1
    assert deliver(target) == 1
    fill_outbox()
    assert deliver(target) == 0
    [got] = receiver.got
    listed = admin.get(f"/api/v1/events?kind=alert.raised&after={number - 1}").json()
    assert got.item == listed["items"][0]
    mac = hmac.new(SECRET.encode(), got.body, hashlib.sha256).hexdigest()
    assert got.headers["X-Zoea-Signature"] == f"sha256={mac}"
    row = target.deliveries.get()
    assert (row.state, row.status, row.answer) == ("sent", 200, "ok")
    assert got.headers["Idempotency-Key"] == str(row.key)


@pytest.mark.django_db(transaction=True)
def test_a_dead_target_is_told_all_when_it_is_back_and_holds_up_nobody(
    receiver: Receiver,
):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead_port = free.getsockname()[1]
    dead = make_target(f"http://127.0.0.1:{dead_port}/", name="dead")
    fine = make_target(receiver.url, name="fine")
    numbers = [tell(number=n) for n in (1, 2, 3)]
    now = timezone.now()
    fill_outbox(now)
    assert deliver(dead, now) == 1
    assert deliver(fine, now) == 3
    assert [one.item["id"] for one in receiver.got] == numbers
    for _ in range(2):
        # Not before its pause is over, which doubles.
        assert deliver(dead, now) == 0
        dead.refresh_from_db()
        assert dead.retry_at is not None
        now = dead.retry_at
        assert deliver(dead, now) == 1
    dead.refresh_from_db()
    assert dead.retry_at is not None and dead.retry_at - now == timedelta(seconds=8)
    assert "cannot be reached" in dead.last_error
    assert [one.name for one in health.read_health(now).dead_targets] == ["dead"]
    receiver.got.clear()
    dead.url = receiver.url
    dead.save()
    assert deliver(dead, dead.retry_at) == 3
    assert receiver.count_events() == dict.fromkeys(numbers, 1)
    assert health.read_health(now).dead_targets == []


@pytest.mark.django_db(transaction=True)
def test_one_that_is_refused_holds_up_no_other(receiver: Receiver):
    target = make_target(receiver.url)
    first, second = tell(number=1), tell(number=2)
    receiver.statuses = [400]
    now = timezone.now()
    fill_outbox(now)
    assert deliver(target, now) == 2
    target.refresh_from_db()
    assert (target.retry_at, target.failures) == (None, 0)
    assert list_states(target) == ["waiting", "sent"]
    assert deliver(target, now + timedelta(seconds=1)) == 0
    assert deliver(target, now + timedelta(seconds=2)) == 1
    assert [one.item["id"] for one in receiver.got] == [first, second, first]
    keys = {one.headers["Idempotency-Key"] for one in receiver.got}
    assert len(keys) == 2
    assert list_states(target) == ["sent", "sent"]


@pytest.mark.django_db(transaction=True)
def test_what_waited_before_a_target_was_off_is_no_news():
    target = make_target("https://example.org/")
    tell()
    fill_outbox()
    save_alert_target(target=target, values={"enabled": False})
    save_alert_target(target=target, values={"enabled": True})
    assert list_states(target) == ["left_out"]
    assert claim_next(target.pk) is None


@pytest.mark.django_db(transaction=True)
def test_of_a_rule_taken_off_only_the_end_of_what_was_told_comes():
    target = make_target("https://example.org/")
    tell()
    now = timezone.now()
    fill_outbox(now)
    take_next(target, now)
    save_alert_target(target=target, values={"rules": ["fuel"]})
    end = clear()
    # It comes and goes again, and another's does, unheard.
    for number in (1, 2):
        tell(number=number)
        clear(number=number)
    fill_outbox(now)
    assert take_next(target, now) == end
    assert list_states(target) == ["sent", "sent"]


@pytest.mark.django_db(transaction=True)
def test_an_end_is_told_after_its_beginning():
    target = make_target("https://example.org/")
    first, end, other = tell(), clear(), tell(number=2)
    now = timezone.now()
    fill_outbox(now)
    refused = claim_next(target.pk, now)
    assert refused is not None
    # Under way, or cut off: its end waits, another alert does not.
    assert take_next(target, now) == other
    assert claim_next(target.pk, now) is None
    record_answer(refused, Answer(400), now)
    assert claim_next(target.pk, now) is None
    later = now + timedelta(seconds=2)
    assert [take_next(target, later) for _ in range(2)] == [first, end]
    assert claim_next(target.pk, later) is None


@pytest.mark.django_db(transaction=True)
def test_an_end_is_told_when_its_beginning_is_given_up():
    target = make_target("https://example.org/")
    tell()
    end = clear()
    now = timezone.now()
    fill_outbox(now)
    target.deliveries.filter(kind=Kind.ALERT_RAISED).update(
        refusals=AlertDelivery.MOST_REFUSALS - 1
    )
    attempt = claim_next(target.pk, now)
    assert attempt is not None
    record_answer(attempt, Answer(400), now)
    assert take_next(target, now) == end


def take_next(target: AlertTarget, now: datetime) -> int:
    """Let the target take the next one; the number of its event."""
    attempt = claim_next(target.pk, now)
    assert attempt is not None
    record_answer(attempt, Answer(200), now)
    number: int = json.loads(attempt.message.body)["id"]
    return number


@pytest.mark.django_db(transaction=True)
def test_one_that_is_refused_for_ever_is_given_up_and_shown_so(admin: Client):
    target = make_target("https://example.org/")
    tell()
    now = begun = timezone.now()
    fill_outbox(now)
    tries = 0
    while (attempt := claim_next(target.pk, now)) is not None:
        record_answer(attempt, Answer(413, "too large"), now)
        tries += 1
        row = target.deliveries.get()
        now = row.due_at
    assert tries == AlertDelivery.MOST_REFUSALS
    assert timedelta(hours=8) < now - begun < timedelta(hours=12)
    target.refresh_from_db()
    assert target.dead
    assert target.last_error == "It answers 413, and says: too large."
    path = f"/api/v1/alerts/targets/{target.pk}/deliveries"
    [shown] = admin.get(path).json()["items"]
    assert (shown["state"], shown["status"]) == ("given_up", 413)
    assert "given up" in admin.get(f"/alerts/targets/{target.pk}/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_what_was_refused_is_tried_at_once_when_the_target_is_saved():
    target = make_target("https://example.org/")
    tell()
    now = timezone.now()
    fill_outbox(now)
    for _ in range(8):
        attempt = claim_next(target.pk, now)
        assert attempt is not None
        record_answer(attempt, Answer(404), now)
        now = target.deliveries.get().due_at
    assert claim_next(target.pk) is None
    save_alert_target(target=target, url="https://example.org/mended")
    assert claim_next(target.pk) is not None


@pytest.mark.django_db(transaction=True)
def test_a_claimed_one_is_nobody_elses_until_its_deadline(receiver: Receiver):
    target = make_target(receiver.url)
    tell()
    now = timezone.now()
    fill_outbox(now)
    first = claim_next(target.pk, now)
    assert first is not None
    assert claim_next(target.pk, now) is None
    # Whoever claimed it was killed: the same key goes with the next attempt.
    again = claim_next(target.pk, now + outbox.LEASE)
    assert again == first


@pytest.mark.django_db(transaction=True)
def test_an_outbox_that_is_filled_twice_has_each_event_once(receiver: Receiver):
    target = make_target(receiver.url)
    before = target.cursor
    tell()
    fill_outbox()
    AlertTarget.objects.update(cursor=before)
    fill_outbox()
    assert list_states(target) == ["waiting"]


@pytest.mark.django_db(transaction=True)
def test_one_alert_per_cause_in_ten_minutes(receiver: Receiver):
    target = make_target(receiver.url)
    raised = tell()
    cleared = clear()
    # Back, and gone again: nobody hears of it.
    tell()
    clear()
    # Back, and still there after ten minutes.
    third = tell()
    fill_outbox()
    deliver(target)
    assert [one.item["id"] for one in receiver.got] == [raised, cleared]
    assert list_states(target) == ["sent", "sent", "left_out", "left_out", "quiet"]
    assert deliver(target, timezone.now() + timedelta(minutes=9)) == 0
    assert deliver(target, timezone.now() + timedelta(minutes=10)) == 1
    assert receiver.got[-1].item["id"] == third


@pytest.mark.django_db(transaction=True)
def test_myses_with_one_cause_are_one_alert(receiver: Receiver):
    target = make_target(receiver.url)
    for number in (1, 2, 3):
        tell(number=number, rule="errored", cause="errored:same")
    clear(number=2, rule="errored", cause="errored:same")
    clear(number=1, rule="errored", cause="errored:same")
    fill_outbox()
    deliver(target)
    begun, over = [one.item for one in receiver.got]
    assert begun["mysis"] == 1
    assert begun["data"]["also"] == "Also Ada, Ada."
    assert len(begun["data"]["also_events"]) == 2
    assert (over["kind"], over["data"]["also"]) == ("alert.cleared", "Also Ada.")
    assert list_states(target) == ["sent", "summed", "summed", "sent", "summed"]


@pytest.mark.django_db(transaction=True)
def test_others_with_a_cause_that_was_told_are_told_when_its_minutes_end(
    receiver: Receiver,
):
    target = make_target(receiver.url)
    same: dict[str, Any] = {"rule": "errored", "cause": "errored:same"}
    tell(**same)
    fill_outbox()
    deliver(target)
    later = [tell(number=n, mysis=f"M{n}", **same) for n in (2, 3, 4, 5, 6, 7)]
    fill_outbox()
    assert deliver(target, timezone.now() + timedelta(minutes=9)) == 0
    # One is well again before anybody outside was told of it.
    clear(number=3, mysis="M3", **same)
    fill_outbox()
    then = timezone.now() + timedelta(minutes=10)
    receiver.statuses = [503]
    assert deliver(target, then) == 1
    # Tried again it says the same, whatever came meanwhile; an end waits for it.
    clear(number=4, mysis="M4", **same)
    fill_outbox()
    assert deliver(target, then + timedelta(seconds=10)) == 2
    first, again, end = receiver.got[1:]
    assert first.body == again.body
    assert first.item["data"]["also"] == "Also M4, M5, M6 and 1 more."
    assert first.item["data"]["also_events"] == [later[0] + 2, *later[3:]]
    assert (end.item["kind"], end.item["mysis"]) == ("alert.cleared", 4)
    assert deliver(target, then + timedelta(hours=1)) == 0


@pytest.mark.django_db(transaction=True)
def test_a_target_reads_on_where_it_was_after_the_log_was_pruned(receiver: Receiver):
    target = make_target(receiver.url)
    tell()
    fill_outbox()
    target.refresh_from_db()
    kept = target.cursor_xid, target.cursor
    assert kept == events.read_settled_end()
    Event.objects.all().delete()
    number = tell(number=2)
    with CaptureQueriesContext(connection) as found:
        fill_outbox()
    read = [one["sql"] for one in found if "(xid, id) >" in one["sql"]]
    assert len(read) == 1
    assert f"({kept[0]}, {kept[1]})" in read[0]
    deliver(target)
    assert receiver.got[-1].item["id"] == number


@pytest.mark.django_db(transaction=True)
def test_a_digest_is_made_once_a_day_at_its_hour(receiver: Receiver):
    target = make_target(receiver.url, digest_hour=6)
    due = target.digest_at
    assert due is not None and due > timezone.now()
    assert (due.hour, due.minute, due.utcoffset()) == (6, 0, timedelta(0))
    daily_digest.add_due_digests(due - timedelta(seconds=1))
    assert not target.deliveries.exists()
    make_mysis(name="Ada").delete()
    events.append(Kind.ERROR, mysis_id=1, data={"detail": "The key is wrong."})
    daily_digest.add_due_digests(due)
    daily_digest.add_due_digests(due)
    assert ProcrastinateJob.objects.filter(task_name=outbox.TASK).count() == 1
    receiver.statuses = [503]
    assert deliver(target, due) == 1
    assert deliver(target, due + timedelta(minutes=1)) == 1
    one, again = receiver.got
    assert one.headers["Idempotency-Key"] == again.headers["Idempotency-Key"]
    item = again.item
    assert (item["id"], item["kind"]) == (None, "digest")
    assert "1 × The key is wrong." in item["data"]["text"]  # noqa: RUF001
    assert "**Errors**" in item["data"]["markdown"]
    target.refresh_from_db()
    assert target.digest_at == due + timedelta(days=1)
    assert target.digest_from == due
    # The next one begins where this one ended.
    daily_digest.add_due_digests(due + timedelta(days=1))
    deliver(target, due + timedelta(days=1))
    assert receiver.got[-1].item["data"]["text"].startswith("Nothing happened since")
    save_alert_target(target=target, values={"digest_hour": None})
    assert target.digest_at is None


@pytest.mark.django_db(transaction=True)
def test_a_target_that_fails_stops_no_other(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    odd, other = make_target(receiver.url), make_target(receiver.url, name="other")
    tell()
    take = outbox._take_events

    def fail_once(target: AlertTarget, now: datetime) -> None:
        if target == odd:
            raise ValueError("odd")
        take(target, now)

    monkeypatch.setattr(outbox, "_take_events", fail_once)
    fill_outbox()
    assert other.deliveries.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_target_is_told_what_it_asks_for_and_nothing_while_it_is_off(
    receiver: Receiver,
):
    target = make_target(receiver.url, rules=["fuel"])
    tell()
    wanted = tell(rule="fuel", cause="fuel:1")
    fill_outbox()
    deliver(target)
    target.refresh_from_db()
    save_alert_target(target=target, values={"enabled": False})
    tell(rule="fuel", cause="fuel:2", number=2)
    fill_outbox()
    save_alert_target(target=target, values={"enabled": True})
    fill_outbox()
    assert [one.item["id"] for one in receiver.got] == [wanted]
    assert AlertDelivery.objects.count() == 1
