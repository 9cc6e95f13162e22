"""What happened in a span: summed, in words, as JSON, and since the last visit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents import actions, events
from agents.actions.orders import change_order
from agents.dashboard import digest, yields
from agents.dashboard.digest import (
    bound_since,
    make_digest,
    parse_since,
)
from agents.dashboard.digest_text import (
    describe_span,
    write_brief,
    write_markdown,
    write_sections,
)
from agents.dashboard.shared_results import shared
from agents.events import Kind
from agents.models import Event, Mysis, Order, Visit
from agents.order_status import read_orders, select_orders
from agents.runtime.turn_rows import pause_for_budget
from memory import concurrency
from memory.models import ContextPolicy
from tests.agents.dashboard.test_yields import add_turns
from tests.factories import make_mysis
from tests.statements import record_statements

pytestmark = pytest.mark.django_db
GRACE = "operator:grace"
NOW = datetime(2026, 3, 4, 5, 0, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def list_lines(title: str) -> list[str]:
    digested = make_digest(timezone.now() - HOUR)
    found = {section.title: section.lines for section in write_sections(digested)}
    return [line.text for line in found.get(title, ())]


def test_equal_things_are_one_line_with_names_and_by_whom():
    names = ("Ada", "Brahe", "Cassini", "Draper")
    fleet = [actions.create_mysis(name=name, by="operator:ann") for name in names]
    for one in fleet:
        actions.start_mysis(mysis=one, by=GRACE)
    actions.stop_mysis(mysis=fleet[0], by=GRACE)
    # Neither a note nor another setting is a start, nor is the same state once more.
    told = {"state": "running", "by": GRACE}
    events.append(Kind.MYSIS_STATE, mysis_id=fleet[1].pk, data=told)
    actions.update_mysis(mysis=fleet[1], by=GRACE, group="red")
    actions.add_pin(mysis=fleet[1], text="Hold.", by=GRACE)
    for one in fleet[:3]:
        events.append_error(one.pk, f"The key of {one.name} is wrong.", code="key")
    events.append_error(fleet[0].pk, "*Odd*.")
    told = {"rule": "hull", "text": "Hull 20 of 100."}
    events.append(Kind.ALERT_RAISED, mysis_id=fleet[0].pk, data=told)
    events.append(Kind.ALERT_CLEARED, mysis_id=fleet[0].pk, data=told)
    events.append(Kind.CONTEXT_COMPACTED, mysis_id=fleet[0].pk, data={})
    assert list_lines("Myses") == [
        "Made: 4 by ann (Ada, Brahe, Cassini and 1 more)",
        "Started: 4 by grace (Ada, Brahe, Cassini and 1 more)",
        "Stopped: 1 by grace (Ada)",
        "Changed group of 1 by grace (Brahe)",
        "Changed pins of 1 by grace (Brahe)",
    ]
    assert list_lines("Errors") == [
        "3 × The key of Cassini is wrong. (Ada, Brahe, Cassini)",  # noqa: RUF001
        "1 × *Odd*. (Ada)",  # noqa: RUF001
    ]
    assert list_lines("Alerts") == ["Hull badly damaged: 1 raised, 1 cleared (Ada)"]
    assert list_lines("Contexts") == ["1 compacted"]
    # What wakes them, starts nobody; those after it were in that state.
    Mysis.objects.update(state="idle")
    actions.send_order(text="Go on.", by=GRACE, myses=fleet[:2])
    assert list_lines("Myses")[1].startswith("Started: 4 by grace")
    assert not [line for line in list_lines("Myses") if line.startswith("Started: 2")]
    text = write_markdown(make_digest(timezone.now() - HOUR))
    assert r"- 1 × \*Odd\*. (Ada)" in text  # noqa: RUF001
    assert "4 errors, 1 alert" in write_brief(make_digest(timezone.now() - HOUR))


def test_credits_best_and_worst_orders_and_changes():
    now = timezone.now()
    for name, gain in (("Ada", 50), ("Bea", 20), ("Cid", 0), ("Dan", -5), ("Eve", 9)):
        add_turns(make_mysis(name=name), now - 30 * MINUTE, 10, gain)
    assert list_lines("Earned") == [
        "+740 credits in 50 turns, 5.0k tokens, $0",
        "Best: Ada +500, Bea +200, Eve +90",
        "Worst: Dan -50, Cid +0",
    ]
    order = actions.send_order(
        text="All hands: return to base",
        by=GRACE,
        myses=list(Mysis.objects.filter(name__in=["Ada", "Bea"])),
    )
    assert order
    [summed, line] = list_lines("Orders")
    assert summed == "1 given: 1 open"
    assert line.startswith("“All hands: return to base” to Ada, Bea by grace: 2 sent")
    prompt = actions.get_default_prompt()
    actions.save_prompt(prompt=prompt, text="Fly!", by=GRACE, note="shorter")
    ContextPolicy.objects.create(name="lean")
    assert "captain v2 by grace (shorter)" in list_lines("Prompts and policies")
    assert "policy lean" in list_lines("Prompts and policies")


def test_a_policy_changed_in_the_admin_is_told_with_who_did_it(admin: Client):
    values = {
        "name": "short", "strategy": "window", "window": "20",
        "budget_tokens": "16000", "budget_reserve": "2000", "tools": "full",
    }  # fmt: skip
    page = admin.post("/admin/memory/contextpolicy/add/", values)
    assert page.status_code == 302, page.context["adminform"].form.errors
    assert list_lines("Prompts and policies") == ["policy short by admin (made)"]


def test_a_state_that_was_so_before_the_span_is_no_change():
    mysis = make_mysis(name="Ada", state="running")
    pause_for_budget(mysis, "The budget is used up.")
    assert not make_digest(timezone.now() - HOUR).select(Kind.MYSIS_STATE)
    actions.stop_mysis(mysis=mysis, by=GRACE)
    assert list_lines("Myses") == ["Stopped: 1 by grace (Ada)"]


def test_all_orders_are_counted_by_their_states():
    fleet = [make_mysis(name=name, state="running") for name in ("Ada", "Bea")]
    begun = timezone.now()
    for number in range(7):
        actions.send_order(text=f"Go {number}", by=GRACE, myses=fleet)
    states = ["done", "done", "not_done", "superseded"]
    for order, state in zip(Order.objects.order_by("pk"), states, strict=False):
        change_order(order=order, by=GRACE, state=state)
    first = Order.objects.earliest("pk")
    change_order(order=first, by=GRACE, state="not_done", mysis=fleet[0])
    Order.objects.create(text="To nobody", sender=GRACE, to={"fleet": True})
    found = make_digest(begun)
    assert found.order_states == {
        "done": 1, "not_done": 3, "superseded": 1, "queued": 3,
    }  # fmt: skip
    told = Counter(one.state for one in read_orders(list(select_orders())))
    assert found.order_states == told
    assert [one.text for one in found.orders] == [
        "To nobody", *(f"Go {number}" for number in (6, 5, 4, 3)),
    ]  # fmt: skip
    assert list_lines("Orders")[0] == "8 given: 1 cleared, 1 done, 3 not done, 3 open"


def test_a_span_or_a_moment_is_read_or_refused():
    assert parse_since("8h", NOW) == NOW - 8 * HOUR
    assert parse_since("2026-03-04T01:00Z", NOW) == NOW - 4 * HOUR
    assert parse_since("2026-03-04 01:00", NOW) == NOW - 4 * HOUR
    for text in ("", "8", "1m", "32d", "2026-03-04T05:01Z", "2026-01-01", "x" * 40):
        with pytest.raises(ValueError, match="give minutes, hours or days such as"):
            parse_since(text, NOW)
    longest = NOW - timedelta(days=31)
    assert parse_since((longest - MINUTE).isoformat(), NOW) == longest
    assert bound_since(NOW - timedelta(days=99), NOW) == NOW - timedelta(days=31)
    assert bound_since(None, NOW) == NOW - timedelta(days=1)
    assert describe_span(NOW - 8 * HOUR, NOW) == "3 Mar 21:00 to 4 Mar 05:00 UTC (8 h)"


def test_as_many_statements_for_any_number_of_myses():
    counts = []
    for number in (2, 12):
        for place in range(number):
            mysis = make_mysis(name=f"M{number}-{place}")
            add_turns(mysis, timezone.now() - 9 * MINUTE, 3, 5)
            events.append_error(mysis.pk, f"Fault {place}.")
            actions.send_order(text=f"Go {place}", by=GRACE, myses=[mysis])
        with record_statements() as found:
            make_digest(timezone.now() - HOUR)
        counts.append(len(found))
    assert counts[0] == counts[1]
    assert counts[1] <= 16


def test_the_log_is_read_by_its_index():
    events.append_error(1, "x")
    # So many that each way has its price, which the server learns now and not meanwhile.
    Event.objects.bulk_create(Event(kind=Kind.TOOL_CALLED) for _ in range(3_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE agents_event")
        with CaptureQueriesContext(connection) as found:
            make_digest(timezone.now() - HOUR)
        [read] = [one["sql"] for one in found if "agents_event" in one["sql"]]
        cursor.execute(f"EXPLAIN {read}")
        assert "event_in_digest" in str(cursor.fetchall())


def test_page_and_rest_tell_the_same_and_refuse_alike(sign_in: Callable[..., Client]):
    viewer = sign_in("viewer")
    empty = viewer.get("/digest/?since=8h").content.decode()
    assert "Nothing happened since" in empty
    add_turns(make_mysis(name="Ada"), timezone.now() - 9 * MINUTE, 3, 5)
    page = viewer.get("/digest/?since=1h").content.decode()
    assert "+15 credits in 3 turns" in page
    assert '<a href="/myses/Ada/"><bdi>Ada +15</bdi></a>' in page
    # Also with an order in the span.
    actions.send_order(text="Home!", by=GRACE, myses=[Mysis.objects.get()])
    shared._results.clear()
    page = viewer.get("/digest/?since=1h").content.decode()
    assert "1 given: 1 open" in page
    told = viewer.get("/api/v1/digest?since=1h").json()
    assert told["orders"] == {"queued": 1}
    assert (told["credits"], told["turns"], told["empty"]) == (15, 3, False)
    assert told["best"][0]["name"] == "Ada"
    for path, headers in (
        ("/api/v1/digest?since=1h&format=md", {}),
        ("/api/v1/digest?since=1h", {"Accept": "text/markdown"}),
    ):
        answer = viewer.get(path, headers=headers)
        assert answer["Content-Type"].startswith("text/markdown")
        assert answer.content.decode().startswith("## Fleet, ")
        assert "“Home!” to Ada" in answer.content.decode()
    answer = viewer.get("/api/v1/digest?since=99d")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("since: give minutes, hours or days")
    refused = viewer.get("/digest/?since=99d")
    assert refused.status_code == 422
    assert "since: give minutes, hours or days" in refused.content.decode()


@pytest.mark.parametrize(
    ("module", "statement", "path"),
    [(digest, "_HAPPENED", "digest"), (yields, "_TAILS", "yield")],
)
def test_sums_that_take_too_long_are_given_up(
    sign_in: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    statement: str,
    path: str,
):
    viewer = sign_in("viewer")
    viewer.raise_request_exception = False
    monkeypatch.setattr(concurrency, "LONGEST_STATEMENT", 0.05)
    sleeps = "SELECT FROM (SELECT pg_sleep(5)::text AS slept OFFSET 0) AS one"
    monkeypatch.setattr(module, statement, f"{sleeps} WHERE slept = 'well'")
    for door in (f"/{path}/", f"/api/v1/{path}"):
        answer = viewer.get(door, {"since": "90m"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert "took too long to add up: ask for a shorter span" in str(answer.content)


def test_a_visit_is_kept_without_a_write_for_each_look(db: Any):
    user = User.objects.create_user("grace")
    look = lambda minutes: Visit.note_look(user.pk, NOW + minutes * MINUTE)  # noqa: E731
    assert look(0) is None
    with record_statements() as found:
        assert look(4) is None
    assert len(found) == 1
    assert look(20) is None
    # Half an hour after the last look another visit begins, and it lasts.
    assert look(51) == NOW + 20 * MINUTE
    assert look(52) == look(75) == NOW + 20 * MINUTE
    assert look(120) == NOW + 75 * MINUTE


def test_the_fleet_page_says_what_happened_since_the_last_visit(
    sign_in: Callable[..., Client],
):
    viewer = sign_in("viewer")
    assert 'hx-get="/digest/last-visit/"' in viewer.get("/").content.decode()
    assert viewer.get("/digest/last-visit/").content == b""
    ago = timezone.now() - 8 * HOUR
    Visit.objects.update(seen_at=ago)
    assert viewer.get("/digest/last-visit/").content == b""
    assert Visit.objects.get().since == ago
    Visit.objects.update(seen_at=ago - MINUTE)
    events.append_error(make_mysis(name="Ada").pk, "The key is wrong.")
    line = viewer.get("/digest/last-visit/").content.decode()
    minute = quote((ago - MINUTE).strftime("%Y-%m-%dT%H:%M:00.000Z"))
    link = f"/digest/?since={minute}"
    assert f'<a href="{link}">Since your last visit</a>' in line
    assert "(8 h): 1 error" in " ".join(line.split())
    # Also where it is followed late, in another visit.
    Visit.objects.update(seen_at=timezone.now() - HOUR)
    assert "The key is wrong." in viewer.get(link).content.decode()
    Visit.objects.update(since=ago - MINUTE)
    page = viewer.get(link).content.decode()
    assert "The key is wrong." in page
    assert 'aria-current="page">Last visit' in page
    Event.objects.all().delete()
