"""Bodies are bounded before they are read, however they are sent."""

from __future__ import annotations

import io
import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIRequest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.testing import StringTransport
from twisted.web.http import HTTPChannel

from memory import json_bounds
from memory.concurrency import ConcurrencyLimit
from memory.json_bounds import JsonBounds
from memory.problems import Problem
from zoea import daphne, rate_limits
from zoea.api import gate
from zoea.api.gate import MAX_BYTES
from zoea.daphne import BoundedRequest
from zoea.models import Role


class Endless(io.RawIOBase):
    """Bytes without end; it counts what was taken."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "read without a bound"
        self.taken += size
        return b" " * size


def request_of(path: str, body: Any) -> ASGIRequest:
    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    return ASGIRequest(scope, body)


ASSEMBLE = "/api/v1/context/assemble"


def read(path: str, role: Role, stream: Any) -> bytes:
    """The body as the gate reads it."""
    with gate.read_body(request_of(path, stream), role) as body:
        return body


@pytest.mark.parametrize(
    ("path", "role", "limit"),
    [
        ("/api/v1/broadcasts", Role.ADMIN, 2**20),
        (ASSEMBLE, Role.VIEWER, 2**20),
        (ASSEMBLE, Role.OPERATOR, 2**26),
        (ASSEMBLE, Role.ADMIN, 2**26),
    ],
)
def test_no_more_is_read_than_the_route_takes(
    path: str, role: Role, limit: int
) -> None:
    endless = Endless()
    with pytest.raises(Problem) as refused:
        read(path, role, endless)
    assert refused.value.status == 413
    assert endless.taken == limit + 1


def test_a_body_of_just_the_limit_is_read() -> None:
    body = b"x" * gate.MAX_BYTES
    assert read("/api/v1/x", Role.VIEWER, io.BytesIO(body)) == body


def test_a_viewer_is_told_who_may_send_more() -> None:
    with pytest.raises(Problem, match=r"1,048,576 .* operator or admin.* 67,108,864"):
        read(ASSEMBLE, Role.VIEWER, io.BytesIO(b" " * 2**21))


def test_large_bodies_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    places = ConcurrencyLimit(
        1, seconds=0.01, refusal="Another one is being worked on."
    )
    monkeypatch.setattr(rate_limits, "large_bodies", places)
    large = b" " * (2**20 + 1)
    with places.taken():
        with pytest.raises(Problem, match=r"worked on\. Try again in 5 s") as refused:
            read(ASSEMBLE, Role.ADMIN, io.BytesIO(large))
        assert refused.value.status == 503
        assert refused.value.headers == {"Retry-After": "5"}
        assert read(ASSEMBLE, Role.ADMIN, io.BytesIO(b" ")) == b" "
    assert read(ASSEMBLE, Role.ADMIN, io.BytesIO(large)) == large


def test_histories_of_any_size_have_few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes far more memory than its bytes, and a viewer may send them too."""
    places = ConcurrencyLimit(2, seconds=0.01, refusal="Others are being worked on.")
    monkeypatch.setattr(rate_limits, "histories", places)
    with ExitStack() as stack:
        for _ in range(2):
            request = request_of(ASSEMBLE, io.BytesIO(b"{}"))
            stack.enter_context(gate.read_body(request, Role.VIEWER))
        for path in (ASSEMBLE, f"{ASSEMBLE}/"):
            with pytest.raises(
                Problem, match=r"worked on\. Try again in 5 s"
            ) as refused:
                read(path, Role.VIEWER, io.BytesIO(b"{}"))
            assert refused.value.status == 503
        assert read("/api/v1/broadcasts", Role.ADMIN, io.BytesIO(b"{}")) == b"{}"
    assert read(ASSEMBLE, Role.VIEWER, io.BytesIO(b"{}")) == b"{}"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"[" + b"[]," * 50_000 + b"1]", "50,000 lists and objects"),
        (b"[" + b"[]," * 400_000, "200,000 lists and objects"),
        (b'{"messages":[' + b'{"a":1},' * 150_000, "100,000 messages"),
        (b"[" + b"100," * 3_000_000, "2,000,000 names and values"),
        (b"[" + b'"",' * 3_000_000, "2,000,000 names and values"),
    ],
)
def test_too_much_in_a_body_is_refused_before_it_is_parsed(
    body: bytes, what: str
) -> None:
    with pytest.raises(Problem, match=f"more than {what}: send fewer") as refused:
        gate.check_counts(body)
    assert (refused.value.status, refused.value.code) == (413, "too_large")


def test_a_deep_body_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Problem, match="nested deeper than 64 levels") as refused:
        gate.check_counts(b"[" * 100_000)
    assert refused.value.status == 400
    gate.check_counts(b"[" + b"[" * 63 + b"{},[]," * 24_000)


@pytest.mark.parametrize(
    "text",
    [b"{},[" * 200_000, b'\\"{},' * 200_000, b"\\\\" * 300_000 + b"{" * 90_000],
)
def test_what_stands_in_a_text_does_not_count(text: bytes) -> None:
    gate.check_counts(b'{"messages": [{"content": "' + text + b'"}]}')


def test_signs_between_values_are_read_over_at_once() -> None:
    """Not one by one, each with a search of its own."""
    tokens = json_bounds._TOKEN.finditer(b"[" + b"," * 1_000 + b" :" * 1_000 + b"1]")
    assert [token[1] for token in tokens] == [b"[", b"1", b"]", b""]
    signs = b",: \n" * 250_000
    assert (found := json_bounds._TOKEN.match(signs)) is not None
    assert found.end() == len(signs)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\[{,}]')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
)


@given(VALUES, st.integers(1, 20))
def test_containers_are_counted_as_they_are(value: Any, most: int) -> None:
    bounds = JsonBounds(containers=most, messages=most, values=1_000)
    if containers_in(value) > most:
        with pytest.raises(Problem):
            gate.check_counts(json.dumps(value).encode(), bounds)
    else:
        gate.check_counts(json.dumps(value).encode(), bounds)


def containers_in(value: Any) -> int:
    """How many lists and objects there are in a value, itself counted."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + sum(containers_in(each) for each in inner)


def test_the_server_keeps_no_more_than_shows_that_there_was_more() -> None:
    taken = BoundedRequest.__new__(BoundedRequest)
    taken.content = io.BytesIO()
    taken.room = 11
    for _ in range(5):
        taken.handleContentChunk(b"abcd")
    assert taken.content.getvalue() == b"abcdabcdabc"


@pytest.mark.parametrize(
    ("target", "header", "limit"),
    [
        (b"/api/v1/context/assemble", b"Authorization: Bearer zoea_x", 2**26),
        (b"/api/v1/context/assemble", b"Authorization: Bearer x", 2**20),
        (b"/api/v1/context/assemble", b"Cookie: csrftoken=x; other=sessionid", 2**20),
        (b"/api/v1/context/%61ssemble?a=b", b"Cookie: sessionid=x", 2**26),
        (b"/api/v1/context/assemble", b"X-Other: x", 2**20),
        (b"/api/v1/broadcasts", b"Authorization: Bearer zoea_x", 2**20),
        (b"/sign-in/", b"Cookie: sessionid=x", 2**20),
    ],
)
def test_the_server_stores_what_the_route_takes(
    target: bytes, header: bytes, limit: int
) -> None:
    """Before anybody looks at it, so a stranger gets no room for a history."""
    assert begin_upload(target, header).room == limit + 1


def begin_upload(target: bytes, header: bytes) -> BoundedRequest:
    """A request of which the headers have come."""
    channel = HTTPChannel()
    channel.requestFactory = BoundedRequest
    channel.factory = SimpleNamespace(server=Connections())
    channel.makeConnection(StringTransport())
    channel.dataReceived(
        b"POST %b HTTP/1.1\r\nHost: x\r\n%b\r\nContent-Length: 99999999\r\n\r\n"
        % (target, header)
    )
    channel.setTimeout(None)
    begun: BoundedRequest = channel.requests[0]
    return begun


def test_few_large_bodies_are_received_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of guessed tokens; one that takes long makes way for the next."""
    monkeypatch.setattr(daphne, "rooms", daphne.LargeRooms())
    sent = [
        begin_upload(ASSEMBLE.encode(), b"Authorization: Bearer zoea_x")
        for _ in range(daphne.LARGE_ROOMS + 2)
    ]
    first, *others, late, latest = sent
    for each in (first, *others, late):
        for _ in range(3):
            each.handleContentChunk(b"x" * MAX_BYTES)
    assert {each.stored for each in (first, *others)} == {3 * MAX_BYTES}
    assert late.stored == len(read_all(late)) == MAX_BYTES + 1
    assert late.requestHeaders.hasHeader(gate.NO_ROOM)
    monkeypatch.setattr(daphne, "LONGEST_UPLOAD", -1)
    latest.handleContentChunk(b"x" * 2 * MAX_BYTES)
    first.handleContentChunk(b"x")
    assert latest.stored == 2 * MAX_BYTES
    assert len(read_all(first)) == MAX_BYTES + 1
    assert first.requestHeaders.hasHeader(gate.NO_ROOM)
    for each in sent:
        each.connectionLost(None)
    assert daphne.rooms.take(begin_upload(b"/", b"X-Other: x"))


def read_all(request: BoundedRequest) -> bytes:
    """What is stored of a request's body."""
    request.content.seek(0)
    stored: bytes = request.content.read()
    return stored


def test_a_large_body_without_room_is_asked_to_come_again() -> None:
    request = request_of(ASSEMBLE, io.BytesIO(b"x" * (MAX_BYTES + 1)))
    request.META["HTTP_X_ZOEA_NO_ROOM"] = "1"
    with (
        pytest.raises(Problem, match="Another large body") as refused,
        gate.read_body(request, Role.OPERATOR),
    ):
        raise AssertionError
    assert refused.value.status == 503


class Connections:
    """Whom Daphne tells of its requests."""

    def protocol_connected(self, protocol: object) -> None:
        """One more."""

    def protocol_disconnected(self, protocol: object) -> None:
        """One less."""
