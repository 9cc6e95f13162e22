"""Which threads answer requests, and for how long they live."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.signals import request_finished
from django.db import connections
from django.http import JsonResponse

from zoea import asgi, middleware
from zoea.asgi import application

PATIENCE = 60


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The thread of each answer to a probe."""
    threads: list[threading.Thread] = []

    def answer(*args: Any, **kwargs: Any) -> JsonResponse:
        threads.append(threading.current_thread())
        return JsonResponse(*args, **kwargs)

    monkeypatch.setattr(middleware, "JsonResponse", answer)
    return threads


async def ask() -> ApplicationCommunicator:
    """A client that has sent GET /healthz."""
    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
    client = ApplicationCommunicator(application, {**scope, "query_string": b""})
    await client.send_input({"type": "http.request", "body": b""})
    return client


async def probe() -> int:
    """The status of an answer to GET /healthz."""
    client = await ask()
    start = await client.receive_output(PATIENCE)
    await client.receive_output(PATIENCE)
    await client.wait(PATIENCE)
    status: int = start["status"]
    return status


def test_a_thread_goes_on_to_the_next_request(
    answering: list[threading.Thread],
) -> None:
    async def ask_twice() -> list[int]:
        return [await probe(), await probe()]

    assert asyncio.run(ask_twice()) == [200, 200]
    first, second = answering
    assert first is second
    assert first is not threading.main_thread()


def test_requests_at_the_same_time_have_a_thread_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = threading.Barrier(2)

    def wait_and_answer(*args: Any, **kwargs: Any) -> JsonResponse:
        together.wait(timeout=PATIENCE)
        return JsonResponse(*args, **kwargs)

    monkeypatch.setattr(middleware, "JsonResponse", wait_and_answer)

    async def ask_both() -> list[int]:
        return list(await asyncio.gather(probe(), probe()))

    # Neither would be answered if one had to wait for the other.
    assert asyncio.run(ask_both()) == [200, 200]


def test_no_more_threads_are_kept_than_can_use_the_database(
    answering: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "KEPT_THREADS", 0)
    assert asyncio.run(probe()) == 200
    for thread in answering:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("left", [True, False], ids=["left before", "only cut off"])
def test_a_request_that_is_cut_off_gives_back_its_connection(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    """Daphne cancels what goes on for long after its client has left."""
    working, gate = threading.Event(), threading.Event()
    found: list[tuple[threading.Thread, Any]] = []

    def query_and_wait(*args: Any, **kwargs: Any) -> JsonResponse:
        connections["default"].ensure_connection()
        found.append((threading.current_thread(), connections["default"]))
        working.set()
        assert gate.wait(PATIENCE)
        return JsonResponse(*args, **kwargs)

    monkeypatch.setattr(middleware, "JsonResponse", query_and_wait)

    async def ask_and_cut_off() -> None:
        finished = asyncio.Event()

        async def finish(**_: Any) -> None:
            finished.set()

        request_finished.connect(finish)
        client = await ask()
        assert await asyncio.to_thread(working.wait, PATIENCE)
        if left:
            await client.send_input({"type": "http.disconnect"})
            await asyncio.wait_for(finished.wait(), PATIENCE)
        client.future.cancel()
        await asyncio.gather(client.future, return_exceptions=True)
        gate.set()

    asyncio.run(ask_and_cut_off())
    [(thread, used)] = found
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert used.connection is None
