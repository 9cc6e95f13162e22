"""What is believed of a real game is true, in both eras, whatever is played."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from django.utils import timezone
from pytest_django import Settings

from agents.db import run_in_db
from agents.game import sessions
from agents.models import Mysis
from agents.tools.chain import Toolbox, open_toolbox
from memory.gamestate.confidence import Confidence, judge_confidence
from memory.gamestate.values import find_value
from memory.snapshots import reads as snapshots_reads
from sandbox.game.testing import SandboxServer
from tests.agents.tools.hours import Hours
from tests.agents.tools.rival import Rival
from tests.long_run import few_or_many
from tests.memory.capturing import read_state_rows
from tests.sandbox.arguments import GOODS, arguments

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})
FRESH = (Confidence.FRESH, Confidence.MERGED)
BELIEVED = (*FRESH, Confidence.AGEING)
SHIP = ("ship.fuel", "ship.hull", "ship.shield", "ship.cargo_used", "ship.cargo")
OWN = {
    "get_status": (
        *SHIP, "player.credits", "player.current_system", "player.current_poi",
        "player.docked_at_base", "player.stats", "player.skills", "player.home_base",
        "player.revealed_pois", "player.is_cloaked", "player.status_message",
        "player.completed_missions", "player.towing_wreck_id", "player.faction_id",
        "player.clan_tag", "ship.id", "ship.name", "modules",
    ),
    "get_ship": (*SHIP, "ship.id", "modules"),
    "get_cargo": ("used", "available", "cargo"),
    "get_poi": ("poi.id",),
    "get_system": ("system.id",),
    "get_base": ("base.id", "base.facilities", "condition"),
    "get_skills": ("player_skills",),
    "view_storage": ("credits", "items", "ships"),
    "view_orders": ("orders",),
    "list_ships": ("ships", "active_ship_id"),
    "get_missions": ("missions",),
    "get_active_missions": ("missions",),
    "completed_missions": ("missions",),
    "get_insurance_quote": ("quote",),
    "captains_log_list": ("entries",),
    "get_notes": ("notes",),
    "faction_list": ("factions",),
    "get_queue": ("queue",),
}  # fmt: skip
"""What only the account itself changes, and what is told where others do."""

MOVING = frozenset({"ship.shield"})
"""What changes by itself: to be believed only as far as it is called fresh."""

PASSING = ("expires_in_ticks", "remaining_display", "depletion_percent")
QUIET = frozenset(
    {"ok", "mining_yield", "action_result", "action_error", "poi_arrival"}
    | {"poi_departure", "scan_result", "scan_detected", "chat_message"}
    | {"skill_level_up"}
)
"""Events that tell of the account's own actions, or of nothing that is looked at:
until they are read, what the answers said holds."""

POLL = "get_notifications"
LEFT_OUT = frozenset(
    {"register", "login", "logout", "get_map", "get_recipes", "get_commands"}
    | {"get_version", "chat", "forum_reply", "forum_create_thread"}
)
LEAST = 5
"""Facts that are compared with the truth for each call of a play."""
LOST = ("lost-answer", "502", "lost-session", "lost-transport", "429")
SHAPED = ("null-lists", "text", "sse")


def plain(value: Any) -> Any:
    """A value without what passes by itself, and without the order of a hold."""
    if isinstance(value, list):
        parts = [plain(part) for part in value]
        if all(isinstance(part, dict) and "item_id" in part for part in parts):
            kept = ("order_id", "remaining", "price_each", "quantity")
            return sorted(
                [part["item_id"], *(part.get(key) for key in kept)] for part in parts
            )
        return parts or None
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in PASSING} or None
    return value


def heard(truth: Mapping[str, Any]) -> bool:
    """Has the account heard of everything that others did to it?"""
    waiting = [item["msg_type"] for queue in truth["waiting"] for item in queue]
    return set(waiting) <= QUIET


async def wrong(sandbox: SandboxServer, acts: list[str]) -> tuple[int, list[str]]:
    """How many facts are believed, and those of them that are not true."""
    truth = sandbox.truth("Ada Nova")
    if not heard(truth):
        return 0, []
    found = await run_in_db(snapshots_reads.read_account_state, "Ada Nova")
    moment, faults, believed = found.moment, list[str](), 0
    for snapshot in found.snapshots:
        if snapshot.args or isinstance(snapshot.current, str):
            continue
        true = truth["snapshots"].get(snapshot.tool)
        if snapshot.tool == "get_skills":
            true = sandbox.answer("Ada Nova", "get_skills")
        for path in OWN.get(snapshot.tool, ()):
            if path in MOVING and moment.current_tick != truth["tick"]:
                # No answer has told yet that a tick has passed.
                continue
            level = judge_confidence(snapshot, moment, path)
            if level not in (FRESH if path in MOVING else BELIEVED):
                continue
            believed += 1
            shown, real = (
                plain(find_value(one, path)) for one in (snapshot.current, true)
            )
            if shown != real:
                what = f"{snapshot.tool} {path} is {level}"
                faults.append(f"{what}: {shown} for {real} {acts[-8:]}")
    return believed, faults


Game = tuple[Hours, SandboxServer]


class Play:
    """A captain who does anything at all, beside a rival, where much goes wrong."""

    def __init__(self, game: Game, box: Toolbox, seed: int) -> None:
        self.hours, self.sandbox = game
        self.box, sandbox = box, self.sandbox
        self.chance = random.Random(seed)  # noqa: S311
        self.acts: list[str] = []
        self.merged = self.believed = 0
        self.rival = Rival(sandbox, self.chance)
        listed = sorted(set(sandbox.game.tools) - LEFT_OUT)
        often = ["mine", "mine", "travel", *(name for name in OWN if name in listed)]
        self.names = [POLL] * 20 + often * 2 + listed

    async def on(self, steps: int, faults: tuple[str, ...] = ()) -> None:
        """Play on for some calls, and look after each at what is believed."""
        for _ in range(steps):
            name = self.chance.choice(self.names)
            if faults and self.chance.random() < 0.1:
                fault = self.chance.choice(faults)
                self.sandbox.strike_once(fault, tool=name, username="Ada Nova")
                self.acts.append(fault)
            await self._call(name, self._given(name))
            await self._look()
            if self.chance.random() < 0.15:
                self.acts.append(self.rival.act())
            if self.chance.random() < 0.4:
                self.hours.pass_tick(self.sandbox)
                self.acts.append("tick")
            await self._look()

    async def open(self) -> None:
        """Fly to the belt and mine there, with the hold and the belt in sight."""
        reads = ("get_status", "get_ship", "get_cargo", "get_poi")
        for name in ("undock", "travel", *reads, "mine", POLL, "mine", POLL):
            given = {"target_poi": "sol_belt"} if name == "travel" else {}
            await self._call(name, given)
            for _ in range(0 if name in reads else 3):
                self.hours.pass_tick(self.sandbox)
            await self._look()

    async def _look(self) -> None:
        believed, faults = await wrong(self.sandbox, self.acts)
        assert faults == []
        self.believed += believed
        rows = await run_in_db(read_state_rows, "Ada Nova")
        self.merged += sum(Confidence.MERGED in r.fields.values() for r in rows)

    def _given(self, name: str) -> dict[str, Any]:
        game, player = self.sandbox.game, self.sandbox.player("Ada Nova")
        return self.sandbox.run(
            lambda: arguments(game.tools[name], game, player, self.chance)
        )

    async def _call(self, name: str, given: Mapping[str, Any]) -> None:
        task = asyncio.create_task(self.box.call(name, json.dumps(given)))
        while not task.done():
            await asyncio.wait({task}, timeout=0.01)
            if not task.done() and self.sandbox.held:
                # The call waits for its tick.
                self.hours.pass_tick(self.sandbox)
        self.acts.append(f"{name}{'!' if task.result().is_error else ''}")


@pytest_asyncio.fixture
async def game(
    request: pytest.FixtureRequest,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Game]:
    """A game of an era, whose ticks pass with the program's own clock."""
    hours = Hours()
    with SandboxServer(era=request.param, sources=hours.sources()) as sandbox:
        settings.SPACEMOLT_MCP_URL = sandbox.url
        monkeypatch.setattr(timezone, "now", hours.now)
        yield hours, sandbox
        await sessions.get_pool().close()


async def start(game: Game, mysis: Mysis, seed: int) -> Play:
    """Ada with means enough to try whatever there is."""
    box = await open_toolbox(mysis.pk)
    await box.call("register", REGISTER)
    player = game[1].player("Ada Nova")
    player.earn(5000)
    player.ship.cargo = dict.fromkeys(("ore_iron", "ore_copper", "repair_kit"), 5)
    player.stores["sol_base"] = dict.fromkeys(GOODS, 20)
    return Play(game, box, seed)


BOTH = few_or_many(0, 1)


@pytest.mark.parametrize("game", ["A", "C"][: 1 + BOTH], indirect=True)
@pytest.mark.parametrize("seed", range(1, 2 + BOTH))
async def test_what_is_believed_is_true(game: Game, seed: int, mysis: Mysis) -> None:
    play = await start(game, mysis, seed)
    await play.open()
    assert play.merged > 0
    await play.on(70)
    assert play.believed > 70 * LEAST, "what is not looked at cannot be wrong"


@pytest.mark.parametrize("game", ["C", "A"][: 1 + BOTH], indirect=True)
@pytest.mark.parametrize("seed", range(100, 101 + BOTH))
async def test_it_is_true_as_well_where_answers_are_lost_or_odd(
    game: Game, seed: int, mysis: Mysis
) -> None:
    play = await start(game, mysis, seed)
    await play.open()
    await play.on(70, (*LOST, *SHAPED))
    assert play.believed > 70 * LEAST
