"""How actions get their turn: what changed from era A to era C.

Era A, the seed's own: an action is checked and answered with a preview at once, and
what came of it arrives as a notification at a later tick. One action per player and
tick.

Era C: the caller waits until the action's tick and gets its real result. One action per
player may be under way; a second one is refused. Docking and undocking are done for the
captain where an action needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.game.config import GameError, Json
from sandbox.game.sessions import Event
from sandbox.game.state import State
from sandbox.game.table import ACTIONS
from sandbox.game.tools.rules import Action, Call, Intent
from sandbox.game.views import view_condition
from sandbox.game.world.models import Pending, Player


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action: its result, or why it failed when its tick came."""

    result: Json | None = None
    error: GameError | None = None


def refuse_in_transit(player: Player, action: Action) -> None:
    """Raises GameError where the ship is between two places."""
    pending = player.pending
    if pending is not None and player.in_transit:
        under_way = {"travel": "already_traveling", "jump": "already_jumping"}
        moving = action.tool.name in under_way
        raise GameError(
            under_way[pending.tool] if moving else "in_transit",
            f"Your ship is under way and arrives at tick {pending.due_tick}.",
        )


def advance(state: State, player: Player, pending: Pending) -> list[Event]:
    """Take a player's action one tick further; its events when it ends.

    Raises GameError where it has become impossible since it was accepted.
    """
    action, call = ACTIONS[pending.tool], Call(state, player, pending.arguments)
    if not pending.begun:
        if action.begin:
            action.begin(call)
        pending.begun = True
    if state.tick < pending.due_tick:
        return []
    player.pending = None
    tally = state.tallies[player.username]
    try:
        events = action.finish(call)
    except GameError as error:
        tally.failed[action.tool.name] += 1
        raise GameError(error.code, f"{error.code}: {error.message}") from None
    tally.executed[action.tool.name] += 1
    return events


class Queued:
    """Era A, and what both eras do alike.

    `blocks`: does the caller wait for the outcome, instead of being told of it later?
    """

    blocks = False

    def __init__(self, state: State) -> None:
        self._state = state

    def must_wait(self, player: Player) -> bool:
        """Has the player used up this tick?"""
        return player.acted_tick == self._state.tick

    def submit(self, player: Player, action: Action, arguments: Json) -> Json:
        """Take an action in; GameError, which costs no tick, where it is impossible."""
        refuse_in_transit(player, action)
        intent = self._accept(player, action, arguments)
        player.acted_tick = self._state.tick
        return {"queued": True, **intent.preview}

    def _accept(
        self, player: Player, action: Action, arguments: Json, flag: str = ""
    ) -> Intent:
        intent = action.prepare(Call(self._state, player, arguments))
        due = self._state.tick + intent.ticks
        player.pending = Pending(action.tool.name, intent.arguments, due, flag=flag)
        return intent

    def resolve(self) -> None:
        """Take everybody's action one tick further, and tell of those that end."""
        for player in list(self._state.players.values()):
            pending = player.pending
            if pending is None:
                continue
            try:
                events = advance(self._state, player, pending)
            except GameError as error:
                self._fail(player, pending, error)
            else:
                if events:
                    self._succeed(player, pending, events)

    def outcome(self, player_id: str) -> Outcome | None:
        """Take what came of the player's last action, None while it is under way."""
        return None

    def _succeed(self, player: Player, pending: Pending, events: list[Event]) -> None:
        for event in events:
            self._state.tell(event, player)

    def _fail(self, player: Player, pending: Pending, why: GameError) -> None:
        told = {"command": pending.tool, "tick": self._state.tick}
        told |= {"code": why.code, "message": why.message}
        self._state.tell(Event(told, "action_error"), player)


MOST_NAMES = 20
_STORY = (
    "The clamps close, the pumps start and somebody waves from behind thick glass. "
    "Crates stand in long rows under yellow light; a loader backs out of your way. "
    "On the board by the lift the day's prices change while you read them, and the "
    "talk at the next table is of belts, of debts and of who did not come back."
)


def _travel(state: State, own: Json) -> Json:
    names = own.pop("online_players")
    return {
        **own,
        "online_players": names[:MOST_NAMES] or None,
        "online_players_count": len(names),
        "online_players_truncated": len(names) > MOST_NAMES,
    }


def _dock(state: State, own: Json) -> Json:
    base = state.world.bases[own["base_id"]]
    condition = view_condition(base, state.bases.get(base.id))
    story = {"base": base.name, "story": _STORY}
    return {"action": "dock", **story, "station_condition": condition}


def _attack(state: State, own: Json) -> Json:
    target = own["target_id"]
    other = state.players.get(target)
    return {
        "action": "attack",
        "target": target,
        "target_name": other.username if other else state.pirates[target].name,
        "target_type": "player" if other else "pirate",
        "kind": "player" if other else "npc",
    }


# How the result of an action differs from its own event.
_RESULTS: dict[str, Callable[[State, Json], Json]] = {
    "travel": _travel,
    "jump": lambda state, own: {k: v for k, v in own.items() if k != "poi_id"},
    "dock": _dock,
    "mine": lambda state, own: {
        **own,
        "depletion_percent": 100 * own["remaining"] / own["max_remaining"],
        "kind": "yield",
    },
    "attack": _attack,
}


class Blocking(Queued):
    """Era C."""

    blocks = True

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._outcomes: dict[str, Outcome] = {}

    def must_wait(self, player: Player) -> bool:
        return False

    def submit(self, player: Player, action: Action, arguments: Json) -> Json:
        refuse_in_transit(player, action)
        if player.pending is not None:
            raise GameError("action_pending", "Another action is already in progress")
        flag = _move_for(self._state, player, action)
        intent = self._accept(player, action, arguments, flag)
        self._outcomes.pop(player.id, None)
        return {
            "pending": True,
            "command": action.tool.name,
            "ticks": intent.ticks,
            "message": "The action is carried out at its tick.",
        }

    def _fail(self, player: Player, pending: Pending, why: GameError) -> None:
        super()._fail(player, pending, why)
        self._outcomes[player.id] = Outcome(error=why)

    def _succeed(self, player: Player, pending: Pending, events: list[Event]) -> None:
        result = dict(events[0].data)
        if pending.tool in _RESULTS:
            result = _RESULTS[pending.tool](self._state, result)
        if pending.flag:
            result[pending.flag] = True
        # The captain learns his own outcome by action_result, once.
        others = [event for event in events if event.msg_type != "ok"]
        super()._succeed(player, pending, others)
        told = {"command": pending.tool, "tick": self._state.tick, "result": result}
        self._state.tell(Event(told, "action_result"), player)
        self._outcomes[player.id] = Outcome(result)

    def outcome(self, player_id: str) -> Outcome | None:
        return self._outcomes.pop(player_id, None)


def _move_for(state: State, player: Player, action: Action) -> str:
    """Dock or undock where the action needs it; gives the flag for its result."""
    move = ""
    if action.needs == "space" and player.docked_at:
        move, player.docked_at = "undock", None
    elif action.needs == "dock" and not player.docked_at and not player.in_transit:
        base = state.world.pois[player.poi_id].base
        cells = action.tool.name == "refuel" and player.ship.cargo.get("fuel_cell")
        if base is not None and not cells:
            move, player.docked_at = "dock", base.id
    if not move:
        return ""
    message = f"Automatically {move}ed (required for {action.tool.name})"
    state.tell(Event({"message": message, "type": f"auto_{move}"}), player)
    return f"auto_{move}ed"


ERAS: dict[str, type[Queued]] = {"A": Queued, "C": Blocking, "v2": Blocking}
