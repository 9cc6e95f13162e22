"""What is believed of a real game is true, in both eras, whatever is played."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from agents.game.sandbox.testing import SandboxServer
from agents.models import Mysis
from agents.tools.chain import Toolbox, open_toolbox
from agents.tools.crossing import cross
from memory import state
from memory.gamestate.confidence import Confidence
from memory.gamestate.paths import lookup
from memory.gamestate.rows import rows

REGISTER = json.dumps({"username": "Ada Nova", "empire": "solarian"})
BELIEVED = (Confidence.FRESH, Confidence.MERGED, Confidence.AGEING)
OWN = {
    "get_status": (
        "player.credits", "player.current_system", "player.current_poi",
        "player.docked_at_base", "player.stats.ore_mined", "ship.fuel", "ship.hull",
        "ship.cargo_used", "ship.cargo",
    ),
    "get_ship": ("ship.fuel", "ship.hull", "ship.cargo_used", "ship.cargo"),
    "get_cargo": ("used", "available", "cargo"),
}  # fmt: skip
"""What only the account itself changes."""

READS = ("get_status", "get_ship", "get_cargo", "get_poi", "get_system")
POLL = "get_notifications"


def stock(value: Any) -> Any:
    """A hold without the names that only some answers give."""
    if isinstance(value, list):
        return {item["item_id"]: item["quantity"] for item in value}
    return value


def call_of(
    chance: random.Random, truth: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Something a player may do here; some of it is refused."""
    place = truth["snapshots"]["get_system"]
    system = place.get("system") or {}
    pois = [p["id"] for p in place.get("pois") or system.get("pois") or []]
    cargo = truth["snapshots"]["get_cargo"].get("cargo") or []
    held = [item["item_id"] for item in cargo] or ["ore_iron"]
    choices: list[tuple[str, dict[str, Any]]] = [
        *[(read, {}) for read in READS],
        *[(POLL, {})] * 5,
        *[("mine", {})] * 4,
        ("dock", {}),
        ("undock", {}),
        ("refuel", {}),
        ("repair", {}),
        ("sell", {"item_id": chance.choice(held), "quantity": 1}),
        ("buy", {"item_id": "ore_iron", "quantity": 2}),
        *[("travel", {"target_poi": chance.choice(pois or ["x"])})] * 2,
    ]
    return chance.choice(choices)


async def wrong(sandbox: SandboxServer, acts: list[str]) -> list[str]:
    """The facts that are believed and not true."""
    truth = sandbox.truth("Ada Nova")["snapshots"]
    found = await cross(state.account_state, "Ada Nova")
    faults = []
    for snapshot, row in zip(found.snapshots, rows(found), strict=True):
        for path in OWN.get(snapshot.tool, ()):
            level = row.fields.get(path) or row.fields.get(path.rsplit(".", 1)[0])
            if path == "player.docked_at_base" and level is None:
                level = row.fields.get("player", row.confidence)
            shown = stock(lookup(snapshot.current, path))
            true = stock(lookup(truth[snapshot.tool], path))
            if level in BELIEVED and shown != true:
                faults.append(
                    f"{snapshot.tool} {path} is {level}: {shown} for {true} {acts[-6:]}"
                )
    return faults


async def _play(
    box: Toolbox, sandbox: SandboxServer, chance: random.Random, steps: int
) -> int:
    """Play at random; returns how often something merged was looked at."""
    acts: list[str] = []
    merged, acted = 0, False
    for _ in range(steps):
        name, arguments = call_of(chance, sandbox.truth("Ada Nova"))
        if acted and name not in (*READS, POLL):
            # A second action would be held until the next tick.
            sandbox.step()
            acted = False
        answer = await box.call(name, json.dumps(arguments))
        acts.append(f"{name}{'!' if answer.is_error else ''}")
        # In era A the outcome is not told yet: until it is, the truth is the old one.
        assert await wrong(sandbox, acts) == []
        if sandbox.game.config.era == "A":
            acted = acted or name not in (*READS, POLL)
            if chance.random() < 0.6:
                sandbox.step()
                acts.append("tick")
                acted = False
        rows = await cross(state.state_rows, "Ada Nova")
        merged += sum(Confidence.MERGED in row.fields.values() for row in rows)
    return merged


@pytest.mark.parametrize("seed", range(4))
async def test_queued_actions(seed: int, settings: Settings, mysis: Mysis) -> None:
    with SandboxServer(era="A") as sandbox:
        settings.SPACEMOLT_MCP_URL = sandbox.url
        box = await open_toolbox(mysis.pk)
        await box.call("register", REGISTER)
        chance = random.Random(seed)  # noqa: S311
        merged = await _play(box, sandbox, chance, 90)
        # Some games are refusals from end to end; this one is not.
        assert merged > 0 or seed


@pytest.mark.parametrize("seed", range(2))
async def test_blocking_actions(seed: int, settings: Settings, mysis: Mysis) -> None:
    settings.ZOEA_SECONDS_PER_TICK = 0.05
    with SandboxServer(era="C", tick=0.05) as sandbox:
        settings.SPACEMOLT_MCP_URL = sandbox.url
        box = await open_toolbox(mysis.pk)
        await box.call("register", REGISTER)
        chance = random.Random(seed)  # noqa: S311
        await _play(box, sandbox, chance, 60)
