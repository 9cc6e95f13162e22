"""buy, sell, refuel and repair: what a station is there for."""

from __future__ import annotations

from sandbox.game.config import GameError, Json
from sandbox.game.sessions import Event
from sandbox.game.tool import GOODS, make_tool
from sandbox.game.tools.rules import (
    DOCKED,
    Action,
    Call,
    Intent,
    check_credits,
    check_room,
    read_item,
)
from sandbox.game.world.catalogue import Item
from sandbox.game.world.markets import Shelf
from sandbox.game.world.models import Player

FUEL_PRICE = 1
CELL_FUEL = 10
HULL_PRICE = 2
_NOT_SOLD = (
    "No one is selling {name} at this station. To place a standing buy order, use: "
    '{{"type": "create_buy_order", "payload": {{"item_id": "{id}", '
    '"quantity": {quantity}, "price_each": <your_price>}}}}. '
    "Credits are escrowed immediately; when a seller fills your order, "
    "items are delivered to your station storage."
)


def _read_trade(call: Call) -> tuple[Item, int, Shelf]:
    base = call.base
    item, quantity = read_item(call.given)
    return item, quantity, call.state.markets.at(base).shelves[item.id]


def _preview(verb: str, item: Item, quantity: int, price: int) -> Intent:
    arguments = {"item_id": item.id, "quantity": quantity}
    preview = {
        "item_id": item.id,
        "item": item.name,
        "quantity": quantity,
        "price_each": price,
        "message": f"{verb} {quantity} {item.name}",
    }
    return Intent(arguments, preview)


def _prepare_buy(call: Call) -> Intent:
    item, quantity, shelf = _read_trade(call)
    _check_buy(call.player, item, shelf, quantity)
    return _preview("Buying", item, quantity, shelf.asked)


def _check_buy(player: Player, item: Item, shelf: Shelf, quantity: int) -> int:
    if not shelf.stock:
        raise GameError(
            "item_not_available",
            _NOT_SOLD.format(name=item.name, id=item.id, quantity=quantity),
        )
    count = min(quantity, shelf.stock)
    check_credits(player, count * shelf.asked)
    check_room(player, {item.id: count})
    return count


def _finish_buy(call: Call) -> list[Event]:
    item, quantity, shelf = _read_trade(call)
    count = _check_buy(call.player, item, shelf, quantity)
    cost = count * shelf.asked
    shelf.stock -= count
    call.player.spend(cost)
    call.player.ship.load(item.id, count)
    data = {
        "action": "buy",
        "item": item.name,
        "item_id": item.id,
        "quantity": count,
        "total_cost": cost,
        **({"unfilled": quantity - count} if count < quantity else {}),
        "delivered_to_cargo": count,
        "fills": [_fill(count, shelf.asked)],
        **_count_trade(call, cost),
        "message": f"Bought {count} {item.name} for {cost}cr.",
    }
    return [Event(data)]


def _prepare_sell(call: Call) -> Intent:
    item, quantity, shelf = _read_trade(call)
    have = call.hold().get(item.id, 0)
    if have < quantity:
        raise GameError(
            "insufficient_items",
            f"Not enough {item.name} in cargo. "
            f"You have {have} but tried to sell {quantity}.",
        )
    return _preview("Selling", item, quantity, shelf.paid)


def _finish_sell(call: Call) -> list[Event]:
    item, quantity, shelf = _read_trade(call)
    count = min(quantity, shelf.wanted)
    earned = count * shelf.paid
    left = quantity - count
    if count:
        shelf.wanted -= count
        shelf.stock += count
        call.player.ship.load(item.id, -count)
        call.player.earn(earned)
    note = f" {left} unsold (no buyers)." if left else ""
    data = {
        "action": "sell",
        "item": item.name,
        "item_id": item.id,
        "quantity_sold": count,
        "total_earned": earned,
        **({"unsold": left} if left else {}),
        "fills": [_fill(count, shelf.paid)] if count else [],
        **_count_trade(call, earned),
        "message": f"Sold {count} {item.name} for {earned}cr.{note}",
    }
    return [Event(data)]


def _fill(count: int, price: int) -> Json:
    return {
        "quantity": count,
        "price_each": price,
        "subtotal": count * price,
        "source": "station",
    }


def _count_trade(call: Call, worth: int) -> Json:
    call.state.markets.touch(call.base.id)
    if not worth:
        return {"level_up": False}
    xp = 1 + worth // 50
    call.player.stats["trades_completed"] += 1
    return {"level_up": call.teach("trading", xp), "xp_gained": xp}


def _prepare_refuel(call: Call) -> Intent:
    player = call.player
    if player.ship.fuel == player.ship.build.fuel:
        raise GameError("fuel_full", "Fuel tank is already full")
    if player.docked_at:
        check_credits(player, FUEL_PRICE)
        source = "station"
    elif player.ship.cargo.get("fuel_cell"):
        source = "fuel_cells"
    else:
        raise GameError(
            "no_fuel_cells",
            "No fuel cells found in cargo. Buy fuel cells from a market or craft them.",
        )
    return Intent({"source": source}, {"source": source, "message": "Refueling..."})


def _finish_refuel(call: Call) -> list[Event]:
    player, ship, source = call.player, call.player.ship, call.given["source"]
    missing = ship.build.fuel - ship.fuel
    data: Json = {"action": "refuel", "source": source}
    if source == "station":
        added = min(missing, player.credits // FUEL_PRICE)
        player.spend(added * FUEL_PRICE)
        data |= {"fuel": added, "cost": added * FUEL_PRICE}
    else:
        # The last cell is used up even where less than all of it fits.
        cells = min(ship.cargo.get("fuel_cell", 0), -(-missing // CELL_FUEL))
        added = min(missing, cells * CELL_FUEL)
        ship.load("fuel_cell", -cells)
        data |= {"fuel": added, "cells_used": cells}
    ship.fuel += added
    return [Event(data | {"fuel_now": ship.fuel, "fuel_max": ship.build.fuel})]


def _prepare_repair(call: Call) -> Intent:
    _ = call.base  # refuses where there is none
    if call.player.ship.hull >= call.player.ship.build.hull:
        raise GameError("hull_full", "Hull is already at full strength")
    check_credits(call.player, HULL_PRICE)
    return Intent({}, {"message": "Repairing..."})


def _finish_repair(call: Call) -> list[Event]:
    player, ship = call.player, call.player.ship
    repaired = min(ship.build.hull - ship.hull, player.credits // HULL_PRICE)
    player.spend(repaired * HULL_PRICE)
    ship.hull += repaired
    told = {
        "action": "repair",
        "repaired": repaired,
        "cost": repaired * HULL_PRICE,
        "hull": ship.hull,
        "max_hull": ship.build.hull,
    }
    return [Event(told)]


ACTIONS = (
    Action(
        make_tool("buy", "trading", "Buy an item from the station.", *GOODS,
                  example={"item_id": "fuel_cell", "quantity": 5}, notes=DOCKED,
                  mutation=True),
        _prepare_buy, _finish_buy, needs="dock"),
    Action(
        make_tool("sell", "trading", "Sell an item from your hold to the station.",
                  *GOODS, notes=DOCKED, mutation=True),
        _prepare_sell, _finish_sell, needs="dock"),
    Action(
        make_tool("refuel", "ship", "Fill the tank.", mutation=True,
                  notes="From the station where you are docked, else from fuel cells."),
        _prepare_refuel, _finish_refuel, needs="dock"),
    Action(make_tool("repair", "ship", "Repair the hull.", notes=DOCKED, mutation=True),
           _prepare_repair, _finish_repair, needs="dock"),
)  # fmt: skip
