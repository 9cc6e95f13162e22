"""The clock of the running game."""

from __future__ import annotations

import asyncio

from sandbox.game.host import run_clock


async def test_ticks_come_until_the_clock_is_stopped() -> None:
    third = asyncio.Event()
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(len(ticks))
        if len(ticks) == 3:
            third.set()

    clock = asyncio.create_task(run_clock(0.001, tick))
    await third.wait()
    clock.cancel()
    await asyncio.gather(clock, return_exceptions=True)
    assert ticks[:3] == [0, 1, 2]


async def test_missed_ticks_are_not_made_up_for() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    late = asyncio.Event()

    def tick() -> None:
        times.append(loop.time())
        if len(times) == 1:
            # As if the machine had slept for many ticks.
            while loop.time() < times[0] + 0.05:
                pass
        if len(times) == 4:
            late.set()

    clock = asyncio.create_task(run_clock(0.005, tick))
    await late.wait()
    clock.cancel()
    await asyncio.gather(clock, return_exceptions=True)
    # Ten ticks fell into the pause; one follows at once, the next in their turn.
    assert times[3] - times[1] >= 0.005
