"""Frames of a server, whole and in pieces."""

from __future__ import annotations

import pytest

from bench.sockets import split_frame


def frame(payload: bytes) -> bytes:
    """A text frame of a server."""
    size = len(payload)
    if size < 126:
        return bytes([0x81, size]) + payload
    if size < 65536:
        return bytes([0x81, 126]) + size.to_bytes(2, "big") + payload
    return bytes([0x81, 127]) + size.to_bytes(8, "big") + payload


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536])
def test_frames_are_taken_whole(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    payload = payload[:size]
    both = frame(payload) + frame(b"next")
    assert split_frame(both) == (payload, frame(b"next"))
    assert split_frame(frame(payload)[:-1] if size else b"\x81") is None
