"""Which threads answer requests, and for how long they live."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.http import JsonResponse

from zoea import middleware
from zoea.asgi import application


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The thread of each answer to a probe."""
    threads: list[threading.Thread] = []

    def answer(*args: Any, **kwargs: Any) -> JsonResponse:
        threads.append(threading.current_thread())
        return JsonResponse(*args, **kwargs)

    monkeypatch.setattr(middleware, "JsonResponse", answer)
    return threads


async def probe() -> int:
    """The status of an answer to GET /healthz."""
    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
    client = ApplicationCommunicator(application, {**scope, "query_string": b""})
    await client.send_input({"type": "http.request", "body": b""})
    start = await client.receive_output()
    await client.receive_output()
    await client.wait()
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
        together.wait(timeout=60)
        return JsonResponse(*args, **kwargs)

    monkeypatch.setattr(middleware, "JsonResponse", wait_and_answer)

    async def ask_both() -> list[int]:
        return list(await asyncio.gather(probe(), probe()))

    # Neither would be answered if one had to wait for the other.
    assert asyncio.run(ask_both()) == [200, 200]
