"""What is known of every Mysis and its ship, read in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeGuard

from django.db.models import QuerySet

from agents.alerts.distances import count_jumps_to, learn_bases, load_jump_fuel
from agents.alerts.rules import Attack, Facts, Known
from agents.dashboard import game_state
from agents.dashboard.game_state import HeldSnapshot
from agents.dashboard.troubles import SILENT
from agents.models import ErrorCode, Mysis
from memory.gamestate.confidence import Confidence, Judge, count_age_in_ticks
from memory.gamestate.facts import list_objects
from memory.gamestate.reactions import Owner
from memory.gamestate.types import Moment
from memory.gamestate.values import find_first, format_line, is_number, unwrap_content
from memory.models import GameEvent
from memory.snapshots.reads import read_moments

STATUS, SHIP, CARGO, SYSTEM = "get_status", "get_ship", "get_cargo", "get_system"
TOOLS = (STATUS, SHIP, CARGO, SYSTEM)
FUEL_CELL = "fuel_cell"
# Where answers of several server versions hold each number.
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "fuel": ("ship.fuel", "fuel"),
    "hull": ("ship.hull", "hull"),
    "max_hull": ("ship.max_hull", "max_hull"),
    "cargo_used": ("ship.cargo_used", "cargo_used", "used"),
    "cargo_limit": ("ship.cargo_capacity", "cargo_max", "cargo_capacity", "capacity"),
    "credits": ("player.credits", "credits"),
}
SYSTEMS = (*game_state.PLACES[0], "location.system_name")
POIS = (*game_state.PLACES[1], "location.poi_name")
BASES = game_state.PLACES[2]
TRANSIT = ("location.in_transit", "in_transit", "player.in_transit")
HOLDS = ("ship.cargo", "cargo", "items")
# Events that tell of a hit; those with a target may be of somebody else.
HITS = (
    "combat_update",
    "battle_damage",
    "pirate_combat",
    "police_combat",
    "player_died",
)
AIMED = frozenset({"combat_update", "battle_damage", "police_combat"})
BY = ("attacker", "attacker_name", "pirate_name", "killer_name")
DAMAGE = ("damage", "total_damage")
COLUMNS = (
    *("pk", "name", "state", "stuck", "trail", "hold", "lost_pins", "last_error"),
    *("wake_at", "last_memory_at", "account__username", "account__player_id"),
    *("last_error_code", "model"),
)
_ORDER = list(Confidence)
# Numbers from here on are no facts: a database holds no such one.
TOO_LARGE = 2**63
# Characters of the names of a system and of a place in it, altogether within 300.
LONGEST_PLACE = 140
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """The facts by the number of the Mysis, names by number, and systems with bases."""

    names: Mapping[int, str]
    facts: Mapping[int, Facts]
    bases: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot with its inside and its judge."""

    tool: str
    content: Mapping[str, Any]
    judge: Judge
    age: int | None

    def judge_first(self, paths: Iterable[str]) -> tuple[object, Confidence] | None:
        """The value of the first path that holds one, and how far to believe it."""
        for path in paths:
            value = find_first(self.content, path)
            if value is not None:
                return value, self.judge.judge(path)
        return None


@dataclass(frozen=True, slots=True)
class Ship:
    """The readings of one account, the most believable of what they tell."""

    readings: Sequence[Reading]
    moment: Moment

    def find_number(self, paths: Sequence[str]) -> Known | None:
        """A number, by the reading that is to be believed most; None if none tells it."""
        found = [
            Known(value, level, one.age)
            for one in self.readings
            if one.tool != SYSTEM and (told := one.judge_first(paths)) is not None
            for value, level in [told]
            if _is_sound(value)
        ]
        return min(
            found, key=lambda k: (_ORDER.index(k.confidence), k.age or 0), default=None
        )

    def find_text(self, paths: Sequence[str]) -> str | None:
        """A text that no action has made untrue; None where nobody knows."""
        for one in self.readings:
            told = one.judge_first(paths) if one.tool == STATUS else None
            if told is not None and told[1] != Confidence.INVALIDATED:
                return told[0] if isinstance(told[0], str) else None
        return None

    @property
    def status(self) -> Reading | None:
        return next((one for one in self.readings if one.tool == STATUS), None)

    @property
    def flies(self) -> bool:
        """Whether the answer was given during a flight."""
        status = self.status
        return status is not None and find_first(status.content, *TRANSIT) is True

    @property
    def docked(self) -> bool | None:
        """Whether it lies at a base; the absence of one in an answer is a fact too."""
        status = self.status
        if status is None or self.flies:
            return None
        known = isinstance(find_first(status.content, "player", "location"), Mapping)
        doubted = any(
            status.judge.judge(path) == Confidence.INVALIDATED for path in BASES
        )
        base = find_first(status.content, *BASES)
        return bool(base) if known and not doubted else None

    @property
    def has_fuel_cells(self) -> bool:
        holds = (find_first(one.content, *HOLDS) for one in self.readings)
        return any(
            item.get("item_id") == FUEL_CELL and item.get("quantity") != 0
            for hold in holds
            for item in list_objects(hold)
        )


def _is_sound(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that can be judged and stored; NaN is none."""
    return is_number(value) and abs(value) < TOO_LARGE


def read_fleet_facts(now: datetime, attack_minutes: int) -> FleetFacts:
    """The facts of the whole fleet: as many queries for any number of Myses."""
    rows = list(Mysis.objects.order_by("pk").values(*COLUMNS))
    usernames = [row["account__username"] for row in rows if row["account__username"]]
    moments = read_moments(usernames, now)
    held = game_state.load_snapshots(usernames, *TOOLS)
    ships = {
        name: Ship(_read_all(held.get(name, ()), moments[name]), moments[name])
        for name in usernames
    }
    seen = (one for ship in ships.values() for one in _list_base_systems(ship))
    bases = learn_bases(seen)
    jumps, ids = count_jumps_to(bases)
    ids_of = {row["account__username"]: row["account__player_id"] for row in rows}
    attacks = _load_attacks(ids_of, now - timedelta(minutes=attack_minutes))
    named = _name_places(ships)
    jump_fuel = load_jump_fuel(usernames)
    facts = {}
    for row in rows:
        username = row["account__username"] or ""
        base = _list_own_facts(row, now)
        ship = ships.get(username)
        told = {} if ship is None else _list_ship_facts(ship, jumps, ids)
        if ship is not None and told["place"] is not None:
            told["place_name"] = named[username]
        facts[row["pk"]] = Facts(
            **base,
            **told,
            account=username,
            attack=attacks.get(username),
            fuel_per_jump=jump_fuel.get(username),
        )
    return FleetFacts({row["pk"]: row["name"] for row in rows}, facts, bases)


def _list_own_facts(row: Row, now: datetime) -> dict[str, Any]:
    trail = row["trail"].split()
    return {
        "state": row["state"],
        "stuck": row["stuck"],
        "repeats": trail.count(trail[-1]) if trail else 0,
        "troubles": {
            rule: text for rule, find in TROUBLES.items() if (text := find(row, now))
        },
        "causes": {"held": "held", "silent": "silent", **_list_error_causes(row)},
    }


# Errors that all models of a provider have, and those that are the game's.
OF_PROVIDER = frozenset({ErrorCode.PROVIDER, ErrorCode.KEY})


def _list_error_causes(row: Row) -> dict[str, str]:
    """What Myses that errored, or fail, have in common: a code and what it is about."""
    code = row["last_error_code"]
    if not code:
        return {}
    about = row["model"].partition(":")[0] if code in OF_PROVIDER else row["model"]
    cause = code if code == ErrorCode.GAME else f"{code}:{about}"
    return {"errored": cause, "failing": cause}


def _is_silent(row: Row, now: datetime) -> str:
    last, long_ago = row["last_memory_at"], now - SILENT
    waits = row["wake_at"] is not None and row["wake_at"] > long_ago
    if row["state"] != "running" or last is None or last >= long_ago or waits:
        return ""
    return "It runs, but has written nothing for more than five minutes."


def _find_error(row: Row, now: datetime) -> str:
    return row["last_error"] or "It stopped with an error that left no text."


# What is wrong with a Mysis that is no game alarm, by rule.
TROUBLES: Mapping[str, Callable[[Row, datetime], str]] = {
    "errored": lambda row, now: (
        _find_error(row, now) if row["state"] == "errored" else ""
    ),
    "failing": lambda row, _: row["last_error"] if row["state"] == "running" else "",
    "held": lambda row, _: row["hold"],
    "silent": _is_silent,
    "stuck": lambda row, _: row["stuck"] if row["state"] == "running" else "",
    "lost_order": lambda row, _: row["lost_pins"],
}


def _read_all(held: Iterable[HeldSnapshot], moment: Moment) -> list[Reading]:
    found = []
    for one in held:
        snapshot = one.snapshot
        content = unwrap_content(snapshot.current)
        if not snapshot.args and isinstance(content, Mapping):
            age = count_age_in_ticks(snapshot, moment)
            judge = Judge(snapshot, moment)
            found.append(Reading(snapshot.tool, content, judge, age))
    return found


def _list_ship_facts(
    ship: Ship, jumps: Mapping[str, int], ids: Mapping[str, str]
) -> dict[str, Any]:
    told: dict[str, Any] = {
        name: ship.find_number(paths) for name, paths in NUMBERS.items()
    }
    system = None if ship.flies else ship.find_text(SYSTEMS)
    docked = ship.docked
    place = None
    if system is not None and docked is not None:
        # A base is a place of its own: who undocks has moved.
        poi = (ship.find_text(POIS) or "")[:LONGEST_PLACE]
        place = "|".join((system[:LONGEST_PLACE], poi, "docked" * docked))
    return told | {
        "tick": ship.moment.current_tick,
        "docked": docked,
        "place": place,
        "jumps": None if system is None else jumps.get(ids.get(system, system)),
        "fuel_cells": ship.has_fuel_cells,
    }


def _name_places(ships: Mapping[str, Ship]) -> dict[str, str]:
    """Where each ship is, in words."""
    where = {
        name: [ship.find_text(SYSTEMS) or "", ship.find_text(POIS) or ""]
        for name, ship in ships.items()
    }
    names = game_state.load_place_names(where)
    return {
        name: " > ".join(
            format_line(names[name].get(one, one)) for one in places if one
        )
        for name, places in where.items()
    }


def _list_base_systems(ship: Ship) -> Iterable[str]:
    """The systems in which its answers show a base."""
    if ship.docked and (system := ship.find_text(SYSTEMS)):
        yield system
    for one in ship.readings:
        if one.tool != SYSTEM:
            continue
        seen = find_first(one.content, "system.id", "system_id", "id")
        places = list_objects(find_first(one.content, "system.pois", "pois"))
        if isinstance(seen, str) and any(poi.get("has_base") is True for poi in places):
            yield seen


# --- Attacks


def _load_attacks(ids: Mapping[str, str], since: datetime) -> dict[str, Attack]:
    """The newest hit on each account since a moment."""
    rows: QuerySet[GameEvent] = GameEvent.objects.filter(
        username__in=[name for name in ids if name],
        received_at__gte=since,
        kind__in=HITS,
    )
    found: dict[str, Attack] = {}
    for row in rows.order_by("received_at", "pk"):
        attack = read_attack(row, ids.get(row.username) or "")
        if attack is not None and attack.at >= since:
            found[row.username] = attack
    return found


def read_attack(row: GameEvent, player_id: str) -> Attack | None:
    """What an event tells of a hit on its account; None where another was hit."""
    me = Owner(row.username, frozenset([player_id] if player_id else ()))
    targets = [row.data.get(f"target{end}") for end in ("", "_id", "_name")]
    if row.kind in AIMED and not any(me.is_meant(one) for one in targets):
        return None
    damage = find_first(row.data, *DAMAGE)
    return Attack(
        row.at or row.received_at,
        format_line(find_first(row.data, *BY)),
        float(damage) if _is_sound(damage) else None,
    )
