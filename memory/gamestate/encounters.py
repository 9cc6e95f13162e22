"""Events of combat and of who is near, written into a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory.gamestate.draft import Draft
from memory.gamestate.outcomes import Data, Doubt, number_of, text_of

SHIP_FIELDS = ("ship.hull", "ship.shield", "hull", "shield")
LISTED_HULLS = ("ships.*.hull",)
BATTLE = "get_battle_status"
EXPERIENCE = ("player.skills", "player.skill_xp", "player.experience", "skills")
SCORE = ("player.stats", *EXPERIENCE)
STATUS_TOOLS = ("get_status", "get_state")
SHIP_TOOLS = (*STATUS_TOOLS, "get_ship")


@dataclass(frozen=True, slots=True)
class Self:
    """The account that the snapshots belong to, and the ids of its player."""

    username: str
    ids: frozenset[str] = frozenset()

    def is_meant(self, value: object) -> bool:
        """Whether a name or an id is the account's own."""
        if not isinstance(value, str):
            return False
        return value in self.ids or value.casefold() == self.username.casefold()


Reaction = Callable[[Draft, Data, Self], Doubt]


# -- combat ------------------------------------------------------------------


def hit(draft: Draft, data: Data, me: Self) -> Doubt:
    """Damage to the own ship takes from the shield and from the hull."""
    if draft.tool == BATTLE:
        return ()
    target = text_of(data, "target_id", "target")
    if not any(
        me.is_meant(data.get(key)) for key in ("target", "target_id", "target_name")
    ):
        # An id may be ours as long as no answer has told which one that is.
        unknown = not me.ids and "target_id" in data and bool(target)
        return SHIP_FIELDS if unknown and draft.tool in SHIP_TOOLS else None
    if data.get("destroyed") is True:
        return ()
    if draft.tool not in SHIP_TOOLS:
        return _of_the_list(draft)
    doubt: list[str] = []
    for part in ("shield", "hull"):
        lost = number_of(data, f"{part}_hit")
        for path in (f"ship.{part}", part):
            if lost is None or (part == "shield" and not _is_full(draft, path)):
                doubt.append(path)
            else:
                draft.add(path, -lost)
    return tuple(doubt) or None


def _is_full(draft: Draft, path: str) -> bool:
    """Whether a shield was full: one that was not has grown by itself since."""
    full = draft.get(path.replace("shield", "max_shield"))
    return full is None or draft.get(path) == full


def _of_the_list(draft: Draft) -> Doubt:
    """What the list of ships tells of the one that was hit."""
    return LISTED_HULLS if draft.tool == "list_ships" else None


def pirate_fight(draft: Draft, data: Data, me: Self) -> Doubt:
    if draft.tool == BATTLE:
        return ()
    if draft.tool not in SHIP_TOOLS:
        return _of_the_list(draft)
    doubt: list[str] = []
    for part in ("hull", "shield"):
        now = number_of(data, f"player_{part}", f"your_{part}")
        for path in (f"ship.{part}", part):
            if now is None:
                doubt.append(path)
            elif draft.get(path) is not None:
                draft.put(path, now)
    return tuple(doubt) or None


def pirate_near(draft: Draft, data: Data, me: Self) -> Doubt:
    pirate = text_of(data, "pirate_id")
    if draft.tool != "get_nearby" or not pirate:
        return None
    entry: dict[str, object] = {
        "pirate_id": pirate,
        "name": text_of(data, "pirate_name"),
    }
    entry |= {key: data[key] for key in ("tier", "is_boss") if key in data}
    return _there(draft, ("pirates", "pirate_count"), ("pirate_id", pirate), entry)


def pirate_gone(draft: Draft, data: Data, me: Self) -> Doubt:
    """A kill pays credits, and counts for skills, statistics and missions."""
    if draft.tool in ("get_wrecks", "get_skills", BATTLE):
        return ()
    if draft.tool == "get_active_missions":
        return ("missions.*",)
    if draft.tool in STATUS_TOOLS:
        reward = number_of(data, "credits_reward", "credits_earned")
        if reward is None:
            return ("player.credits", "credits", *SCORE)
        for path in ("player.credits", "credits"):
            draft.add(path, reward)
        return SCORE
    if draft.tool == "get_nearby":
        who = ("pirate_id", text_of(data, "pirate_id"))
        return _away(draft, ("pirates", "pirate_count"), who)
    return None


def police(draft: Draft, data: Data, me: Self) -> Doubt:
    target = data.get("target_id")
    if isinstance(target, str) and me.ids and not me.is_meant(target):
        return None
    return SHIP_FIELDS if draft.tool in SHIP_TOOLS else _of_the_list(draft)


# -- who is near -------------------------------------------------------------


def comes(draft: Draft, data: Data, me: Self) -> Doubt:
    name = text_of(data, "username")
    if draft.tool != "get_nearby" or not name or me.is_meant(name):
        return None
    if not _same_place(draft, data):
        return None if _other_place(draft, data) else ()
    entry = {"username": name, "clan_tag": text_of(data, "clan_tag")}
    return _there(draft, (_crowd(draft), "count"), ("username", name), entry)


def goes(draft: Draft, data: Data, me: Self) -> Doubt:
    name = text_of(data, "username")
    if draft.tool != "get_nearby" or not name or me.is_meant(name):
        return None
    if not _same_place(draft, data):
        return None if _other_place(draft, data) else ()
    return _away(draft, (_crowd(draft), "count"), ("username", name))


def _crowd(draft: Draft) -> str:
    return "nearby" if "nearby" in (draft.root or ()) else "players"


def _same_place(draft: Draft, data: Data) -> bool:
    here = draft.get("poi_id")
    return here is not None and here == data.get("poi_id")


def _other_place(draft: Draft, data: Data) -> bool:
    here, there = draft.get("poi_id"), data.get("poi_id")
    return bool(here and there and here != there)


def _there(
    draft: Draft, places: tuple[str, str], who: tuple[str, str], entry: dict[str, Any]
) -> Doubt:
    """Put somebody on a list, if he is not on it."""
    listed, count = places
    if not isinstance(draft.root, dict) or listed not in draft.root:
        return ()
    items = draft.root[listed] = draft.root[listed] or []
    if not isinstance(items, list):
        return ()
    if not any(is_one(item, who) for item in items):
        items.append(entry)
        draft.note(listed)
        draft.add(count, 1)
    return None


def _away(draft: Draft, places: tuple[str, str], who: tuple[str, str]) -> Doubt:
    """Take somebody off a list; in doubt where he was on it without his name."""
    listed, count = places
    items = draft.get(listed)
    if not isinstance(items, list):
        return None if items is None and not draft.get(count) else ()
    found = next((item for item in items if is_one(item, who)), None)
    if found is not None:
        items.remove(found)
        draft.note(listed)
        draft.add(count, -1)
        return None
    told = draft.get(count)
    return () if isinstance(told, int) and told > len(items) else None


def is_one(item: object, who: tuple[str, str]) -> bool:
    return isinstance(item, dict) and item.get(who[0]) == who[1]
