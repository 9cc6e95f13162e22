"""mine: one swing of the lasers at a deposit."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.catalogue import ITEMS
from sandbox.game.dice import dice
from sandbox.game.errors import GameError, must_undock
from sandbox.game.learning import teach
from sandbox.game.minor.missions import advance_missions
from sandbox.game.models import Player
from sandbox.game.places import Deposit
from sandbox.game.state import State


def _prepare(state: State, player: Player, arguments: Arguments) -> Intent:
    if player.docked_at:
        raise must_undock()
    power = player.ship.total("mining_power")
    if not power:
        raise GameError("no_mining_laser", "No mining laser fitted")
    deposits = [
        deposit
        for deposit in state.world.pois[player.poi_id].deposits
        if deposit.remaining
    ]
    if not deposits:
        raise _nothing_here()
    deposit = _pick(state, player, deposits)
    item = ITEMS[deposit.resource_id]
    if player.ship.cargo_free < item.size:
        raise _hold_full()
    return Intent(
        {"resource_id": item.id},
        {
            "resource_id": item.id,
            "resource_name": item.name,
            "mining_power": power,
            "message": f"Mining {item.name} with power {power}",
        },
    )


def _pick(state: State, player: Player, deposits: list[Deposit]) -> Deposit:
    """Rich deposits are met more often."""
    rng = dice(state.config.seed, state.tick, player.username, "mine")
    return rng.choices(deposits, [deposit.richness for deposit in deposits])[0]


def _finish(state: State, player: Player, arguments: Arguments) -> list[Event]:
    item = ITEMS[arguments["resource_id"]]
    poi = state.world.pois[player.poi_id]
    deposit = next(one for one in poi.deposits if one.resource_id == item.id)
    power = player.ship.total("mining_power")
    room = player.ship.cargo_free // item.size
    if not room:
        raise _hold_full()
    count = min(max(1, power * deposit.richness // 100), room, deposit.remaining)
    if not count:
        raise _nothing_here()
    deposit.remaining -= count
    state.mined[poi.id, item.id] = deposit
    player.ship.load(item.id, count)
    player.stats["ore_mined"] += count
    teach(state, player, "mining_basic", count)
    advance_missions(player, "mine_resource", item.id, count)
    return [
        Event(
            {
                "resource_id": item.id,
                "resource_name": item.name,
                "quantity": count,
                "remaining": deposit.remaining,
                "remaining_display": f"{deposit.remaining} units",
                "max_remaining": deposit.max_remaining,
                "xp_gained": count,
            },
            "mining_yield",
        )
    ]


def _nothing_here() -> GameError:
    return GameError("no_resources", "Nothing to mine here")


def _hold_full() -> GameError:
    return GameError("cargo_full", "Cargo hold is full")


MINE = Action("mine", _prepare, _finish, needs="space")
