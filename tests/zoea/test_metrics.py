"""/metrics: numbers for Prometheus, behind a token, and nothing that is secret."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.contrib.auth.models import User
from django.test import Client
from websockets.asyncio.client import connect

from agents import actions, events, scheduling, usage
from agents.models import Mysis
from bench.processes import run_server
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.statements import record_statements
from zoea.auth import create_token

LINE = re.compile(r'zoea_[a-z_]+(\{[a-z]+="[a-z_]+"\})? -?[0-9.]+(e-?\d+)?')


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
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines), lines
    return {name: float(value) for name, value in (one.split(" ") for one in lines)}


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
    assert len(texts) < 20
    for log in ("memory_memory", "agents_turn", "agents_modelcall", "agents_event"):
        assert not any(f'FROM "{log}"' in text for text in texts), log


@pytest.mark.django_db(transaction=True)
async def test_open_sockets_are_counted(bearer) -> None:
    with run_server() as server:
        address = f"http://127.0.0.1:{server.port}/metrics"

        def sockets() -> float:
            with urlopen(Request(address, headers=bearer)) as answer:
                return values(answer.read().decode())['zoea_sockets{kind="stream"}']

        assert await asyncio.to_thread(sockets) == 0
        url = f"{server.socket}/ws/v1/events"
        async with connect(url, additional_headers=bearer) as client:
            actions.create_mysis(name="Eve", by="me")
            await client.recv()
            assert await asyncio.to_thread(sockets) == 1
        async with asyncio.timeout(20):
            while await asyncio.to_thread(sockets):
                pass
    events.hinter.close()
