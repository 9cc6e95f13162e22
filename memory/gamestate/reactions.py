"""Which notification changes which snapshot: the table of API.md section 5.

A reaction writes into one snapshot's draft what its event says, and returns what
of the snapshot is in doubt from then on. A type that is not in the table changes
nothing; the event itself is kept all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from memory.gamestate.draft import Draft
from memory.gamestate.effects import CARGO, STATS
from memory.gamestate.encounters import (
    STATUS_TOOLS,
    Reaction,
    Self,
    comes,
    goes,
    hit,
    is_one,
    pirate_fight,
    pirate_gone,
    pirate_near,
    police,
)
from memory.gamestate.notices import Notice
from memory.gamestate.outcomes import (
    Data,
    Doubt,
    command_of,
    number_of,
    result_of,
    settle,
    text_of,
)

MARKETS = ("view_market", "get_listings", "estimate_purchase", "analyze_market")
OK = "ok"
RESULT = "action_result"
YIELD = "mining_yield"
NEAR = "get_nearby"
_OF_OTHERS = frozenset(
    {"poi_arrival", "poi_departure", "pirate_warning", "pirate_spawn"}
)
"""What others do at a place: most events there are, and they change one snapshot."""


def react(draft: Draft, notice: Notice, me: Self) -> Doubt:
    """Write what an event says into a snapshot; returns what is in doubt."""
    command = outcome_of(notice)
    if command:
        data = result_of(notice.data) if notice.kind == RESULT else notice.data
        return settle(draft, command, data)
    reaction = _by_kind(notice.kind)
    return reaction(draft, notice.data, me) if reaction else None


def outcome_of(notice: Notice) -> str:
    """The own action whose outcome an event is, "" where it is none."""
    if notice.kind == YIELD:
        return "mine"
    if notice.kind == RESULT:
        return command_of(notice.data.get("command"))
    if notice.kind == OK:
        return command_of(notice.data.get("action") or notice.data.get("type"))
    return ""


def does_something(notice: Notice, tool: str = "") -> bool:
    """Whether an event can change any snapshot at all, or one of a tool."""
    if tool and tool != NEAR and notice.kind in _OF_OTHERS:
        return False
    return bool(outcome_of(notice)) or _by_kind(notice.kind) is not None


def yield_key(data: Data) -> tuple[object, ...]:
    """What a ``mining_yield`` has in common with the ``action_result`` of the same."""
    values = (data.get(key) for key in ("resource_id", "quantity", "remaining"))
    return tuple(v if isinstance(v, (str, int, float)) else repr(v) for v in values)


# -- the account -------------------------------------------------------------


XP = ("xp", "current_xp", "next_level_xp")
"""The experience points of one skill, under the names that it has had."""


def _everything(draft: Draft, data: Data, me: Self) -> Doubt:
    return ()


def _skill(draft: Draft, data: Data, me: Self) -> Doubt:
    skill, level = text_of(data, "skill_id"), number_of(data, "new_level", "level")
    if not skill or level is None:
        return () if draft.tool == "get_skills" else None
    if draft.tool in STATUS_TOOLS:
        for place in ("player.skills", "skills"):
            _learn(draft, place, skill, level)
        places = (f"player.skills.{skill}", f"skills.{skill}")
        return (*_points(*places), "player.skill_xp", "player.experience")
    if draft.tool == "get_skills":
        listed = draft.get("player_skills")
        if listed is None:
            _learn(draft, "skills", skill, level)
            return _points(f"skills.{skill}")
        trained = _train(draft, listed, skill, level)
        return _points("player_skills.*") if trained else ("player_skills",)
    return None


def _points(*places: str) -> tuple[str, ...]:
    """What a new level changes beside the level: how far it is to the next."""
    return tuple(f"{place}.{name}" for place in places for name in XP)


def _learn(draft: Draft, place: str, skill: str, level: float) -> None:
    """A level in a map of skills, which holds numbers or objects."""
    skills = draft.get(place)
    if not isinstance(skills, dict):
        return
    known = skills.get(skill)
    if isinstance(known, dict):
        draft.put(f"{place}.{skill}.level", level)
    else:
        draft.put(f"{place}.{skill}", level, absent=True)


def _train(draft: Draft, listed: object, skill: str, level: float) -> bool:
    for item in listed if isinstance(listed, list) else ():
        if is_one(item, ("skill_id", skill)):
            item["level"] = level
            draft.note("player_skills")
            return True
    return False


def _traded(draft: Draft, data: Data, me: Self) -> Doubt:
    if draft.tool in ("get_trades", "get_cargo"):
        return ()
    if draft.tool == "get_ship":
        return CARGO
    if draft.tool not in STATUS_TOOLS:
        return None
    credits = number_of(data, "your_credits")
    if credits is None:
        return (*CARGO, *STATS, "player.credits", "credits")
    for path in ("player.credits", "credits"):
        if draft.get(path) is not None:
            draft.put(path, credits)
    return (*CARGO, *STATS)


def _whole_state(draft: Draft, data: Data, me: Self) -> Doubt:
    """The state that the game pushes every tick over its socket."""
    player = data.get("player")
    if isinstance(player, Mapping) and not me.is_meant(player.get("username")):
        return None
    parts = {
        "get_status": ("player", "ship"),
        "get_ship": ("ship",),
        "get_nearby": ("nearby",),
    }
    for part in parts.get(draft.tool, ()):
        if isinstance(data.get(part), (Mapping, list)):
            draft.put(part, data[part])
    if draft.tool == "get_nearby" and isinstance(data.get("nearby"), list):
        draft.put("count", len(data["nearby"]))  # type: ignore[arg-type]
    return None


def _spoils(*tools: str) -> Reaction:
    """A reaction that only knows which snapshots are not true any more."""

    def reaction(draft: Draft, data: Data, me: Self) -> Doubt:
        return () if draft.tool in tools else None

    return reaction


def _done_elsewhere(*tools: str) -> Reaction:
    """The same of what was done for the account where it may not be: it counts too."""

    def reaction(draft: Draft, data: Data, me: Self) -> Doubt:
        if draft.tool in STATUS_TOOLS:
            return STATS
        return () if draft.tool in tools else None

    return reaction


_BASE = _spoils("get_base", "get_poi")

REACTIONS: Mapping[str, Reaction] = {
    "skill_level_up": _skill,
    "combat_update": hit,
    "battle_damage": hit,
    "pirate_warning": pirate_near,
    "pirate_spawn": pirate_near,
    "pirate_combat": pirate_fight,
    "pirate_destroyed": pirate_gone,
    "police_combat": police,
    "player_died": _everything,
    "poi_arrival": comes,
    "poi_departure": goes,
    "trade_offer_received": _spoils("get_trades"),
    "trade_declined": _spoils("get_trades"),
    "trade_cancelled": _spoils("get_trades"),
    "trade_complete": _traded,
    # An order that was taken, wholly or in part, pays into storage.
    "market_update": _done_elsewhere(*MARKETS, "view_orders", "view_storage"),
    "crafting_update": _done_elsewhere("view_storage"),
    "base_raid_update": _BASE,
    "base_destroyed": _BASE,
    "station_repaired": _BASE,
    "ship_commission_complete": _spoils("list_ships", "view_storage"),
    "queue_cleared": _spoils("get_queue"),
    "observation_update": _spoils("get_nearby"),
    "state_update": _whole_state,
}
"""The reaction to each type that is not the outcome of an own action."""

FAMILIES: Mapping[str, Reaction] = {
    "battle_": _spoils("get_nearby", "get_battle_status"),
    "facility_": _spoils("get_base", "facility"),
    "drone_": _spoils("get_drones"),
}
"""Types that grow; asked by the start of a name that the table does not hold."""


def _by_kind(kind: str) -> Reaction | None:
    if kind in REACTIONS:
        return REACTIONS[kind]
    return next((r for start, r in FAMILIES.items() if kind.startswith(start)), None)
