"""The form of a row: what a minor action needs, costs, moves, changes and teaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sandbox.game.actions.action import (
    Action,
    Arguments,
    Call,
    Intent,
    base_of,
    check_credits,
    check_room,
    named_item,
    teach,
)
from sandbox.game.config import GameError, must_undock
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.tool import ITEM, QUANTITY, Parameter, Tool, text
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Job, Player
from sandbox.game.world.places import Base

Json = dict[str, Any]
Goods = dict[str, int]
DOCK, SPACE = "dock", "space"
DOCKED = "You must be docked."


class Takes(NamedTuple):
    """The parameters of a tool, and the example that its refusals give."""

    parameters: tuple[Parameter, ...] = ()
    example: Json = {}


def one(name: str, description: str, example: str = "") -> Takes:
    """Take one text, most often an id."""
    return Takes((text(name, description),), {name: example or name})


NOTHING = Takes()
GOODS = Takes((ITEM, QUANTITY), {"item_id": "ore_iron", "quantity": 10})


@dataclass(slots=True)
class Deed:
    """One captain's action; `thing` is what the row's `names` has found for it."""

    state: State
    player: Player
    given: Arguments
    thing: Any = None

    @property
    def base(self) -> Base:
        """Where the captain is docked. Raises GameError `not_docked`."""
        return base_of(self.state, self.player)

    @property
    def count(self) -> int:
        return int(self.given.get("count", 1))

    def later(self, ticks: int, kind: str, subject: str, count: int = 1) -> None:
        """Let something happen to the captain, or to what is his, after some ticks."""
        where = self.player.docked_at or ""
        job = Job("", kind, self.player.id, where, subject, count)
        self.state.schedule(job, ticks)

    def tell(self, player: Player, kind: str, category: str, data: Json) -> None:
        self.state.tell_event(player, Event(data, kind, category))

    def tell_others(self, kind: str, data: Json) -> None:
        """Tell everybody else who is at the captain's place."""
        here, me = self.player.poi_id, self.player.id
        self.state.tell_here(here, Event(data, kind), but=me)

    def hold(self) -> Goods:
        return self.player.ship.cargo

    def store(self) -> Goods:
        return self.player.stores.setdefault(self.base.id, {})


Place = Callable[[Deed], Goods] | None
"""Goods that can be moved from or to; None is out of the game."""

HOLD, STORE, AWAY = Deed.hold, Deed.store, None


def named(deed: Deed) -> Goods:
    """The goods that `item_id` and `quantity` name."""
    item, quantity = named_item({"quantity": 1, **deed.given})
    return {item.id: quantity}


@dataclass(frozen=True, slots=True)
class Move:
    """Goods that change their place; too few of them refuse the action by `lacks`."""

    source: Place
    target: Place
    goods: Callable[[Deed], Goods] = named
    lacks: str = "insufficient_items"

    def check(self, deed: Deed) -> None:
        """Raises GameError where there are too few, or where they do not fit."""
        for name, count in self.goods(deed).items():
            have = count if self.source is None else self.source(deed).get(name, 0)
            if have < count:
                raise GameError(
                    self.lacks, f"Need {count} {ITEMS[name].name}. There are {have}."
                )
        if self.target is HOLD:
            check_room(deed.player, self.goods(deed))

    def carry_out(self, deed: Deed, goods: Goods) -> None:
        for name, count in goods.items():
            for place, change in ((self.source, -count), (self.target, count)):
                if place is not None:
                    _add(place(deed), name, change)


def _add(goods: Goods, name: str, change: int) -> None:
    goods[name] = goods.get(name, 0) + change
    if not goods[name]:
        del goods[name]


Amount = Callable[[Deed], int]
Unless = tuple[Callable[[Deed], bool], str, str]
"""When an action is refused, with the code and the sentence of the refusal."""


def _free(deed: Deed) -> int:
    return 0


def _as_moved(deed: Deed) -> None:
    """Most actions change no more than what they move."""


@dataclass(frozen=True, slots=True)
class Minor:
    """One minor action.

    `where` the ship must be, and the `service` that its base must have. `names` finds
    the thing that the arguments name, and raises GameError where it is not there.
    `costs` and `earns` are credits. `changes` does what is left, after the payment and
    before the goods move; it gives what the result tells beside the arguments.
    `teaches` a skill so many points. `told` is the type and category of the result.
    """

    tool: Tool
    where: str = ""
    service: str = ""
    names: Callable[[Deed], Any] | None = None
    unless: tuple[Unless, ...] = ()
    costs: Amount = _free
    earns: Amount = _free
    moves: tuple[Move, ...] = ()
    changes: Callable[[Deed], Json | None] = field(default=_as_moved)
    teaches: tuple[str, Amount] | None = None
    told: tuple[str, str] = ("ok", "system")

    def action(self) -> Action:
        """The row as an action of the game."""
        return Action(self.tool.name, self._prepare, self._finish, needs=self.where)

    def _check(self, state: State, player: Player, given: Arguments) -> Deed:
        deed = Deed(state, player, given)
        if self.where == SPACE and player.docked_at:
            raise must_undock()
        if self.where == DOCK and self.service not in ("", *deed.base.services):
            service = self.service
            raise GameError(f"no_{service}_service", f"This base has no {service}.")
        if self.names is not None:
            deed.thing = self.names(deed)
        for holds, code, message in self.unless:
            if holds(deed):
                raise GameError(code, message)
        check_credits(player, self.costs(deed))
        for move in self.moves:
            move.check(deed)
        return deed

    def _prepare(self, state: State, player: Player, given: Arguments) -> Intent:
        self._check(state, player, given)
        if "item_id" in given:
            given = {**given, "item_id": named_item({"quantity": 1, **given})[0].id}
        message = f"{self.tool.name} is under way."
        return Intent(given, {**given, "message": message})

    def _finish(self, state: State, player: Player, given: Arguments) -> list[Event]:
        deed = self._check(state, player, given)
        cost, gain = self.costs(deed), self.earns(deed)
        player.spend(cost)
        player.earn(gain)
        moved = [move.goods(deed) for move in self.moves]
        result = self.changes(deed) or {}
        for move, goods in zip(self.moves, moved, strict=True):
            move.carry_out(deed, goods)
        if self.teaches:
            teach(state, player, self.teaches[0], self.teaches[1](deed))
        if any(HOLD in (move.source, move.target) for move in self.moves):
            result["cargo_used"] = player.ship.cargo_used
        return [Event({**given, "action": self.tool.name, **result}, *self.told)]


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that takes no turn: a question, or something that is written down."""

    tool: Tool
    answer: Callable[[Call], Json]


def act(
    name: str,
    category: str,
    description: str,
    takes: Takes = NOTHING,
    *,
    notes: str | None = None,
    destructive: bool = False,
    **row: Any,
) -> Minor:
    """A row with its tool; where a base is needed, the tool's notes say so."""
    if notes is None:
        notes = DOCKED if row.get("where") == DOCK else ""
    tool = Tool(name, category, description, *takes, notes, mutation=True)
    return Minor(replace(tool, destructive=destructive), **row)


def ask(
    name: str,
    category: str,
    description: str,
    answer: Callable[[Call], Json],
    takes: Takes = NOTHING,
    **words: Any,
) -> Asked:
    """A question with its tool, or what is written down."""
    return Asked(Tool(name, category, description, *takes, **words), answer)
