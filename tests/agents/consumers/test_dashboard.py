"""The dashboard's socket and what it sends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from agents import events
from agents import hub as agents_hub
from agents.consumers import dashboard
from agents.dashboard.live.changes import Dirty
from agents.dashboard.live.fleet_page import FleetPage
from agents.events import Kind
from agents.models import Mysis
from tests.factories import make_account, make_memory, make_mysis
from zoea import daphne
from zoea.asgi import application

ORIGIN = [(b"origin", b"http://testserver"), (b"host", b"testserver")]
Open = Callable[..., Awaitable[WebsocketCommunicator]]


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """The session of somebody who is signed in."""
    client = Client()
    client.force_login(User.objects.create_user("ann"))
    return str(client.session.session_key)


@pytest.fixture
async def opened(
    cookie: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """Opens sockets; a hub of this test's loop serves them."""
    settings.ALLOWED_HOSTS = ["testserver"]
    hub = agents_hub.Hub()
    monkeypatch.setattr(dashboard, "hub", hub)
    sockets: list[WebsocketCommunicator] = []

    async def opener(query: str = "page=fleet", session: str = cookie) -> Any:
        headers = [*ORIGIN, (b"cookie", f"sessionid={session}".encode())]
        path = f"/ws/dashboard/?{query}"
        socket = WebsocketCommunicator(application, path, headers=headers)
        accepted, _ = await socket.connect(timeout=60)
        assert accepted
        sockets.append(socket)
        return socket

    yield opener
    for socket in sockets:
        await socket.disconnect()
    await hub.close()


async def frame(socket: WebsocketCommunicator) -> str:
    """The next frame."""
    text: str = await socket.receive_from(timeout=60)
    return text


async def frame_with(socket: WebsocketCommunicator, part: str) -> str:
    """The first frame that holds a text; the ones before it do not matter."""
    while part not in (found := await frame(socket)):
        pass
    return found


@sync_to_async
def say(mysis: Mysis, text: str, **values: Any) -> int:
    """A line with its event."""
    row = make_memory(mysis, role="assistant", content=text, **values)
    events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data={})
    return row.pk


async def closed_with(socket: WebsocketCommunicator) -> int:
    """The code with which the server closes."""
    while (message := await socket.receive_output(timeout=60))["type"] == (
        "websocket.send"
    ):
        pass
    code: int = message["code"]
    return code


async def test_strangers_are_told_after_the_handshake(opened: Open):
    socket = await opened(session="nothing")
    assert await closed_with(socket) == 4401


async def test_no_secret_is_in_a_frame(opened: Open):
    await sync_to_async(make_account)(password="opensesame-4711")
    mysis = await sync_to_async(make_mysis)(name="Ada", state="running")
    first = await say(mysis, "known to the page")
    await say(mysis, "It is opensesame-4711.")
    socket = await opened(f"page=mysis&mysis={mysis.pk}&after={first}")
    assert "opensesame" not in await frame_with(socket, "It is [hidden]")
    await say(mysis, "Now pwd: hunter2 and opensesame-4711.")
    assert "opensesame" not in await frame_with(socket, "Now pwd: [hidden] and [hid")


async def test_a_page_that_is_not_there(opened: Open):
    assert await closed_with(await opened("page=mysis&mysis=999")) == 4404
    assert await closed_with(await opened("page=mysis&mysis=x")) == 4404
    assert await closed_with(await opened("page=else")) == 4404


async def test_the_first_frame_is_the_whole_page(opened: Open):
    mysis = await sync_to_async(make_mysis)(name="Ada")
    first = await frame(await opened())
    for part in ("fleet-rows", "fleet-health", "fleet-totals", "feed", "as-of"):
        assert re.search(
            rf"id=\"{part}\" data-v=\"[0-9a-f]+\" hx-swap-oob=\"innerHTML\"", first
        )
    assert f'id="m{mysis.pk}-who"' in first


async def test_only_what_changed_is_sent(opened: Open):
    ada = await sync_to_async(make_mysis)(name="Ada", state="running")
    brahe = await sync_to_async(make_mysis)(name="Brahe", state="running")
    socket = await opened()
    await frame(socket)
    await say(ada, "Mining.")
    second = await frame_with(socket, "Mining.")
    assert f'id="m{ada.pk}-said" data-v=' in second
    assert f'id="m{ada.pk}-acts"' not in second
    assert f"m{brahe.pk}-" not in second


async def test_a_frame_from_the_browser_is_ignored(opened: Open):
    mysis = await sync_to_async(make_mysis)(name="Ada", state="running")
    socket = await opened()
    await frame(socket)
    await socket.send_to(text_data='{"stop": 1}')
    await socket.send_to(bytes_data=b"\x00")
    await say(mysis, "Still talking.")
    await frame_with(socket, "Still talking.")
    await mysis.arefresh_from_db()
    assert mysis.state == "running"


async def test_events_that_come_together_share_a_frame(
    opened: Open, monkeypatch: pytest.MonkeyPatch
):
    # Longer than the hub needs to read: all of them are there at the flush.
    monkeypatch.setattr(dashboard, "SOONEST", 1.5)
    myses = [await sync_to_async(make_mysis)(name=f"M{n}") for n in range(3)]
    socket = await opened()
    await frame(socket)
    # After a quiet time it is sent at once, and what comes next waits.
    await say(myses[0], "alone")
    assert "from" not in await frame_with(socket, "alone")
    await sync_to_async(speak_at_once)(myses)
    both = await frame_with(socket, "from M0")
    assert "from M1" in both
    assert "from M2" in both


async def test_a_failing_flush_keeps_the_socket(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    mysis = await sync_to_async(make_mysis)(name="Ada", state="running")
    socket = await opened()
    await frame(socket)
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()
    real = FleetPage.draw_changes

    def broken(self: FleetPage, dirty: Dirty) -> Any:
        loop.call_soon_threadsafe(failed.set)
        raise ValueError("broken on purpose")

    monkeypatch.setattr(FleetPage, "draw_changes", broken)
    await say(mysis, "lost?")
    await asyncio.wait_for(failed.wait(), 60)
    monkeypatch.setattr(FleetPage, "draw_changes", real)
    await frame_with(socket, "lost?")
    assert "broken on purpose" in caplog.text


class Jammed(daphne.Flow):
    """A transport of which a test knows that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Event()

    async def drained(self) -> None:
        """Say so, then wait."""
        self.awaited.set()
        await super().drained()


async def test_nothing_is_sent_to_a_browser_that_does_not_read(
    opened: Open, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dashboard, "PATIENCE", 0.01)
    drawn: list[bool] = []
    real = FleetPage.draw_changes

    def counted(self: FleetPage, dirty: Dirty) -> Any:
        drawn.append(dirty.everything)
        return real(self, dirty)

    monkeypatch.setattr(FleetPage, "draw_changes", counted)
    mysis = await sync_to_async(make_mysis)(name="Ada", state="running")
    flow = Jammed()
    monkeypatch.setattr(daphne, "_current", ContextVar("flow", default=flow))
    socket = await opened()
    await frame(socket)
    flow.pauseProducing()
    await say(mysis, "while it is shut")
    await asyncio.wait_for(flow.awaited.wait(), 60)
    flow.awaited.clear()
    await asyncio.wait_for(flow.awaited.wait(), 60)
    assert drawn == []
    flow.resumeProducing()
    await frame_with(socket, "while it is shut")
    assert drawn[0]


async def test_a_viewer_that_missed_events_is_brought_up_to_date(
    opened: Open, monkeypatch: pytest.MonkeyPatch
):
    myses = [await sync_to_async(make_mysis)(name=f"M{n}") for n in range(3)]
    hub: agents_hub.Hub = getattr(dashboard, "hub")  # noqa: B009 (of this test)
    real = hub.subscribe

    async def tiny(maxsize: int = 1) -> agents_hub.Viewer:
        return await real(1)

    monkeypatch.setattr(hub, "subscribe", tiny)
    socket = await opened()
    await frame(socket)
    await sync_to_async(speak_at_once)(myses)
    # The queue had room for the first event only.
    await frame_with(socket, "from M2")


@transaction.atomic
def speak_at_once(myses: list[Mysis]) -> None:
    """One line of each, in events that reach the hub together."""
    for mysis in myses:
        make_memory(mysis, role="assistant", content=f"from {mysis.name}")
    events.append_all([(Kind.MEMORY_ADDED, mysis.pk, {}) for mysis in myses])


async def test_the_conversation_goes_on_from_where_the_page_is(opened: Open):
    mysis = await sync_to_async(make_mysis)(name="Ada", state="running")
    first = await say(mysis, "known to the page")
    await say(mysis, "written before the socket opened")
    socket = await opened(f"page=mysis&mysis={mysis.pk}&after={first}")
    begin = await frame(socket)
    assert 'hx-swap-oob="beforeend:#log"' in begin
    assert "written before the socket opened" in begin
    assert "known to the page" not in _log(begin)
    await say(mysis, "and live")
    later = await frame_with(socket, "and live")
    assert _log(later).count("and live") == 1
    assert "written before" not in _log(later)


def _log(text: str) -> str:
    found = re.search(r'<ol hx-swap-oob="beforeend:#log">(.*?)</ol>', text, re.DOTALL)
    return found[1] if found else ""


async def test_somebody_elses_events_do_not_matter_to_a_mysis_page(opened: Open):
    ada = await sync_to_async(make_mysis)(name="Ada")
    brahe = await sync_to_async(make_mysis)(name="Brahe")
    socket = await opened(f"page=mysis&mysis={ada.pk}&after=0")
    await frame(socket)
    await say(brahe, "not for this page")
    await say(ada, "for this page")
    assert "not for this page" not in await frame_with(socket, "for this page</")
