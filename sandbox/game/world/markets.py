"""Station markets: prices that change by the period, stocks that find their level."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox.game.config import make_dice
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.galaxy import Base

_DEMAND = 4000
# How long a price holds, in ticks.
PRICE_TICKS = 60
_SWING = 0.15
_TRADE_CHANCE = 0.2
_CAPITAL_BASE = "sol_base"


@dataclass(slots=True)
class Shelf:
    """One item in one market: `stock` are for sale, `wanted` more would be bought.

    `asked` is what the station asks for one, `paid` what it pays for one; `usual_price`
    is what both follow.
    """

    asked: int
    paid: int
    usual_stock: int
    stock: int
    wanted: int = _DEMAND
    usual_price: int = 0
    raw: bool = False

    def reprice(self, level: float) -> None:
        """Set both prices to a level of the usual one, 1.0 for as usual."""
        self.asked = max(1, round(self.usual_price * level))
        # Made goods are bought at half their price; raw goods have one price.
        self.paid = self.asked if self.raw else max(1, self.asked // 2)

    def drift(self) -> bool:
        """Move a twentieth of the way back; False when all is as usual."""
        self.stock += _towards(self.stock, self.usual_stock)
        self.wanted += _towards(self.wanted, _DEMAND)
        return (self.stock, self.wanted) != (self.usual_stock, _DEMAND)


def _towards(value: int, usual: int) -> int:
    gap = usual - value
    step = max(1, abs(gap) // 20) if gap else 0
    return step if gap > 0 else -step


@dataclass(slots=True)
class Market:
    """What one base trades, with the prices of one period."""

    base_id: str
    shelves: dict[str, Shelf]
    period: int = 0


@dataclass(slots=True)
class Markets:
    """All markets, made when first asked for; `tick` sets their prices."""

    seed: int
    tick: int = 0
    _markets: dict[str, Market] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)

    def at(self, base: Base) -> Market:
        market = self._markets.get(base.id)
        if market is None:
            market = self._markets[base.id] = _make(self.seed, base)
        # Every item has the price of the present period, the usual one in the first.
        period = self.tick // PRICE_TICKS
        if market.period != period:
            market.period = period
            for item_id, shelf in market.shelves.items():
                rng = make_dice(self.seed, "price", base.id, item_id, period)
                shelf.reprice(rng.uniform(1 - _SWING, 1 + _SWING))
        return market

    def touch(self, base_id: str) -> None:
        """Note that something was traded, so that the stock drifts back."""
        self._touched.add(base_id)

    def drift(self, tick: int) -> None:
        """Let a tick pass: other traders come and go, and stocks find back."""
        self.tick = tick
        for market in self._markets.values():
            self._trade(market)
        for base_id in list(self._touched):
            shelves = self._markets[base_id].shelves.values()
            moved = [shelf.drift() for shelf in shelves]
            if not any(moved):
                self._touched.discard(base_id)

    def _trade(self, market: Market) -> None:
        rng = make_dice(self.seed, "trade", market.base_id, self.tick)
        if rng.random() >= _TRADE_CHANCE:
            return
        shelf = market.shelves[rng.choice(list(market.shelves))]
        count = rng.randint(1, 20)
        if rng.random() < 0.5:
            shelf.stock -= min(count, shelf.stock)
        else:
            shelf.wanted -= min(count, shelf.wanted)
        self.touch(market.base_id)

    def touched(self) -> dict[str, Market]:
        """Give the markets that differ from their usual state."""
        return {base_id: self._markets[base_id] for base_id in sorted(self._touched)}


def _make(seed: int, base: Base) -> Market:
    rng = make_dice(seed, "market", base.id)
    shelves: dict[str, Shelf] = {}
    for item in ITEMS.values():
        factor = 1.0 if base.id == _CAPITAL_BASE else rng.uniform(0.8, 1.3)
        asked = max(1, round(item.price * factor))
        shelf = Shelf(asked, 0, item.stock, item.stock, usual_price=asked)
        shelf.raw = item.id.startswith(("ore_", "gas_", "ice_"))
        shelf.reprice(1.0)
        shelves[item.id] = shelf
    return Market(base.id, shelves)
