"""Who fights whom: a battle lasts from the first shot until one of the two is gone."""

from __future__ import annotations

from sandbox.game.models import Player
from sandbox.game.notifications import Event
from sandbox.game.state import State


def opponents(state: State, player: Player) -> list[Player]:
    """The captains that a captain shoots at, or is shot at by."""
    return [
        other
        for other in state.players.values()
        if other.target_id == player.id or player.target_id == other.id
    ]


def begin_battle(state: State, attacker: Player, target: Player) -> None:
    """Take a captain as the target; both hear of a battle that is new (era C)."""
    if target not in opponents(state, attacker):
        _tell(state, attacker, target, "battle_started")
    attacker.target_id = target.id


def leave_battle(state: State, player: Player) -> None:
    """Take a captain out of his battles: he flies away, or his ship is lost."""
    for other in opponents(state, player):
        _tell(state, player, other, "battle_ended")
        if other.target_id == player.id:
            other.target_id = None
    player.target_id = None


def _tell(state: State, one: Player, other: Player, kind: str) -> None:
    if state.config.era != "C":
        return
    data = {"tick": state.tick, "player_ids": [one.id, other.id]}
    for player in (one, other):
        state.tell_event(player, Event(data, kind, "combat"))
