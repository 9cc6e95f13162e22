"""What the server keeps of answers that fail in the middle, or that nobody reads."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.http import HTTPChannel
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from bench.processes import Server, run_server
from zoea.daphne import LAST_WORDS, BoundedRequest

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 30
# Pieces that fit into the transport and the kernel's buffers of both sides.
BUFFERED = 40


@pytest.fixture(scope="module")
def broken(django_db_setup: None, django_db_blocker: Any) -> Iterator[Server]:
    """A server whose application fails."""
    application = "tests.zoea.broken_application:application"
    with django_db_blocker.unblock(), run_server(application=application) as started:
        yield started


def begin(server: Server, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("GET", path)
    return connection.getresponse()


def count(server: Server, what: str) -> int:
    """So many connections (this one not counted), or pieces that were made."""
    found = json.loads(begin(server, "/").read())[what]
    return int(found) - (what == "connections")


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


def forgets_all(server: Server) -> bool:
    """Daphne looks once a second, so of those that just came it may know some."""
    return count(server, "connections") <= 2


def test_what_fails_in_the_middle_ends_its_own_connection_alone(broken: Server) -> None:
    for _ in range(3):
        answer = begin(broken, "/within")
        assert answer.status == 200
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            answer.read()
        # Every one is answered as if it were the first.
        assert begin(broken, "/before").status == 500
    for _ in range(30):
        assert begin(broken, "/").status == 200
    wait_for(lambda: forgets_all(broken))


def test_sockets_that_fail_are_forgotten_as_well(broken: Server) -> None:
    for _ in range(3):
        with connect(f"{broken.socket}/within") as client:
            with pytest.raises(ConnectionClosed):
                client.recv(PATIENCE)
            assert client.close_code == 1011
        with pytest.raises(InvalidStatus):
            connect(f"{broken.socket}/before")
    wait_for(lambda: forgets_all(broken))


def test_who_does_not_read_stops_the_answer_and_is_cut_off(broken: Server) -> None:
    clients = [socket.create_connection(("127.0.0.1", broken.port)) for _ in range(3)]
    before = count(broken, "made")
    for client in clients:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_for(lambda: count(broken, "made") > before)
    wait_for(lambda: forgets_all(broken))
    assert count(broken, "made") - before < len(clients) * BUFFERED
    for client in clients:
        client.close()


def test_who_reads_is_sent_all(broken: Server) -> None:
    answer = begin(broken, "/endless")
    read = sum(len(answer.read(2**20)) for _ in range(2 * BUFFERED // 16))
    assert read == 2 * BUFFERED // 16 * 2**20
    answer.close()
    wait_for(lambda: forgets_all(broken))


class Transport(StringTransport):
    """A transport that is never asked by its client for more."""

    aborted = False

    def abortConnection(self) -> None:
        self.aborted = True

    def unregisterProducer(self) -> None:
        """As often as one likes: that of a real one minds no more than this."""


def take_request(lines: bytes) -> tuple[Any, Transport, Clock]:
    """A request that has come, its transport and its clock."""
    clock, transport = Clock(), Transport()
    channel: Any = HTTPChannel()
    channel.requestFactory, channel.callLater = BoundedRequest, clock.callLater
    server = MagicMock(server_name="", request_buffer_size=8192)
    channel.factory = SimpleNamespace(server=server, log=lambda _: None)
    channel.makeConnection(transport)
    channel.dataReceived(b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n" % lines)
    return channel.requests[0], transport, clock


def test_the_unread_end_of_a_last_answer_is_not_kept_for_ever() -> None:
    request, transport, clock = take_request(b"Connection: close\r\n")
    request.handle_reply({"type": "http.response.start", "status": 200})
    request.handle_reply({"type": "http.response.body", "body": b"x"})
    # The transport ends once all is sent.
    assert (transport.disconnecting, transport.aborted) == (True, False)
    clock.pump([LAST_WORDS, HTTPChannel.abortTimeout])
    assert transport.aborted


def test_an_answer_behind_one_that_nobody_read_waits_from_its_first_byte() -> None:
    request, _, _ = take_request(b"")
    request.channel.pauseProducing()
    request.handle_reply({"type": "http.response.start", "status": 200})
    assert not request.flow.is_open
    request.channel.resumeProducing()
    assert request.flow.is_open
