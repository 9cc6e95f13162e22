"""/metrics: numbers for Prometheus, behind a token, and nothing that is secret."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from agents import actions, events, scheduling, usage
from agents.models import Alert, ModelCall, Mysis, Turn
from bench.processes import run_server
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.statements import record_statements
from zoea import metrics, middleware
from zoea.auth import create_token


@pytest.fixture
def bearer() -> dict[str, str]:
    _, secret = create_token(name="prometheus", role="viewer")
    return {"Authorization": f"Bearer {secret}"}


def read(headers: dict[str, str] | None = None) -> Any:
    return Client().get("/metrics", headers=headers or {})


def use(mysis: Mysis, **spent: Any) -> None:
    call = make_turn(mysis).calls.create(number=1, model="pilot")
    place = usage.CallPlace(call.pk, mysis.pk, usage.today(), "", "pilot")
    usage.record_cost(place, usage.CallCost(**spent))


def values(text: str) -> dict[str, float]:
    """All samples, as Prometheus' own client reads them."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.name.startswith("zoea_")
        for sample in family.samples:
            labels = ",".join(f'{key}="{text}"' for key, text in sample.labels.items())
            name = sample.name + (f"{{{labels}}}" if labels else "")
            assert name not in found
            found[name] = sample.value
    return found


@pytest.mark.django_db
def test_strangers_get_401_unless_it_is_public(settings, bearer) -> None:
    refused = read()
    assert refused.status_code == 401
    assert set(refused.json()) == {"detail", "code"}
    assert read({"Authorization": "Bearer wrong"}).status_code == 401
    assert read(bearer).status_code == 200
    browser = Client()
    browser.force_login(User.objects.create_user("ann"))
    assert browser.get("/metrics").status_code == 200
    for client in (browser, Client(enforce_csrf_checks=True)):
        for method in ("POST", "PUT", "DELETE", "ODD"):
            other = client.generic(method, "/metrics")
            assert (other.status_code, other["Allow"]) == (405, "GET, HEAD")
            assert set(other.json()) == {"detail", "code"}
    assert browser.head("/metrics").status_code == 200
    settings.METRICS_PUBLIC = True
    assert read().status_code == 200


def test_without_the_database_it_says_so_before_prometheus_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing waits for the pool here: this test may not use the database."""
    asked: list[float] = []

    def refuse(seconds: float) -> None:
        asked.append(seconds)
        raise psycopg.OperationalError("Connection refused")

    monkeypatch.setattr(middleware, "connect_directly", refuse)
    monkeypatch.setattr(middleware, "readiness", fresh := middleware.Readiness())
    monkeypatch.setattr(metrics, "readiness", fresh)
    answer = read({"Authorization": "Bearer any"})
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert answer["Retry-After"]
    assert sum(asked) <= 5


@pytest.mark.django_db
def test_the_fleet_in_numbers(bearer) -> None:
    before = values(read(bearer).content.decode())
    ada = make_mysis(name="Ada", state="running")
    make_mysis(name="Bob", account=make_account(username="Secretive"))
    use(ada, input_tokens=70, output_tokens=7, cost=Decimal("0.25"))
    make_turn(ada, outcome="done")
    make_memory(ada, content="a word nobody may see")
    actions.send_message(mysis=ada, text="Go.", by="me")
    scheduling.schedule(ada, trigger="message")
    answer = read(bearer)
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    now = values(answer.content.decode())
    assert now['zoea_myses{state="running"}'] == 1
    assert now['zoea_myses{state="idle"}'] == 1
    assert now['zoea_tokens_total{kind="input"}'] == 70
    assert now["zoea_cost_dollars_total"] == 0.25
    assert now['zoea_jobs{status="due"}'] == 1
    assert now['zoea_snapshots{confidence="fresh"}'] == 0
    added = {name: now[name] - before[name] for name in before if "total" in name}
    assert added["zoea_memories_total"] == 2
    assert added["zoea_turns_total"] == 2
    assert added["zoea_events_total"] >= 1
    assert set(before) <= set(now)


@pytest.mark.django_db
def test_what_is_counted_stays_when_a_mysis_is_deleted(bearer) -> None:
    """A counter that falls is taken for one that began anew."""
    mysis = make_mysis(name="Ada")
    use(mysis, input_tokens=70, output_tokens=7, cost=Decimal("0.25"))
    before = values(read(bearer).content.decode())
    actions.delete_mysis(mysis=mysis, by="me")
    after = values(read(bearer).content.decode())
    for name in before:
        if "_total" in name:
            assert after[name] >= before[name], name
    assert after['zoea_tokens_total{kind="input"}'] == 70


@pytest.mark.django_db
def test_no_name_no_text_and_no_secret(bearer) -> None:
    mysis = make_mysis(name="Marlowe", account=make_account(username="Secretive"))
    make_memory(mysis, content="a word nobody may see")
    text = read(bearer).content.decode()
    for secret in (
        "Marlowe",
        "Secretive",
        "nobody may see",
        "zoea_prometheus",
        "0" * 9,
    ):
        assert secret not in text


@pytest.mark.django_db
def test_asking_walks_no_log(bearer) -> None:
    with record_statements() as texts:
        read(bearer)
    assert len(texts) < 40
    for log in ("memory_memory", "agents_modelcall", "agents_event"):
        assert not any(f'FROM "{log}"' in text for text in texts), log


@pytest.mark.django_db
def test_what_is_recent_is_found_by_an_index() -> None:
    mysis = make_mysis(name="Ada")
    old = timezone.now() - timedelta(days=2)
    Turn.objects.bulk_create(
        Turn(mysis=mysis, number=n, trigger="nudge", outcome="done")
        for n in range(3000)
    )
    Turn.objects.update(started_at=old, finished_at=old)
    first = Turn.objects.earliest("pk").pk
    ModelCall.objects.bulk_create(
        ModelCall(turn_id=first + n, number=1, model="pilot") for n in range(3000)
    )
    with connection.cursor() as cursor:
        # As two days would have written them, each in a transaction of its own.
        cursor.execute(
            "INSERT INTO agents_event (xid, kind, data, created_at) "
            "SELECT n, 'tool.called', '{}', %s FROM generate_series(1, 3000) AS n",
            [old],
        )
        cursor.execute("ANALYZE agents_turn, agents_modelcall, agents_event")
        recent: dict[str, Any] = {
            "since": timezone.now() - metrics.RECENT,
            "bounds": [1.0, 2.0],
        }
        xids = {"first": 2_999_999, "last": 3_000_000}
        for name in ("LATE", "LASTED", "ANSWERED", "CALLED", "BY_KIND"):
            cursor.execute(f"EXPLAIN {getattr(metrics, name)}", {**recent, **xids})
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Index" in plan
            assert "Seq Scan" not in plan, plan


@pytest.mark.django_db
def test_buckets_of_what_is_recent(bearer) -> None:
    ada = make_mysis(name="Ada")
    for number, (late, trigger) in enumerate(
        [(0.1, "nudge"), (0.2, "continue"), (400.0, "retry"), (9.0, "message")], start=5
    ):
        make_turn(
            ada, number=number, trigger=trigger, idle_seconds=late, outcome="done"
        )
    turn = Turn.objects.latest("pk")
    turn.calls.create(number=1, model="m", latency_ms=1500, finish_reason="stop")
    turn.calls.create(number=2, model="m")
    said: dict[str, Any] = {"ok": True, "ms": 70, "turn": turn.pk}
    for tool in ("mine", "zoea_recall", "zoea_search_memory", "zoea_note"):
        events.append(
            events.Kind.TOOL_CALLED, mysis_id=ada.pk, data={**said, "tool": tool}
        )
    events.append(
        events.Kind.TOOL_CALLED,
        mysis_id=ada.pk,
        data={**said, "tool": "dock", "ok": False},
    )
    now = values(read(bearer).content.decode())
    lateness = "zoea_turn_lateness_seconds"
    assert now[f'{lateness}_bucket{{le="0.1"}}'] == 1
    assert now[f'{lateness}_bucket{{le="0.25"}}'] == 2
    assert now[f'{lateness}_bucket{{le="300"}}'] == 2
    assert now[f'{lateness}_bucket{{le="+Inf"}}'] == now[f"{lateness}_gcount"] == 3
    assert now[f"{lateness}_gsum"] == pytest.approx(400.3)
    assert now['zoea_call_seconds_bucket{le="1"}'] == 0
    assert now['zoea_call_seconds_bucket{le="2.5"}'] == 1
    assert now['zoea_tool_seconds_bucket{le="0.1"}'] == 5
    assert now['zoea_recent_turns{outcome="done"}'] == 4
    kinds = {
        (kind, result): now[f'zoea_recent_tools{{kind="{kind}",result="{result}"}}']
        for kind in ("game", "own", "recall", "search")
        for result in ("ok", "failed")
    }
    assert {key: n for key, n in kinds.items() if n} == {
        ("game", "ok"): 1,
        ("game", "failed"): 1,
        ("own", "ok"): 1,
        ("recall", "ok"): 1,
        ("search", "ok"): 1,
    }


@pytest.mark.django_db
def test_what_is_wrong_is_counted_by_its_cause(bearer) -> None:
    ada = make_mysis(name="Ada", state="running")
    make_mysis(name="Cy", last_error="no", last_error_code="key")
    make_mysis(name="Bob", last_error="?", hold="The budget is spent.", stuck="Loop")
    actions.send_message(mysis=ada, text="Go.", by="me")
    now = timezone.now()
    Alert.objects.create(rule="fuel", mysis=ada, name="Ada", cause="f", raised_at=now)
    scheduling.schedule(ada, trigger="retry", at=now - timedelta(hours=1))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_workers (last_heartbeat) "
            "VALUES (now()), (now() - interval '1 hour')"
        )
    found = values(read(bearer).content.decode())
    assert found['zoea_myses_failing{code="key"}'] == 1
    assert found['zoea_myses_failing{code="other"}'] == 1
    assert (found["zoea_myses_held"], found["zoea_myses_stuck"]) == (1, 1)
    assert found['zoea_open_alerts{rule="fuel"}'] == 1
    assert found['zoea_open_orders{state="queued"}'] == 1
    assert found["zoea_oldest_due_job_seconds"] > 1800
    assert found['zoea_workers{state="alive"}'] == 1
    assert found['zoea_workers{state="silent"}'] == 1
    assert found["zoea_database_bytes"] > 1_000_000


@pytest.mark.django_db(transaction=True)
async def test_open_sockets_are_counted(bearer) -> None:
    with run_server() as server:
        address = f"http://127.0.0.1:{server.port}/metrics"

        def scrape() -> dict[str, float]:
            with urlopen(Request(address, headers=bearer)) as answer:
                return values(answer.read().decode())

        def sockets() -> float:
            return scrape()['zoea_sockets{kind="stream"}']

        before = await asyncio.to_thread(scrape)
        assert before['zoea_sockets{kind="stream"}'] == 0
        assert before["zoea_event_delay_seconds"] == 0
        url = f"{server.socket}/ws/v1/events"
        async with connect(url, additional_headers=bearer) as client:
            actions.create_mysis(name="Eve", by="me")
            await client.recv()
            during = await asyncio.to_thread(scrape)
            assert during['zoea_sockets{kind="stream"}'] == 1
            assert during["zoea_hub_viewers"] == 1
            assert 0 < during["zoea_event_delay_seconds"] < 3600
        async with asyncio.timeout(60):
            while await asyncio.to_thread(sockets):
                pass
    events.hinter.close()
