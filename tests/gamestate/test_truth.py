"""A fact that is not called untrue is true, in a world that keeps its own ticks.

The world below resolves actions at once (era C) or at ticks of its own phase (era
A). The store applies the rules as the program does. Nothing but the account's own
actions changes this world, so every fact must be equal to it unless its confidence
is invalidated or stale.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from memory.gamestate import clock, invalidation
from memory.gamestate.confidence import Confidence, judge_confidence
from memory.gamestate.extract import read_result
from memory.gamestate.types import Moment, Snapshot
from tests.gamestate.builders import NOW, PACE, add_mark, inherit_marks

READS = ("get_status", "get_ship", "get_cargo", "get_poi")
ACTIONS = ("buy", "mine", "travel", "refuel", "dock", "undock", "warp_drive_v9")
FACTS = {
    "get_status": (
        "player.credits", "player.current_poi", "player.docked_at_base",
        "ship.fuel", "ship.cargo_used", "ship.cargo",
    ),
    "get_ship": ("ship.fuel", "ship.cargo_used", "ship.cargo"),
    "get_cargo": ("used", "cargo"),
    "get_poi": ("poi.id", "resources"),
}  # fmt: skip


@dataclass
class World:
    """The game's truth; ``phase`` is how far into a tick the story starts."""

    era: str
    phase: float
    seconds: float = 0.0
    credits: int = 100
    fuel: int = 50
    cargo: int = 0
    left: int = 1000
    poi: int = 0
    docked: bool = False
    waiting: list[tuple[int, str]] = field(default_factory=list)

    @property
    def tick(self) -> int:
        return 1000 + int((self.phase + self.seconds) // PACE)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        due = [item for item in self.waiting if item[0] <= self.tick]
        self.waiting = [item for item in self.waiting if item[0] > self.tick]
        for _, action in due:
            self.happen(action)

    def act(self, action: str, ticks: int) -> dict[str, Any]:
        """The answer to an action, as the era gives it."""
        if self.era == "C":
            undocks = action == "mine" and self.docked
            self.happen(action)
            self.docked = self.docked and not undocks
            return {"action": action, **({"auto_undocked": True} if undocks else {})}
        after = ticks if action == "travel" else 1
        self.waiting.append((self.tick + after, action))
        arrival = {"arrival_tick": self.tick + after} if action == "travel" else {}
        return {"queued": True, **arrival}

    def happen(self, action: str) -> None:
        self.credits -= 7 * (action in ("buy", "refuel", "warp_drive_v9"))
        self.cargo += action in ("buy", "mine", "warp_drive_v9")
        self.left -= action == "mine"
        self.fuel += {"travel": -1, "refuel": 5, "warp_drive_v9": -9}.get(action, 0)
        self.poi += action in ("travel", "warp_drive_v9")
        if action in ("dock", "undock", "travel", "warp_drive_v9"):
            self.docked = action == "dock"

    def answer(self, tool: str) -> dict[str, Any]:
        hold = [{"item_id": "ore_iron", "quantity": self.cargo}]
        ship = {"fuel": self.fuel, "cargo_used": self.cargo, "cargo": hold}
        player = {"credits": self.credits, "current_poi": f"poi_{self.poi}"}
        if self.docked:
            player["docked_at_base"] = "base"
        answers: dict[str, dict[str, Any]] = {
            "get_status": {"player": player, "ship": ship},
            "get_ship": {"ship": ship, "cargo_used": self.cargo},
            "get_cargo": {"cargo": hold, "used": self.cargo},
            "get_poi": {
                "poi": {"id": f"poi_{self.poi}"},
                "resources": [{"remaining": self.left}],
            },
        }
        return answers[tool]


@dataclass
class Store:
    """The rows of one account, kept by the rules."""

    seen: clock.Sighting | None
    rows: dict[str, Snapshot] = field(default_factory=dict)

    def capture(self, tool, content, now):
        stamped = clock.choose_tick(None, self.seen, now, PACE)
        present = clock.estimate_tick(self.seen, now, PACE)
        before = self.rows[tool].stale if tool in self.rows else None
        marks = [row.stale for row in self.rows.values() if row.stale]
        under_way = inherit_marks(marks, tool, {}, present)
        joined = invalidation.join_marks(under_way, present)
        mark = invalidation.carry_mark(before, present) or joined
        self.rows[tool] = Snapshot(tool, {}, content, stamped, now, mark)

    def acted(self, action, answer, now):
        tick = clock.estimate_tick(self.seen, now, PACE)
        around = invalidation.Circumstances(current_tick=tick)
        for hit in invalidation.find_invalidations(
            action, {}, read_result(answer), around
        ):
            for tool, row in self.rows.items():
                if hit.hits(tool):
                    mark = add_mark(row.stale, hit, action, tick)
                    self.rows[tool] = Snapshot(
                        row.tool, row.args, row.content, row.tick, row.captured_at, mark
                    )


def value_at(content, path):
    for key in path.split("."):
        content = content.get(key) if isinstance(content, dict) else None
    return content


def assert_honest(world, store, now):
    moment = Moment(clock.estimate_tick(store.seen, now, PACE), now, PACE)
    for tool, row in store.rows.items():
        for path in FACTS[tool]:
            believed = judge_confidence(row, moment, path)
            if believed in (Confidence.INVALIDATED, Confidence.STALE):
                continue
            shown, true = (
                value_at(row.content, path),
                value_at(world.answer(tool), path),
            )
            assert shown == true, (
                f"{path} of {tool} is {believed} but {shown} != {true}"
            )


steps = st.lists(
    st.tuples(
        st.floats(0, 25),
        st.sampled_from((*READS, *READS, *ACTIONS, "poll")),
        st.integers(1, 4),
    ),
    max_size=25,
)


@given(st.sampled_from("AC"), st.floats(0, 9.99), steps)
@example(
    "A",
    0,
    [(0, "warp_drive_v9", 1), (0, "buy", 1), (0, "get_ship", 1), (10, "poll", 1)],
)
def test_what_is_not_called_untrue_is_true(era, phase, story):
    world = World(era, phase)
    store = Store(clock.Sighting(world.tick, NOW))
    store.capture("get_status", copy.deepcopy(world.answer("get_status")), NOW)
    for pause, step, ticks in story:
        world.wait(pause)
        now = NOW + timedelta(seconds=world.seconds)
        assert_honest(world, store, now)
        if step == "poll":
            store.seen = clock.keep_newest_sighting(store.seen, world.tick, now)
        elif step in READS:
            store.capture(step, copy.deepcopy(world.answer(step)), now)
        else:
            store.acted(step, world.act(step, ticks), now)
        assert_honest(world, store, now)


def test_a_mark_is_gone_once_the_action_has_certainly_resolved():
    """Two ticks after a queued action a new snapshot is clean again."""
    world = World("A", phase=5.0)
    store = Store(clock.Sighting(world.tick, NOW))
    store.capture("get_cargo", world.answer("get_cargo"), NOW)
    store.acted("mine", world.act("mine", 1), NOW)
    world.wait(2 * PACE)
    later = NOW + timedelta(seconds=2 * PACE)
    store.capture("get_cargo", world.answer("get_cargo"), later)
    assert store.rows["get_cargo"].stale is None
