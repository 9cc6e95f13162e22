"""Two web servers and three workers on one database: what both show is the same."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from agents import actions, events
from agents.events import Kind
from agents.models import Mysis, Turn
from bench.processes import Server, run_server
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.workers import Workers
from zoea.auth import create_token

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS, MYSES, TURNS = 3, 6, 12
SOON, LONG, TICK = 60.0, 240.0, 0.5
END = "the end of the flight"
CELL = re.compile(r'id="(m\d+-(?:who|acts|context))" data-v="(\w+)"')


@asynccontextmanager
async def both(
    webs: list[Server], path: str, **headers: str
) -> AsyncIterator[list[ClientConnection]]:
    """A socket to the same path of each web server."""
    sockets = [
        await connect(
            f"{web.socket}{path}",
            additional_headers=headers,
            origin=Origin(web.origin),
            max_size=None,
        )
        for web in webs
    ]
    try:
        yield sockets
    finally:
        for each in sockets:
            await each.close()


class Reader:
    """What one socket has said so far; it reads all the time, as a browser does."""

    def __init__(self, socket: ClientConnection) -> None:
        self.frames: list[str] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read(socket))

    async def _read(self, socket: ClientConnection) -> None:
        async for frame in socket:
            self.frames.append(str(frame))
            self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for frames until something holds of them."""
        async with asyncio.timeout(SOON):
            while not holds():
                self._news.clear()
                await self._news.wait()

    def items(self) -> list[dict[str, Any]]:
        """The frames of an event stream."""
        return [json.loads(frame) for frame in self.frames]

    def has(self, text: str) -> bool:
        return any(text in frame for frame in reversed(self.frames))

    def cells(self) -> dict[str, str]:
        """What a dashboard shows in the end, each cell by the version of its inside."""
        return {name: v for frame in self.frames for name, v in CELL.findall(frame)}


def fly() -> None:
    """Start some Myses of the pilot."""
    for number in range(MYSES):
        mysis = actions.create_mysis(name=f"M{number}", by="test")
        actions.start_mysis(mysis=mysis, by="test")


def finished() -> int:
    return Turn.objects.filter(outcome__isnull=False).count()


def rest() -> None:
    for mysis in Mysis.objects.all():
        actions.stop_mysis(mysis=mysis, by="test")


def heartbeats() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_workers")
        found: int = cursor.fetchone()[0]
    return found


async def wait_for(holds: Callable[[], bool]) -> None:
    """Wait for what other processes do on their own time."""
    async with asyncio.timeout(LONG):
        while not holds():  # noqa: ASYNC110 (it is in the database)
            await asyncio.sleep(0.1)


async def test_sockets_of_two_web_servers_are_in_step(tmp_path: Path) -> None:
    token = create_token(name="program", role="viewer")[1]
    browser = Client()
    browser.force_login(User.objects.create_user("ann"))
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    with ExitStack() as stack:
        sandbox = stack.enter_context(SandboxServer(tick=TICK))
        game = {"SPACEMOLT_MCP_URL": sandbox.url, "ZOEA_SECONDS_PER_TICK": str(TICK)}
        webs = [stack.enter_context(run_server(at=0, **game)) for _ in range(2)]
        workers = stack.enter_context(Workers(tmp_path, sandbox.url, TICK))
        for _ in range(WORKERS):
            workers.start()
        stream = both(webs, "/ws/v1/events?after=0", Authorization=f"Bearer {token}")
        pages = both(webs, "/ws/dashboard/?page=fleet", Cookie=cookie)
        async with stream as streams, pages as dashboards:
            heard = [Reader(each) for each in streams]
            shown = [Reader(each) for each in dashboards]
            fly()
            await wait_for(lambda: finished() >= TURNS and heartbeats() >= WORKERS)
            rest()
            await wait_for(lambda: not Turn.objects.filter(outcome=None).exists())
            events.append(Kind.ERROR, data={"detail": END})
            for each in heard:
                await each.until(partial(each.has, END))
            for each in shown:
                await each.until(lambda: shown[0].cells() == shown[1].cells())
    seen = [each.items() for each in heard]
    log = [item["id"] for item in events.read_after(0, limit=100_000)]
    # After the end one of them may have heard more of what grew old.
    common = min(map(len, seen))
    assert any(item["data"].get("detail") == END for item in seen[0][:common])
    assert [item["id"] for item in seen[0][:common]] == log[:common]
    assert seen[0][:common] == seen[1][:common]
    cells = shown[0].cells()
    assert len(cells) == 3 * MYSES
    assert shown[1].cells() == cells
    events.hinter.close()
