"""Which event changes which snapshot: the table of API.md section 5, `REACTIONS`.

A reaction writes what its event says into one snapshot's draft, and returns what of
the snapshot is in doubt from then on. A type that is not in the table changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from memory.gamestate.draft import Draft, is_entry
from memory.gamestate.effects import CARGO, CREDITS, STATS
from memory.gamestate.notices import Notice
from memory.gamestate.outcomes import (
    Data,
    Doubt,
    find_action,
    find_number,
    find_text,
    unwrap_result,
    write_outcome,
)

_MARKETS = ("view_market", "get_listings", "estimate_purchase", "analyze_market")
_OK = "ok"
RESULT_TYPE = "action_result"
YIELD_TYPE = "mining_yield"
_NEAR = "get_nearby"
# What others do at a place: most events are of these, and they change one snapshot.
_OF_OTHERS = frozenset(
    {"poi_arrival", "poi_departure", "pirate_warning", "pirate_spawn"}
)
_SHIP_FIELDS = ("ship.hull", "ship.shield", "hull", "shield")
_LISTED_HULLS = ("ships.*.hull",)
_BATTLE = "get_battle_status"
_EXPERIENCE = ("player.skills", "player.skill_xp", "player.experience", "skills")
_SCORE = ("player.stats", *_EXPERIENCE)
STATUS_TOOLS = ("get_status", "get_state")
_SHIP_TOOLS = (*STATUS_TOOLS, "get_ship")


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that snapshots belong to: its name, its player's ids, items' sizes."""

    username: str
    ids: frozenset[str] = frozenset()
    sizes: Mapping[str, float] = field(default_factory=dict)

    def is_meant(self, value: object) -> bool:
        """Whether a name or an id is the account's own."""
        if not isinstance(value, str):
            return False
        return value in self.ids or value.casefold() == self.username.casefold()


Reaction = Callable[[Draft, Data, Owner], Doubt]


def apply_event(draft: Draft, notice: Notice, me: Owner) -> Doubt:
    """Write what an event says into a draft; what of the snapshot is then in doubt."""
    command = find_outcome(notice)
    if command:
        data = unwrap_result(notice.data) if notice.kind == RESULT_TYPE else notice.data
        return write_outcome(draft, command, data)
    reaction = _find_reaction(notice.kind)
    return reaction(draft, notice.data, me) if reaction else None


def find_outcome(notice: Notice) -> str:
    """The own action whose outcome an event is, "" where it is none."""
    if notice.kind == YIELD_TYPE:
        return "mine"
    if notice.kind == RESULT_TYPE:
        return find_action(notice.data.get("command"))
    if notice.kind == _OK:
        return find_action(notice.data.get("action") or notice.data.get("type"))
    return ""


def can_change(notice: Notice, tool: str = "") -> bool:
    """Whether an event can change any snapshot at all, or one of a tool."""
    if tool and tool != _NEAR and notice.kind in _OF_OTHERS:
        return False
    return bool(find_outcome(notice)) or _find_reaction(notice.kind) is not None


def list_unheard(tools: Collection[str]) -> frozenset[str]:
    """Types of events that, as `can_change` has it, no snapshot of these tools hears of."""
    return frozenset() if _NEAR in tools else _OF_OTHERS


def build_yield_key(data: Data) -> tuple[object, ...]:
    """What a ``mining_yield`` and the ``action_result`` of the same yield share."""
    values = (data.get(key) for key in ("resource_id", "quantity", "remaining"))
    return tuple(v if isinstance(v, (str, int, float)) else repr(v) for v in values)


# --- Combat


def _take_damage(draft: Draft, data: Data, me: Owner) -> Doubt:
    if draft.tool == _BATTLE:
        return ()
    target = find_text(data, "target_id", "target")
    if not any(me.is_meant(data.get(f"target{end}")) for end in ("", "_id", "_name")):
        # An id may be ours as long as no answer has told which one that is.
        unknown = not me.ids and "target_id" in data and bool(target)
        return _SHIP_FIELDS if unknown and draft.tool in _SHIP_TOOLS else None
    if data.get("destroyed") is True:
        return ()
    if draft.tool not in _SHIP_TOOLS:
        return _doubt_ship_list(draft)
    doubt: list[str] = []
    for part in ("shield", "hull"):
        lost = find_number(data, f"{part}_hit")
        for path in (f"ship.{part}", part):
            if lost is None or (part == "shield" and not _was_full(draft, path)):
                doubt.append(path)
            else:
                draft.add(path, -lost)
    return tuple(doubt) or None


def _was_full(draft: Draft, path: str) -> bool:
    """Whether a shield was full: one that was not has grown by itself since."""
    full = draft.get(path.replace("shield", "max_shield"))
    return full is None or draft.get(path) == full


def _doubt_ship_list(draft: Draft) -> Doubt:
    return _LISTED_HULLS if draft.tool == "list_ships" else None


def _fight_pirate(draft: Draft, data: Data, me: Owner) -> Doubt:
    if draft.tool == _BATTLE:
        return ()
    if draft.tool not in _SHIP_TOOLS:
        return _doubt_ship_list(draft)
    doubt: list[str] = []
    for part in ("hull", "shield"):
        now = find_number(data, f"player_{part}", f"your_{part}")
        for path in (f"ship.{part}", part):
            if now is None:
                doubt.append(path)
            elif draft.get(path) is not None:
                draft.put(path, now)
    return tuple(doubt) or None


def _meet_pirate(draft: Draft, data: Data, me: Owner) -> Doubt:
    pirate = find_text(data, "pirate_id")
    if draft.tool != _NEAR or not pirate:
        return None
    more = {key: data[key] for key in ("tier", "is_boss") if key in data}
    entry = {"pirate_id": pirate, "name": find_text(data, "pirate_name"), **more}
    return _enlist(draft, ("pirates", "pirate_count"), ("pirate_id", pirate), entry)


def _kill_pirate(draft: Draft, data: Data, me: Owner) -> Doubt:
    """A kill pays credits, and counts for skills, statistics and missions."""
    if draft.tool in ("get_wrecks", "get_skills", _BATTLE):
        return ()
    if draft.tool == "get_active_missions":
        return ("missions.*",)
    if draft.tool in STATUS_TOOLS:
        reward = find_number(data, "credits_reward", "credits_earned")
        if reward is None:
            return (*CREDITS, *_SCORE)
        for path in CREDITS:
            draft.add(path, reward)
        return _SCORE
    if draft.tool == _NEAR:
        who = ("pirate_id", find_text(data, "pirate_id"))
        return _delist(draft, ("pirates", "pirate_count"), who)
    return None


def _meet_police(draft: Draft, data: Data, me: Owner) -> Doubt:
    target = data.get("target_id")
    if isinstance(target, str) and me.ids and not me.is_meant(target):
        return None
    return _SHIP_FIELDS if draft.tool in _SHIP_TOOLS else _doubt_ship_list(draft)


# --- Who is near


def _traffic(*, arrives: bool) -> Reaction:
    def reaction(draft: Draft, data: Data, me: Owner) -> Doubt:
        name = find_text(data, "username")
        if draft.tool != _NEAR or not name or me.is_meant(name):
            return None
        here, there = draft.get("poi_id"), data.get("poi_id")
        if here is None or here != there:
            return None if here and there else ()
        crowd = "nearby" if "nearby" in (draft.root or ()) else "players"
        places, who = (crowd, "count"), ("username", name)
        if arrives:
            entry = {"username": name, "clan_tag": find_text(data, "clan_tag")}
            return _enlist(draft, places, who, entry)
        return _delist(draft, places, who)

    return reaction


def _enlist(
    draft: Draft, places: tuple[str, str], who: tuple[str, str], entry: dict[str, Any]
) -> Doubt:
    listed, count = places
    if not isinstance(draft.root, dict) or listed not in draft.root:
        return ()
    items = draft.root[listed] = draft.root[listed] or []
    if not isinstance(items, list):
        return ()
    if not any(is_entry(item, *who) for item in items):
        items.append(entry)
        draft.note(listed)
        draft.add(count, 1)
    return None


def _delist(draft: Draft, places: tuple[str, str], who: tuple[str, str]) -> Doubt:
    """Take somebody off a list; in doubt if the count says he may be there unnamed."""
    listed, count = places
    items = draft.get(listed)
    if not isinstance(items, list):
        return None if items is None and not draft.get(count) else ()
    found = next((item for item in items if is_entry(item, *who)), None)
    if found is not None:
        items.remove(found)
        draft.note(listed)
        draft.add(count, -1)
        return None
    told = draft.get(count)
    return () if isinstance(told, int) and told > len(items) else None


# --- The account


def _raise_skill(draft: Draft, data: Data, me: Owner) -> Doubt:
    skill, level = find_text(data, "skill_id"), find_number(data, "new_level", "level")
    if not skill or level is None:
        return () if draft.tool == "get_skills" else None
    if draft.tool in STATUS_TOOLS:
        for place in ("player.skills", "skills"):
            _set_level(draft, place, skill, level)
        places = (f"player.skills.{skill}", f"skills.{skill}")
        return (*_experience_of(*places), "player.skill_xp", "player.experience")
    if draft.tool == "get_skills":
        listed = draft.get("player_skills")
        if listed is None:
            _set_level(draft, "skills", skill, level)
            return _experience_of(f"skills.{skill}")
        for item in listed if isinstance(listed, list) else ():
            if is_entry(item, "skill_id", skill):
                item["level"] = level
                draft.note("player_skills")
                return _experience_of("player_skills.*")
        return ("player_skills",)
    return None


def _experience_of(*places: str) -> tuple[str, ...]:
    """What a new level changes beside the level: how far it is to the next."""
    names = ("xp", "current_xp", "next_level_xp")  # those that it has had
    return tuple(f"{place}.{name}" for place in places for name in names)


def _set_level(draft: Draft, place: str, skill: str, level: float) -> None:
    """A level in a map of skills, which holds numbers or objects."""
    skills = draft.get(place)
    if not isinstance(skills, dict):
        return
    known = skills.get(skill)
    if isinstance(known, dict):
        draft.put(f"{place}.{skill}.level", level)
    else:
        draft.put(f"{place}.{skill}", level, absent=True)


def _complete_trade(draft: Draft, data: Data, me: Owner) -> Doubt:
    if draft.tool in ("get_trades", "get_cargo"):
        return ()
    if draft.tool == "get_ship":
        return CARGO
    if draft.tool not in STATUS_TOOLS:
        return None
    credits = find_number(data, "your_credits")
    if credits is None:
        return (*CARGO, *STATS, *CREDITS)
    for path in CREDITS:
        if draft.get(path) is not None:
            draft.put(path, credits)
    return (*CARGO, *STATS)


def _replace_state(draft: Draft, data: Data, me: Owner) -> Doubt:
    """The state that the game pushes every tick over its socket."""
    player = data.get("player")
    if isinstance(player, Mapping) and not me.is_meant(player.get("username")):
        return None
    parts = {
        "get_status": ("player", "ship"),
        "get_ship": ("ship",),
        _NEAR: ("nearby",),
    }
    for part in parts.get(draft.tool, ()):
        if isinstance(data.get(part), (Mapping, list)):
            draft.put(part, data[part])
    nearby = data.get("nearby")
    if draft.tool == _NEAR and isinstance(nearby, list):
        draft.put("count", len(nearby))
    return None


# --- The table


def _spoils(*tools: str, changes_statistics: bool = False) -> Reaction:
    """A reaction that only knows which tools' snapshots are not true any more."""

    def reaction(draft: Draft, data: Data, me: Owner) -> Doubt:
        if changes_statistics and draft.tool in STATUS_TOOLS:
            return STATS
        return () if draft.tool in tools else None

    return reaction


_BASE = _spoils("get_base", "get_poi")

# The reaction to each event type that is not the outcome of an own action.
REACTIONS: Mapping[str, Reaction] = {
    "skill_level_up": _raise_skill,
    "combat_update": _take_damage,
    "battle_damage": _take_damage,
    "pirate_warning": _meet_pirate,
    "pirate_spawn": _meet_pirate,
    "pirate_combat": _fight_pirate,
    "pirate_destroyed": _kill_pirate,
    "police_combat": _meet_police,
    "player_died": lambda draft, data, me: (),
    "poi_arrival": _traffic(arrives=True),
    "poi_departure": _traffic(arrives=False),
    "trade_offer_received": _spoils("get_trades"),
    "trade_declined": _spoils("get_trades"),
    "trade_cancelled": _spoils("get_trades"),
    "trade_complete": _complete_trade,
    # An order that was taken, wholly or in part, pays into storage.
    "market_update": _spoils(
        *_MARKETS, "view_orders", "view_storage", changes_statistics=True
    ),
    "crafting_update": _spoils("view_storage", changes_statistics=True),
    "base_raid_update": _BASE,
    "base_destroyed": _BASE,
    "station_repaired": _BASE,
    "ship_commission_complete": _spoils("list_ships", "view_storage"),
    "queue_cleared": _spoils("get_queue"),
    "observation_update": _spoils("get_nearby"),
    "state_update": _replace_state,
}

# Reactions by the start of a type, for types that `REACTIONS` does not hold.
FAMILIES: Mapping[str, Reaction] = {
    "battle_": _spoils("get_nearby", "get_battle_status"),
    "facility_": _spoils("get_base", "facility"),
    "drone_": _spoils("get_drones"),
}


def _find_reaction(kind: str) -> Reaction | None:
    if kind in REACTIONS:
        return REACTIONS[kind]
    return next((r for start, r in FAMILIES.items() if kind.startswith(start)), None)
