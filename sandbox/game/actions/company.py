"""create_faction, join_faction, leave_faction, faction_invite, faction_declare_war."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.errors import GameError
from sandbox.game.holdings import Faction
from sandbox.game.models import Player
from sandbox.game.state import State

LEADER, MEMBER = "leader", "member"


def _own(state: State, player: Player) -> Faction:
    faction = state.faction_of(player)
    if faction is None:
        raise GameError("not_in_faction", "You are in no faction.")
    return faction


def _led(state: State, player: Player) -> Faction:
    faction = _own(state, player)
    if faction.members[player.id] != LEADER:
        raise GameError("not_leader", "Only the leader can do this.")
    return faction


def _must_be_free(player: Player) -> None:
    if player.faction_id:
        raise GameError("already_in_faction", "Leave your faction first.")


def _prepare_create(state: State, player: Player, arguments: Arguments) -> Intent:
    _must_be_free(player)
    name, tag = arguments["name"].strip(), arguments["tag"].strip().upper()
    if not 3 <= len(name) <= 40 or not 2 <= len(tag) <= 4:
        raise GameError("invalid_name", "A name has 3 to 40 signs, a tag 2 to 4.")
    if any(name.casefold() == one.name.casefold() for one in state.factions.values()):
        raise GameError("name_taken", "There is a faction of this name.")
    given = {"name": name, "tag": tag}
    return Intent(given, {**given, "message": "Founding..."})


def _finish_create(state: State, player: Player, arguments: Arguments) -> list[Event]:
    given = _prepare_create(state, player, arguments).arguments
    faction = Faction(state.sources.token(16), members={player.id: LEADER}, **given)
    state.factions[faction.id] = faction
    player.faction_id = faction.id
    own = {"action": "create_faction", "faction_id": faction.id}
    return [Event(own | given)]


def _invited(state: State, player: Player, arguments: Arguments) -> Faction:
    _must_be_free(player)
    faction = state.factions.get(arguments["faction_id"])
    if faction is None or player.id not in faction.invited:
        raise GameError("not_invited", "This faction has not invited you.")
    return faction


def _prepare_join(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"faction_id": _invited(state, player, arguments).id}
    return Intent(given, {**given, "message": "Joining..."})


def _finish_join(state: State, player: Player, arguments: Arguments) -> list[Event]:
    faction = _invited(state, player, arguments)
    faction.invited.remove(player.id)
    faction.members[player.id] = MEMBER
    player.faction_id = faction.id
    own = {"action": "join_faction", "faction_id": faction.id, "name": faction.name}
    return [Event(own)]


def _prepare_leave(state: State, player: Player, arguments: Arguments) -> Intent:
    faction = _own(state, player)
    return Intent({}, {"faction_id": faction.id, "message": "Leaving..."})


def _finish_leave(state: State, player: Player, arguments: Arguments) -> list[Event]:
    """Leave; a faction without members is no more, a new leader is whoever is left."""
    faction = _own(state, player)
    del faction.members[player.id]
    player.faction_id = ""
    if not faction.members:
        del state.factions[faction.id]
    elif LEADER not in faction.members.values():
        faction.members[next(iter(faction.members))] = LEADER
    return [Event({"action": "leave_faction", "faction_id": faction.id})]


def _guest(state: State, player: Player, arguments: Arguments) -> Player:
    guest = state.players.get(arguments["player_id"])
    if guest is None or guest.faction_id or guest.id in _led(state, player).invited:
        raise GameError("invalid_target", "This captain cannot be invited.")
    return guest


def _prepare_invite(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"player_id": _guest(state, player, arguments).id}
    return Intent(given, {**given, "message": "Inviting..."})


def _finish_invite(state: State, player: Player, arguments: Arguments) -> list[Event]:
    guest, faction = _guest(state, player, arguments), _led(state, player)
    faction.invited.append(guest.id)
    told = {"faction_id": faction.id, "faction_name": faction.name}
    told |= {"inviter_id": player.id, "inviter_name": player.username}
    state.tell_event(guest, Event(told, "faction_invite", "faction"))
    return [Event({"action": "faction_invite", "player_id": guest.id})]


def _enemy(state: State, player: Player, arguments: Arguments) -> Faction:
    own = _led(state, player)
    other = state.factions.get(arguments["target_faction_id"])
    if other is None or other is own or other.id in own.enemies:
        raise GameError("invalid_target", "No such faction to make war on.")
    return other


def _prepare_war(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"target_faction_id": _enemy(state, player, arguments).id}
    return Intent(given, {**given, "message": "Declaring war..."})


def _finish_war(state: State, player: Player, arguments: Arguments) -> list[Event]:
    own, other = _led(state, player), _enemy(state, player, arguments)
    own.enemies.append(other.id)
    other.enemies.append(own.id)
    told = {"attacker_faction_id": own.id, "attacker_name": own.name}
    for member in other.members:
        event = Event(told, "faction_war_declared", "faction")
        state.tell_event(state.players[member], event)
    return [Event({"action": "faction_declare_war", "target_faction_id": other.id})]


COMPANY = (
    Action("create_faction", _prepare_create, _finish_create),
    Action("join_faction", _prepare_join, _finish_join),
    Action("leave_faction", _prepare_leave, _finish_leave),
    Action("faction_invite", _prepare_invite, _finish_invite),
    Action("faction_declare_war", _prepare_war, _finish_war),
)
