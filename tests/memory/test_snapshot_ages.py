"""Ages that are told once, however often and by whomever they are looked for."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.gamestate.extract import read_result
from memory.models import ActionUnderWay, GameSnapshot
from memory.snapshots import writes
from memory.snapshots.reads import claim_crossings, find_due_accounts
from tests.memory import capturing
from tests.memory.capturing import act, at_tick

pytestmark = pytest.mark.django_db


def capture(tool, username="Ada"):
    capturing.capture(tool, {}, username=username)


def told(ticks):
    now = timezone.now() + timedelta(seconds=ticks * 10 + 1)
    return [
        (c.tool, c.confidence, c.mark.reason, c.mark.tick)
        for c in claim_crossings("Ada", now)
    ]


@pytest.fixture(autouse=True)
def clock():
    at_tick(100)


def test_each_limit_is_told_once():
    capture("get_nearby")
    capture("get_map")
    assert told(1) == []
    assert told(2) == [("get_nearby", "ageing", "2 ticks old", 102)]
    assert told(3) == []
    assert told(6) == [("get_nearby", "stale", "6 ticks old", 106)]
    assert told(7) == []
    capture("get_nearby")
    assert told(50) == [
        ("get_nearby", "stale", "50 ticks old", 150),
        ("get_map", "stale", "50 ticks old", 150),
    ]


def test_what_an_action_made_untrue_is_told_already():
    capture("get_nearby")
    answer = read_result({"action": "arrived"})
    act("travel", answer)
    assert told(9) == []


def test_what_was_captured_before_a_logout_is_told_after_the_login():
    capture("get_nearby")
    writes.log_out_account("Ada")
    assert told(9) == []
    writes.revive_snapshots("Ada")
    assert told(0) == [("get_nearby", "stale", "captured before logout", 100)]
    assert told(9) == []


def test_a_clock_that_goes_back_tells_nothing_twice():
    capture("get_nearby")
    assert len(told(9)) == 1
    assert told(-500) == told(2) == []
    assert claim_crossings("Nobody") == []


def test_actions_that_are_over_are_forgotten_where_nobody_plays():
    answer = read_result({"queued": True})
    act("mine", answer)
    assert find_due_accounts(["Ada"]) == []
    later = timezone.now() + timedelta(minutes=12)
    assert find_due_accounts(["Ada", "Ben"], later) == ["Ada"]
    claim_crossings("Ada", later)
    assert not ActionUnderWay.objects.exists()


# -- beside turns ----------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 30])
def test_many_crossings_are_few_statements(count):
    for number in range(count):
        capture(f"get_unheard_{number}")
    later = timezone.now() + timedelta(seconds=300)
    with CaptureQueriesContext(connection) as queries:
        assert len(claim_crossings("Ada", later)) == count
    assert len(queries) < 10


@pytest.mark.django_db(transaction=True)
def test_a_turn_that_writes_first_is_waited_for_and_looked_at_again():
    """What looked old without the lock has been asked for anew."""
    capture("get_nearby")
    later = timezone.now() + timedelta(seconds=90)
    assert find_due_accounts(["Ada"], later) == ["Ada"]
    holds, told = threading.Event(), []

    def turn():
        with transaction.atomic():
            at_tick(101)
            holds.set()
            waits_for_lock()
            capture("get_nearby")
            GameSnapshot.objects.update(captured_at=later, game_tick=None)
        connections.close_all()

    def look():
        holds.wait()
        told.extend(claim_crossings("Ada", later))
        connections.close_all()

    _run(turn, look)
    assert told == []
    assert GameSnapshot.objects.get().announced == ""


def waits_for_lock():
    """Until another connection waits for an advisory lock."""
    waiting = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    )
    while True:
        with connection.cursor() as cursor:
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return


@pytest.mark.django_db(transaction=True)
def test_passes_and_turns_at_once_neither_lock_up_nor_tell_twice():
    names = [f"Pilot {n}" for n in range(4)]
    tools = [f"get_unheard_{n}" for n in range(6)]
    for name in names:
        for tool in tools:
            capture(tool, name)
    later = timezone.now() + timedelta(seconds=300)
    told: list[tuple[str, str]] = []
    failures: list[Exception] = []

    def watch(order):
        try:
            for name in order:
                told.extend((name, c.tool) for c in claim_crossings(name, later))
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    def fly(order):
        try:
            for name in order:
                act("mine", {"queued": True}, username=name)
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    orders = [names, names[::-1], names[1:] + names[:1]]
    _run(*[lambda o=o: watch(o) for o in orders], *[lambda o=o: fly(o) for o in orders])
    assert failures == []
    assert len(told) == len(set(told)) == 24


def _run(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
