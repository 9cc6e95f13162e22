"""The browser lives as long as the process, and leaves its event loops to others."""

from __future__ import annotations

import asyncio


def test_between_tests_in_the_browser_no_event_loop_runs(chromium: object) -> None:
    async def answer() -> int:
        return 42

    assert asyncio.run(answer()) == 42
