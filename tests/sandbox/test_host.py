"""What runs around a game."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandbox.game.host import Host, HostOptions, format_url, open_listener
from tests.sandbox.captains import Captain, make_game


async def test_a_clock_that_fails_ends_the_serving_but_not_the_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = make_game()
    Captain(game, "Survivor")
    path = tmp_path / "world.json"

    def fail() -> int:
        raise RuntimeError("no more ticks")

    monkeypatch.setattr(game, "step", fail)
    host = Host(game, HostOptions(tick_seconds=0.001, state_file=path))
    with (
        open_listener("127.0.0.1", 0) as listener,
        pytest.raises(RuntimeError, match="no more"),
    ):
        async with asyncio.timeout(60):
            await host.serve(listener, lambda: None)
    assert b"Survivor" in path.read_bytes()


async def test_a_host_that_is_stopped_before_it_serves_ends_at_once() -> None:
    host = Host(make_game(), HostOptions())
    host.stop()
    with open_listener("127.0.0.1", 0) as listener:
        async with asyncio.timeout(60):
            await host.serve(listener, lambda: None)


def test_an_address_is_shown_as_a_url() -> None:
    with open_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert format_url(listener) == f"http://127.0.0.1:{port}/mcp"
        with pytest.raises(OSError, match="in use"):
            open_listener("127.0.0.1", port)
