"""Two clocks that are apart: what is counted once, whatever lies between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.gamestate import clock
from memory.gamestate.clock import DRIFT, SAME_CLOCK, Offset
from memory.gamestate.confidence import Confidence
from memory.gamestate.merge import learn_account
from memory.gamestate.notices import Notice, read_notices, read_offset
from memory.gamestate.types import Snapshot
from tests.gamestate.builders import NOW, PACE
from tests.gamestate.merging import ME, believed, merge_events, value


@dataclass
class World:
    """A hold that fills; the game's clock is ``apart`` seconds behind ours."""

    apart: float
    phase: float
    names_ticks: bool
    now: float = 0.0
    held: int = 0
    number: int = 0
    queue: list[dict[str, Any]] = field(default_factory=list)

    def ours(self):
        return NOW + timedelta(seconds=self.now)

    def theirs(self):
        return self.ours() - timedelta(seconds=self.apart)

    @property
    def tick(self):
        return 1000 + int((self.now + self.phase) // PACE)

    def mine(self):
        self.held += 1
        self.number += 1
        named = {"tick": self.tick} if self.names_ticks else {}
        data = {"resource_id": "ore_iron", "quantity": 1, "remaining": 0, **named}
        self.queue.append({"id": str(self.number), "msg_type": "mining_yield",
                           "timestamp": self.theirs().isoformat(), "data": data})  # fmt: skip

    def hold(self):
        held = [{"item_id": "ore_iron", "quantity": self.held}] if self.held else []
        return {"cargo": held, "used": self.held}

    def poll(self):
        told, self.queue = self.queue, []
        return {"notifications": told, "current_tick": self.tick,
                "timestamp": int(self.theirs().timestamp())}  # fmt: skip


@dataclass
class Program:
    """What the store does with the answers."""

    offset: Offset | None = None
    seen: clock.Sighting | None = None
    row: Snapshot | None = None
    told: list[tuple[datetime, Notice]] = field(default_factory=list)

    def polled(self, answer, asked_at, now):
        seen = read_offset(answer, asked_at, now)
        before = self.offset.widen(now) if self.offset else None
        self.offset = before.narrow(seen) if before else seen
        self.seen = clock.keep_newest_sighting(self.seen, answer["current_tick"], now)
        tick = clock.estimate_tick(self.seen, now, PACE)
        found = read_notices(answer, now, PACE, tick, self.offset)
        self.told += [(now, notice) for notice in found]

    def read(self, content, asked_at, now):
        tick = clock.choose_tick(None, self.seen, now, PACE)
        self.row = Snapshot("get_cargo", {}, content, tick, now, asked_at=asked_at)

    def merged(self, now):
        assert self.row is not None and self.row.asked_at is not None
        asked = self.row.asked_at
        told = [n for at, n in self.told if at >= asked]  # as the store does
        tick = clock.estimate_tick(self.seen, now, PACE)
        return merge_events(self.row, told, learn_account(ME, [self.row]), tick)


steps = st.lists(
    st.tuples(
        st.sampled_from(["mine", "read", "poll", "poll"]),
        st.floats(0, 3) | st.floats(0, 0.05),  # before the call
        st.floats(0, 1) | st.floats(0, 0.02),  # on its way
        st.floats(0, 1) | st.floats(0, 0.02),  # on its way back
    ),
    max_size=25,
)


@given(
    st.floats(-90, 90) | st.floats(-1.5, 1.5), st.floats(0, 9.9), st.booleans(), steps
)
@example(
    0.5, 0.0, False, [("mine", 0.1, 0, 0), ("read", 0.1, 0, 0), ("mine", 0.1, 0, 0)]
)
@example(0.0, 0.0, False, [("mine", 0, 0, 0), ("poll", 0, 0, 0)])
def test_no_yield_counts_twice_or_is_lost_however_far_the_clocks(
    apart, phase, names_ticks, story
):
    world, program = World(apart, phase, names_ticks), Program()
    for what, before, out, back in [("read", 0, 0, 0), *story, ("poll", 0.5, 0.1, 0.1)]:
        world.now += before
        asked = world.ours()
        if what == "mine":
            world.mine()
            continue
        world.now += out
        answer = world.hold() if what == "read" else world.poll()
        world.now += back
        take = program.read if what == "read" else program.polled
        take(answer, asked, world.ours())
    found = program.merged(world.ours())
    if believed(found, "used") is not Confidence.INVALIDATED:
        assert value(found, "used") == world.held
    assert program.offset is not None
    assert program.offset.low - 1e-3 <= apart <= program.offset.high + 1e-3


def test_the_bound_gets_narrow_by_polling():
    """After forty polls two clocks are known to a tenth of a second."""
    world, program = World(0.4, 3.0, names_ticks=False), Program()
    for number in range(40):
        world.now += 2.3 + 0.017 * number
        asked = world.ours()
        world.now += 0.04
        program.polled(world.poll(), asked, world.ours())
    assert program.offset is not None
    assert program.offset.slack < 0.1
    assert program.offset.holds(0.4)


def test_a_clock_that_was_set_is_learnt_anew():
    known_so_far = Offset(0.3, 0.5, NOW)
    assert known_so_far.narrow(Offset(-5.0, -4.0, NOW)) == Offset(-5.0, -4.0, NOW)
    assert SAME_CLOCK.narrow(Offset(1.0, 2.0, NOW)) == Offset(1.0, 2.0, NOW)
    assert SAME_CLOCK.narrow(Offset(-0.2, 0.8, NOW)).slack == 0.0


def test_clocks_part_in_time():
    later = NOW + timedelta(hours=1)
    parted = Offset(0.0, 0.0, NOW).widen(later)
    assert parted.slack == pytest.approx(3600 * DRIFT)
    assert SAME_CLOCK.widen(later) == SAME_CLOCK
