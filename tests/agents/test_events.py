"""The event log: nothing missed, nothing twice, whatever commits when."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from agents import events
from agents.events import Kind
from agents.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


def test_events_come_in_order_with_their_fields():
    events.append(Kind.MYSIS_STATE, mysis_id=7, data={"state": "running"})
    events.append(Kind.ERROR, data={"text": "a\x00b"})
    first, second = events.read_after(0)
    assert first["kind"] == "mysis.state"
    assert first["mysis"] == 7
    assert first["data"] == {"state": "running"}
    assert first["at"].endswith("Z")
    assert second["mysis"] is None
    assert second["data"] == {"text": "ab"}
    assert events.read_after(first["id"]) == [second]
    assert events.read_after(second["id"]) == []


def test_a_kind_that_nobody_told_of_is_not_looked_for_among_all_others():
    told = {"kind": Kind.TOOL_CALLED.value, "data": {}}
    Event.objects.bulk_create([Event(**told) for _ in range(5_000)], 1_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE agents_event")
        for place in (events.END, events.Position(4, 4)):
            kinds = [Kind.ERROR, Kind.ORDER_CHANGED]
            cursor.execute(f"EXPLAIN {events.NEWEST_BY_KIND}", [kinds, *place])
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "event_of_kind" in plan
            assert "event_order" not in plan


def test_a_late_commit_with_a_smaller_id_is_not_stepped_over():
    held, release = threading.Event(), threading.Event()

    def slow_writer():
        with transaction.atomic():
            events.append(Kind.ERROR, data={"who": "slow"})
            held.set()
            release.wait(60)
        connection.close()

    writer = threading.Thread(target=slow_writer)
    writer.start()
    held.wait(60)
    events.append(Kind.ERROR, data={"who": "fast"})
    assert events.read_after(0) == [], "the watermark must hold back the fast one"
    release.set()
    writer.join()
    seen = events.read_after(0)
    assert sorted(item["data"]["who"] for item in seen) == ["fast", "slow"]


def test_a_cursor_resumes_when_ids_and_commits_disagree():
    """The younger transaction draws the smaller id and commits last."""
    old_ready, young_done, old_done = (threading.Event() for _ in range(3))
    seen: list[str] = []

    def old_transaction():
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT txid_current()")
            old_ready.set()
            young_done.wait(60)
            events.append(Kind.ERROR, data={"who": "old"})
        old_done.set()
        connection.close()

    def young_transaction():
        old_ready.wait(60)
        with transaction.atomic():
            events.append(Kind.ERROR, data={"who": "young"})
            young_done.set()
            old_done.wait(60)
            seen.extend(i["data"]["who"] for i in events.read_after(0))
        connection.close()

    threads = [
        threading.Thread(target=work) for work in (old_transaction, young_transaction)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cursor = events.read_after(0)[0]["id"]
    seen = seen or ["old"]
    rest = [item["data"]["who"] for item in events.read_after(cursor)]
    assert seen == ["old"]
    assert rest == ["young"]


def test_filters_by_mysis_and_kind():
    events.append(Kind.ERROR, mysis_id=1)
    events.append(Kind.MEMORY_ADDED, mysis_id=1)
    events.append(Kind.MEMORY_ADDED, mysis_id=2)
    assert len(events.read_after(0, mysis_id=1)) == 2
    assert len(events.read_after(0, kinds=["memory.added"])) == 2
    assert len(events.read_after(0, mysis_id=1, kinds=["memory.added"])) == 1
    assert len(events.read_after(0, limit=2)) == 2


def test_a_cursor_that_was_pruned_goes_on_where_it_would_stand():
    for _ in range(3):
        events.append(Kind.ERROR)
    first, second, third = events.read_after(0)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM agents_event WHERE id = %s", [second["id"]])
    assert events.read_after(second["id"]) == [third]
    assert events.read_after(third["id"] + 10**6) == []
    assert events.read_after(2**70) == []
    assert events.read_after(-5) == [first, third]


def test_events_restored_from_another_server_do_not_hold_up_new_ones():
    events.append(Kind.ERROR, data={"n": 1})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE agents_event SET xid = xid + 1000000")
    assert events.read_after(0) == []
    assert events.settle_foreign() == 1
    (old,) = events.read_after(0)
    events.append(Kind.ERROR, data={"n": 2})
    assert [item["data"]["n"] for item in events.read_after(old["id"])] == [2]
    assert events.settle_foreign() == 0


def test_the_newest_of_a_kind_up_to_a_place_of_the_stream():
    for kind in (Kind.ERROR, Kind.ORDER_CHANGED, Kind.ERROR):
        events.append(kind)
    places = [place for place, _ in events.read_from(events.START)]
    kinds = [Kind.ERROR, Kind.ORDER_CHANGED]
    assert events.find_newest(kinds, events.START) == {}
    first, order, last = (place.id for place in places)
    assert events.find_newest(kinds, places[1]) == {"error": first, kinds[1]: order}
    assert events.find_newest(kinds) == {"error": last, kinds[1]: order}
