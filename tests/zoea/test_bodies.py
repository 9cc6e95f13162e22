"""Bodies are bounded before they are read, however they are sent."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIRequest

from memory.problems import Problem
from zoea import bodies, intake
from zoea.intake import BoundedRequest


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


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/api/v1/broadcasts", 2**20), ("/api/v1/context/assemble", 2**26)],
)
def test_no_more_is_read_than_the_route_takes(path: str, limit: int) -> None:
    endless = Endless()
    with pytest.raises(Problem) as refused:
        bodies.read_body(request_of(path, endless))
    assert refused.value.status == 413
    assert endless.taken == limit + 1


def test_a_body_of_just_the_limit_is_read() -> None:
    body = b"x" * bodies.MAX_BYTES
    assert bodies.read_body(request_of("/api/v1/x", io.BytesIO(body))) == body


def test_the_server_keeps_no_more_than_shows_that_there_was_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "LARGEST", 10)
    taken = BoundedRequest.__new__(BoundedRequest)
    taken.gotLength(None)
    for _ in range(5):
        taken.handleContentChunk(b"abcd")
    assert taken.content.seek(0, os.SEEK_END) == 11
    taken.content.seek(0)
    assert taken.content.read() == b"abcdabcdabc"
    taken.content.close()
