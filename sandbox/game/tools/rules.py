"""The forms of what captains can do, and what most actions ask for.

An action is checked when it is asked for, and carried out at a tick; how its steps are
told to the player is the business of the era (see `eras`). Most actions are rows that say
what they need, cost, move, change and teach; those with rules of their own name their
`steps` (both by `act`). What takes no turn is a query (`ask`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.config import GameError, Json, must_undock, not_docked_here
from sandbox.game.sessions import Event, Session
from sandbox.game.state import State
from sandbox.game.tool import Parameter, Tool, make_tool
from sandbox.game.world.catalogue import ITEMS, Item, find_item
from sandbox.game.world.galaxy import Base
from sandbox.game.world.models import Goods, Job, Player, add_goods, measure_goods

DOCKED = "You must be docked."


@dataclass(slots=True)
class Call:
    """What a captain asks for; `thing` is what a row's `names` has found for it."""

    state: State
    player: Player
    given: Json
    session: Session = field(default_factory=lambda: Session("", "", 0))
    thing: Any = None

    @property
    def base(self) -> Base:
        """Where the captain is docked. Raises GameError `not_docked`."""
        if not self.player.docked_at:
            raise not_docked_here()
        return self.state.world.bases[self.player.docked_at]

    @property
    def count(self) -> int:
        return int(self.given.get("count", 1))

    def token(self) -> str:
        return self.state.sources.token(16)

    def schedule(self, ticks: int, kind: str, subject: str, count: int = 1) -> None:
        """Let something happen to the captain, or to what is his, after some ticks."""
        where = self.player.docked_at or ""
        job = Job("", kind, self.player.id, where, subject, count)
        self.state.schedule(job, ticks)

    def teach(self, skill_id: str, xp: int) -> bool:
        """Add experience; True when a level was gained, which era C also tells."""
        if not self.player.learn(skill_id, xp):
            return False
        if self.state.config.is_modern:
            level = self.player.skills[skill_id].level
            data = {"skill_id": skill_id, "new_level": level, "xp_gained": xp}
            self.state.tell(Event(data, "skill_level_up"), self.player)
        return True

    def tell(self, player: Player, kind: str, category: str, data: Json) -> None:
        self.state.tell(Event(data, kind, category), player)

    def tell_others(self, kind: str, data: Json) -> None:
        """Tell everybody else who is at the captain's place."""
        self.state.tell_here(self.player.poi_id, Event(data, kind), but=self.player.id)

    def goods(self) -> Goods:
        """The goods that `item_id` and `quantity` name."""
        item, quantity = read_item({"quantity": 1, **self.given})
        return {item.id: quantity}

    def hold(self) -> Goods:
        return self.player.ship.cargo

    def store(self) -> Goods:
        return self.player.stores.setdefault(self.base.id, {})


@dataclass(frozen=True, slots=True)
class Intent:
    """An action that may be done: what it will need, and what to say beforehand.

    `arguments` are plain JSON values for the later steps. `ticks` is how long it
    takes from the acceptance to the outcome, at least 1.
    """

    arguments: Json
    preview: Json
    ticks: int = 1


Prepare = Callable[[Call], Intent]
Finish = Callable[[Call], list[Event]]
Begin = Callable[[Call], None]
Steps = tuple[Prepare, Finish] | tuple[Prepare, Finish, Begin]


@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    `prepare` changes nothing and raises GameError when the action is impossible.
    `begin` runs at the first tick after the acceptance, `finish` at the last; it
    raises GameError when the action has become impossible meanwhile. The first
    event that `finish` gives is the action's own result. `needs`: "space" or "dock",
    where a later era undocks or docks the ship by itself.
    """

    tool: Tool
    prepare: Prepare
    finish: Finish
    begin: Begin | None = None
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A call that takes no turn: a question, or something that is written down."""

    tool: Tool
    answer: Callable[[Call], Json | str]


def check_credits(player: Player, needed: int) -> None:
    """Raises GameError `insufficient_credits` where there are fewer."""
    if player.credits < needed:
        raise GameError(
            "insufficient_credits", f"Need {needed} credits. You have {player.credits}."
        )


def read_item(arguments: Json) -> tuple[Item, int]:
    """Read `item_id` and `quantity`; raises GameError for what is no such thing."""
    return find_item(arguments.get("item_id", "")), read_positive(arguments)


def read_positive(arguments: Json, name: str = "quantity") -> int:
    """Read a number of at least 1; raises GameError `invalid_quantity`."""
    number = int(arguments.get(name, 0))
    if number < 1:
        raise GameError(
            "invalid_quantity", f"{name.capitalize()} must be at least 1. Use '{name}'."
        )
    return number


def check_room(player: Player, goods: Mapping[str, int]) -> None:
    """Raises GameError `no_cargo_space` where the goods do not fit into the hold."""
    needed, free = measure_goods(goods), player.ship.cargo_free
    if needed > free:
        raise GameError(
            "no_cargo_space", f"Not enough cargo space. Need {needed}, have {free}."
        )


# --- Minor actions ---------------------------------------------------------------


# Goods that can be moved from or to; None is out of the game.
Place = Callable[[Call], Goods] | None


@dataclass(frozen=True, slots=True)
class Move:
    """Goods that change their place; too few of them refuse the action by `lacks`."""

    source: Place
    target: Place
    goods: Callable[[Call], Goods] = Call.goods
    lacks: str = "insufficient_items"

    def check(self, call: Call) -> None:
        """Raises GameError where there are too few, or where they do not fit."""
        goods = self.goods(call)
        for name, count in goods.items():
            have = count if self.source is None else self.source(call).get(name, 0)
            if have < count:
                raise GameError(
                    self.lacks, f"Need {count} {ITEMS[name].name}. There are {have}."
                )
        if self.target is Call.hold:
            check_room(call.player, goods)

    def carry_out(self, call: Call, goods: Goods) -> None:
        for name, count in goods.items():
            if self.source is not None:
                add_goods(self.source(call), name, -count)
            if self.target is not None:
                add_goods(self.target(call), name, count)


Amount = Callable[[Call], int]
Find = Callable[[Call], Any]
# When an action is refused, with the code and the sentence of the refusal.
Unless = tuple[Callable[[Call], Any], str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One minor action.

    `where` the ship must be, and the `service` that its base must have. `names` finds
    the thing that the arguments name, and raises GameError where it is not there.
    `costs` and `earns` are credits. `changes` does what is left, after the payment and
    before the goods move; it gives what the result tells beside the arguments.
    `previews` is what the acceptance tells. `teaches` a skill so many points. `told`
    is the type and category of the result.
    """

    tool: Tool
    where: str = ""
    service: str = ""
    names: Find | None = None
    unless: tuple[Unless, ...] = ()
    costs: Amount = lambda call: 0
    earns: Amount = lambda call: 0
    moves: tuple[Move, ...] = ()
    changes: Callable[[Call], Json | None] = lambda call: None
    previews: Callable[[Call], Json] | None = None
    teaches: tuple[str, Amount] | None = None
    told: tuple[str, str] = ("ok", "system")

    def _check(self, call: Call) -> None:
        if self.where == "space" and call.player.docked_at:
            raise must_undock()
        if self.where == "dock" and self.service not in ("", *call.base.services):
            service = self.service
            raise GameError(f"no_{service}_service", f"This base has no {service}.")
        if self.names is not None:
            call.thing = self.names(call)
        for holds, code, message in self.unless:
            if holds(call):
                raise GameError(code, message)
        check_credits(call.player, self.costs(call))
        for move in self.moves:
            move.check(call)

    def prepare(self, call: Call) -> Intent:
        self._check(call)
        given = call.given
        if self.previews:
            return Intent(given, self.previews(call))
        if "item_id" in given:
            given = {**given, "item_id": find_item(given["item_id"]).id}
        message = f"{self.tool.name} is under way."
        return Intent(given, {**given, "message": message})

    def finish(self, call: Call) -> list[Event]:
        self._check(call)
        cost, gain = self.costs(call), self.earns(call)
        call.player.spend(cost)
        call.player.earn(gain)
        moved = [move.goods(call) for move in self.moves]
        result = self.changes(call) or {}
        for move, goods in zip(self.moves, moved, strict=True):
            move.carry_out(call, goods)
        if self.teaches:
            call.teach(self.teaches[0], self.teaches[1](call))
        if any(Call.hold in (move.source, move.target) for move in self.moves):
            result["cargo_used"] = call.player.ship.cargo_used
        return [Event({**call.given, "action": self.tool.name, **result}, *self.told)]


def act(
    name: str,
    category: str,
    description: str,
    *takes: str | Parameter,
    example: Json | None = None,
    notes: str | None = None,
    destructive: bool = False,
    **row: Any,
) -> Action:
    """An action by its own `steps`, or by the fields of a `Row`.

    Where a row says that a base is needed, the tool's notes say so.
    """
    if notes is None:
        notes = DOCKED if row.get("where") == "dock" else ""
    kind: Json = {"notes": notes, "mutation": True, "destructive": destructive}
    tool = make_tool(name, category, description, *takes, example=example, **kind)
    steps: Steps | None = row.pop("steps", None)
    if steps is not None:
        return Action(tool, *steps, **row)
    made = Row(tool, **row)
    return Action(tool, made.prepare, made.finish, needs=made.where)


def ask(
    name: str,
    category: str,
    description: str,
    answer: Callable[[Call], Json | str],
    *takes: str | Parameter,
    **words: Any,
) -> Query:
    return Query(make_tool(name, category, description, *takes, **words), answer)


def pick(
    argument: str,
    things: Callable[[Call], Iterable[Any]],
    code: str,
    message: str,
    *,
    fits: Callable[[Call, Any], object] = lambda call, thing: True,
) -> Find:
    """Find the thing whose id an argument gives, or refuse with code and message."""

    def find(call: Call) -> Any:
        wanted = call.given[argument]
        for thing in things(call):
            if thing.id == wanted and fits(call, thing):
                return thing
        raise GameError(code, message.format(wanted))

    return find
