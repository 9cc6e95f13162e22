"""The factions of the galaxy."""

from __future__ import annotations

from sandbox.game.errors import GameError
from sandbox.game.holdings import Faction
from sandbox.game.queries.call import Call, Json
from sandbox.game.state import State


def faction_list(call: Call) -> Json:
    listed = [_brief(one) for one in call.state.factions.values()]
    return {"factions": listed, "total_count": len(listed)}


def _brief(faction: Faction) -> Json:
    return {
        "faction_id": faction.id,
        "name": faction.name,
        "tag": faction.tag,
        "member_count": len(faction.members),
    }


def faction_info(call: Call) -> Json:
    """One's own faction, or the one that is asked for."""
    wanted = call.arguments.get("faction_id") or call.player.faction_id
    faction = call.state.factions.get(wanted)
    if faction is None:
        raise GameError("invalid_faction", "No such faction. Use 'faction_list'.")
    return _brief(faction) | {
        "members": _members(call.state, faction),
        "enemies": list(faction.enemies),
    }


def _members(state: State, faction: Faction) -> list[Json]:
    return [
        {"player_id": name, "username": state.players[name].username, "rank": rank}
        for name, rank in faction.members.items()
    ]


def faction_get_invites(call: Call) -> Json:
    invites = [
        _brief(one)
        for one in call.state.factions.values()
        if call.player.id in one.invited
    ]
    return {"invites": invites, "total_count": len(invites)}
