"""How long a socket stays open: as long as its caller is who opened it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents import hub as agents_hub
from agents.consumers import dashboard, event_stream
from zoea import websockets
from zoea.asgi import application
from zoea.auth import create_token, hash_secret
from zoea.models import ApiToken
from zoea.websockets import CallerKey, find_callers

pytestmark = pytest.mark.django_db(transaction=True)

HOST = [(b"origin", b"http://testserver"), (b"host", b"testserver")]
SOCKETS = ("/ws/v1/events", "/ws/dashboard/?page=fleet")
PATIENCE = 60
Open = Callable[..., Awaitable[WebsocketCommunicator]]


@pytest.fixture
async def opened(settings: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Opens sockets whose callers are checked all the time."""
    settings.ALLOWED_HOSTS = ["testserver"]
    hub = agents_hub.Hub()
    for consumer in (dashboard, event_stream):
        monkeypatch.setattr(consumer, "hub", hub)
    monkeypatch.setattr(websockets, "RECHECK", 0.05)
    sockets: list[WebsocketCommunicator] = []

    async def opener(path: str, session: str = "", token: str = "") -> Any:
        headers = [*HOST, (b"cookie", f"sessionid={session}".encode())]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        socket = WebsocketCommunicator(application, path, headers=headers)
        accepted, _ = await socket.connect(timeout=PATIENCE)
        assert accepted
        sockets.append(socket)
        return socket

    yield opener
    for socket in sockets:
        await socket.disconnect()
    await hub.close()


@sync_to_async
def sign_in(name: str) -> str:
    client = Client()
    client.force_login(User.objects.create_user(name, password="old"))
    return str(client.session.session_key)


async def closing(socket: WebsocketCommunicator) -> tuple[int, str]:
    """The code and reason with which the server closes; frames do not matter."""
    while (message := await socket.receive_output(timeout=PATIENCE))["type"] == (
        "websocket.send"
    ):
        pass
    return message["code"], message.get("reason") or ""


def is_closed(socket: WebsocketCommunicator) -> bool:
    """Whether the server has closed it; reads what it sent."""
    sent = [
        socket.output_queue.get_nowait() for _ in range(socket.output_queue.qsize())
    ]
    return any(message["type"] == "websocket.close" for message in sent)


def change_password(user: User) -> None:
    user.set_password("new")
    user.save()


def deactivate(user: User) -> None:
    user.is_active = False
    user.save()


def make_operator(user: User) -> None:
    user.is_staff = True
    user.save()


def end_session(user: User) -> None:
    Session.objects.get(session_key=user.first_name).delete()


def expire_session(user: User) -> None:
    over = timezone.now() - timedelta(seconds=1)
    Session.objects.filter(session_key=user.first_name).update(expire_date=over)


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(
    "change",
    [
        change_password,
        deactivate,
        make_operator,
        end_session,
        expire_session,
        User.delete,
    ],
)
async def test_a_socket_ends_with_what_its_session_was(
    opened: Open, path: str, change: Callable[[User], Any]
) -> None:
    ended, kept = [await sign_in(name) for name in ("ann", "bob")]
    socket, other = [await opened(path, key) for key in (ended, kept)]
    ann = await User.objects.aget(username="ann")
    # Where those who end it find the key.
    ann.first_name = ended
    await sync_to_async(change)(ann)
    code, reason = await closing(socket)
    # A page takes 4401 for the sign that nobody is signed in any more.
    changed = change is make_operator
    assert (code, "ended" in reason) == (4409 if changed else 4401, not changed)
    assert not is_closed(other)


def revoke(token: ApiToken) -> None:
    token.revoked_at = timezone.now()
    token.save()


def expire(token: ApiToken) -> None:
    token.expires_at = timezone.now()
    token.save()


def promote(token: ApiToken) -> None:
    token.role = "operator"
    token.save()


@pytest.mark.parametrize("change", [revoke, expire, promote, ApiToken.delete])
async def test_a_socket_ends_with_what_its_token_was(
    opened: Open, change: Callable[[ApiToken], Any]
) -> None:
    token, secret = await sync_to_async(create_token)(name="ci", role="viewer")
    _, other = await sync_to_async(create_token)(name="other", role="viewer")
    socket, kept = [await opened(SOCKETS[0], token=one) for one in (secret, other)]
    await sync_to_async(change)(token)
    code = 4409 if change is promote else 4401
    assert (await closing(socket))[0] == code
    assert not is_closed(kept)


async def test_a_session_beside_a_wrong_token_opens_no_dashboard(opened: Open) -> None:
    key = await sign_in("ann")
    socket = await opened(SOCKETS[1], key, token="wrong")
    assert (await closing(socket))[0] == 4401


async def test_no_socket_waits_for_the_page_of_another(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = threading.Event()

    def draw_slowly(query: bytes) -> None:
        drawn.wait(PATIENCE)

    monkeypatch.setattr(dashboard, "make_page", draw_slowly)
    key = await sign_in("ann")
    slow = await opened(SOCKETS[1], key)
    other = await opened(SOCKETS[0], key)
    await sync_to_async(User.objects.all().delete)()
    assert (await closing(other))[0] == 4401
    assert not drawn.is_set()
    drawn.set()
    assert (await closing(slow))[0] in (4401, 4404)


def test_what_was_taken_away_ends_before_long() -> None:
    """docs/api.md promises twenty seconds."""
    assert websockets.RECHECK <= 10


def test_many_callers_are_found_by_three_statements(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    keys = set()
    for number in range(5):
        secret = create_token(name=f"program {number}", role="viewer")[1]
        client = Client()
        client.force_login(User.objects.create_user(f"user {number}"))
        keys |= {
            CallerKey(True, hash_secret(secret)),
            CallerKey(False, str(client.session.session_key)),
        }
    with django_assert_num_queries(3):
        assert find_callers(keys | {CallerKey(False, "unknown")}).keys() == keys
