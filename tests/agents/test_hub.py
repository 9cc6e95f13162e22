"""The hub: one listener, many viewers, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest
from channels.db import database_sync_to_async
from pytest_django import Settings

from agents import events
from agents.events import Item, Kind
from agents.hub import Hub, Row, Viewer, ViewerOverflowError, stream_after

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def hub():
    hub = Hub()
    yield hub
    await hub.close()


async def append(number: int, mysis_id: int | None = None) -> None:
    await database_sync_to_async(events.append)(
        Kind.ERROR, mysis_id=mysis_id, data={"n": number}
    )


async def take(stream: AsyncIterator[Item], count: int) -> list[int]:
    async with asyncio.timeout(60):
        return [(await anext(stream))["data"]["n"] for _ in range(count)]


async def test_the_backlog_then_live_without_gap(hub):
    for n in range(3):
        await append(n)
    viewer = await hub.subscribe()
    stream = stream_after(0, viewer)
    assert await take(stream, 3) == [0, 1, 2]
    await append(3)
    assert await take(stream, 1) == [3]
    await append(4)
    await append(5)
    assert await take(stream, 2) == [4, 5]


async def test_behind_a_pooler_it_looks_and_does_not_listen(
    hub, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A LISTEN would stay with a connection of the pooler, for whoever has it next."""
    settings.ZOEA_PGBOUNCER = True
    said: list[str] = []
    execute = psycopg.AsyncConnection.execute

    async def note(self: Any, query: Any, *args: Any) -> Any:
        said.append(str(query))
        return await execute(self, query, *args)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", note)
    viewer = await hub.subscribe()
    await append(0)
    assert (await asyncio.wait_for(viewer.next(), 60))[1]["data"] == {"n": 0}
    assert events.READ in said
    assert not [one for one in said if "LISTEN" in one]


async def test_a_client_that_comes_back_gets_the_rest_once(hub):
    for n in range(4):
        await append(n)
    first = await hub.subscribe()
    stream = stream_after(0, first)
    async with asyncio.timeout(60):
        seen = [await anext(stream) for _ in range(2)]
    hub.unsubscribe(first)
    await append(4)
    again = await hub.subscribe()
    rest = stream_after(seen[-1]["id"], again)
    assert await take(rest, 3) == [2, 3, 4]


async def test_filters(hub):
    viewer = await hub.subscribe()
    stream = stream_after(0, viewer, mysis_id=2)
    for n in range(4):
        await append(n, mysis_id=n % 2 + 1)
    assert await take(stream, 2) == [1, 3]


async def test_events_written_by_many_at_once_arrive_once_each(hub):
    viewer = await hub.subscribe()
    stream = stream_after(0, viewer)
    await asyncio.gather(*(append(n) for n in range(40)))
    assert sorted(await take(stream, 40)) == list(range(40))


async def test_a_slow_viewer_is_told_and_does_not_grow(hub):
    viewer = await hub.subscribe(maxsize=2)
    other = await hub.subscribe()
    for n in range(5):
        await append(n)
    async with asyncio.timeout(60):
        while other.queue.qsize() < 5:
            await asyncio.wait_for(other.queue.get(), 60)
            if viewer.overflowed:
                break
    assert viewer.queue.qsize() == 2
    await viewer.next()
    await viewer.next()
    with pytest.raises(ViewerOverflowError):
        await viewer.next()


def test_an_overflowed_viewer_takes_no_more():
    viewer = Viewer(events.START, 1)
    item = events.Item(id=1, kind="error", at="", mysis=None, data={})
    for n in range(3):
        viewer.offer([(events.Position(n, n), item)])
    assert viewer.overflowed
    assert viewer.queue.qsize() == 1


async def test_events_that_go_straight_keep_their_order_and_come_once(hub):
    """Some are taken at once, some wait for a reader who is busy: one order."""
    dice = random.Random(3)  # noqa: S311
    seen: list[int] = []
    end = asyncio.Event()
    straight = 0

    def take_some(items: Sequence[Item]) -> int:
        nonlocal straight
        number = dice.randint(0, len(items))
        seen.extend(item["data"]["n"] for item in items[:number])
        straight += number
        if seen and seen[-1] == 59:
            end.set()
        return number

    viewer = await hub.subscribe()

    async def read() -> None:
        async for item in stream_after(0, viewer, mysis_id=1, straight=take_some):
            seen.append(item["data"]["n"])
            await asyncio.sleep(0)
            if seen[-1] == 59:
                end.set()

    reading = asyncio.create_task(read())
    for n in range(0, 59, 2):
        await append(n, mysis_id=1)
        await append(1000, mysis_id=2)
        await append(n + 1, mysis_id=1)
    async with asyncio.timeout(60):
        await end.wait()
    reading.cancel()
    assert seen == list(range(60))
    assert 0 < straight < 60


async def test_a_viewer_that_fails_to_take_events_at_once_has_them_queued():
    def broken(rows: Sequence[Row]) -> int:
        raise RuntimeError("the transport is gone")

    viewer = Viewer(events.START, 2, straight=broken)
    item = events.Item(id=1, kind="error", at="", mysis=None, data={})
    reading = asyncio.create_task(viewer.next())
    await asyncio.sleep(0)
    viewer.offer([(events.Position(1, 1), item)])
    assert await reading == (events.Position(1, 1), item)
