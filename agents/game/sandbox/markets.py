"""Station markets: one price per item and a stock that finds back to its level."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.game.sandbox.catalogue import ITEMS, Item
from agents.game.sandbox.dice import dice
from agents.game.sandbox.places import Base

_DEMAND = 4000
_CAPITAL_BASE = "sol_base"


@dataclass(slots=True)
class Shelf:
    """One item in one market: `stock` are for sale, `wanted` more would be bought.

    `asked` is what the station asks for one, `paid` what it pays for one.
    """

    asked: int
    paid: int
    usual_stock: int
    stock: int
    wanted: int = _DEMAND

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
    """What one base trades."""

    base_id: str
    shelves: dict[str, Shelf]


@dataclass(slots=True)
class Markets:
    """All markets, made when first asked for; the touched ones drift at each tick."""

    seed: int
    _markets: dict[str, Market] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)

    def at(self, base: Base) -> Market:
        market = self._markets.get(base.id)
        if market is None:
            market = _make(self.seed, base)
            self._markets[base.id] = market
        return market

    def touch(self, base_id: str) -> None:
        """Note that something was traded, so that the stock drifts back."""
        self._touched.add(base_id)

    def drift(self) -> None:
        for base_id in list(self._touched):
            shelves = self._markets[base_id].shelves.values()
            moved = [shelf.drift() for shelf in shelves]
            if not any(moved):
                self._touched.discard(base_id)

    def touched(self) -> dict[str, Market]:
        """Give the markets that differ from their usual state."""
        return {base_id: self._markets[base_id] for base_id in sorted(self._touched)}


def _make(seed: int, base: Base) -> Market:
    rng = dice(seed, "market", base.id)
    shelves: dict[str, Shelf] = {}
    for item in ITEMS.values():
        factor = 1.0 if base.id == _CAPITAL_BASE else rng.uniform(0.8, 1.3)
        asked = max(1, round(item.price * factor))
        # Made goods are bought at half their price; raw goods have one price.
        paid = asked if is_raw(item) else max(1, asked // 2)
        shelves[item.id] = Shelf(asked, paid, item.stock, item.stock)
    return Market(base.id, shelves)


def is_raw(item: Item) -> bool:
    """Is it something that is mined?"""
    return item.id.startswith(("ore_", "gas_", "ice_"))
