"""What a call made untrue, and how long its stale marks stay (G6, API.md section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from memory.game_calls import READS, resolve_call
from memory.gamestate.effects import (
    ACTIONS,
    DOCK_STATE,
    DOCKING,
    LOSSES,
    PREFIXES,
    WHOLE,
    Effects,
)
from memory.gamestate.extract import SESSION_CODES, Result
from memory.gamestate.types import Stale
from memory.gamestate.values import find_first, unwrap_content

# The tool of an `Invalidation` that touches every snapshot of the account.
EVERYTHING = "*"
# A queued action resolves at the next tick, and our current tick may be one behind:
# two ticks later its outcome is certain.
QUEUE_MARGIN_TICKS = 2
# No action takes so long: a later mark is from before a reset of the counter.
LONGEST_WAIT_TICKS = 1000
# Actions that every server of era A queues: done at once, it is era C.
PACED = frozenset({"travel", "jump", "dock", "undock", "mine", "attack"})
# Actions for which a server of era C undocks, or docks, by itself.
_NEEDS_SPACE = frozenset(
    {"travel", "jump", "mine", "attack", "scan", "survey_system", "loot_wreck"}
)
_NEEDS_DOCK = frozenset({"buy", "sell", "repair", "refuel", "craft"})
SEPARATOR = ", "
SEVERAL = "several actions"
MAX_REASON = 120
# Causes of a joined mark that are kept apart; of more, the oldest are one without a name.
MOST_CAUSES = 20

# Reads by name, for tools that neither the server nor the table tells about.
_READS = (
    *("get_", "view_", "list_", "find_", "search_", "estimate_", "analyze_", "browse_"),
    *("zoea_", "read_", "forum_list", "forum_get"),
    *("faction_info", "faction_list", "faction_get"),
    *("captains_log_list", "captains_log_get"),
)
# The account's life cycle is the store's own matter, not a change of the game.
_READ_NAMES = frozenset(
    {"login", "logout", "register", "claim", "help", "catalog", "raid_status"}
    | {"session", "agentlogs", "completed_missions", "faction_list"}
)
# Refused before anything was tried: not even a ship left its dock.
_NOTHING_HAPPENED = frozenset(
    {"invalid_payload", "unknown_command", "invalid_json", "invalid_query"}
    | {"not_docked", "docked", "already_docked", "no_base"}
    | {"invalid_type", "invalid_item", "empty_entry", "invalid_request_id"}
    | SESSION_CODES
    | {"auth_failed", "invalid_credentials", "already_authenticated", "throttled"}
    | {"rate_limited", "queue_full", "action_queued", "action_pending", "in_transit"}
)


@dataclass(frozen=True, slots=True)
class Invalidation:
    """One tool's snapshots (``*``: all tools) that a call made untrue.

    No ``fields`` means the whole snapshot. Before ``resolve_tick``, which a queued
    action has, even a new snapshot still shows the old truth.
    """

    tool: str
    fields: tuple[str, ...] = ()
    resolve_tick: int | None = None

    def hits(self, tool: str) -> bool:
        """Whether snapshots of ``tool`` are touched."""
        return self.tool in (tool, EVERYTHING)

    def make_mark(self, action: Stale) -> Stale:
        """The stale mark that the action, at its tick, leaves on such a snapshot."""
        resolves = self.resolve_tick
        tick = action.tick if resolves is None else resolves
        return replace(action, tick=tick, fields=self.fields)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the call itself.

    ``era`` is "A" where actions are queued, "C" where they block, None if unknown.
    ``mutation`` is what the server says of the tool, if it does.
    """

    current_tick: int | None = None
    era: str | None = None
    mutation: bool | None = None


def find_invalidations(
    tool: str,
    arguments: Mapping[str, object] | None,
    answer: Result,
    around: Circumstances,
) -> tuple[Invalidation, ...]:
    """The snapshots that a call with this answer made untrue.

    A refused call touches nothing but the dock state, where actions dock and undock by
    themselves (era C). An unknown mutation touches everything.
    """
    name = read_action_name(tool, arguments)
    if not is_mutation(name, around.mutation):
        return ()
    if answer.error is not None:
        return _find_refusal_effects(name, answer.error.code, around)
    resolves = _find_resolve_tick(answer, around.current_tick)
    effects = _find_effects(name)
    if effects is None:
        return (Invalidation(EVERYTHING, (), resolves),)
    if answer.is_unknown:
        may_have_docked = around.era != "A" and "get_status" in effects
    else:
        may_have_docked = bool(_find_said(answer, "auto_docked", "auto_undocked"))
    also = DOCKING if may_have_docked else {}
    find = partial(_find_said, answer)
    return tuple(
        Invalidation(other, effect.fields, resolves)
        for other, effect in (*effects.items(), *also.items())
        # A condition that cannot be answered counts as met.
        if not effect.when or _CONDITIONS[effect.when](find)
    )


def find_lost(reason: str) -> tuple[Invalidation, ...]:
    """The snapshots that may be untrue after events were lost; why is a key of LOSSES."""
    return tuple(Invalidation(t, e.fields) for t, e in LOSSES[reason].items())


def find_telling_fields(
    tool: str, arguments: Mapping[str, object] | None
) -> Mapping[str, tuple[str, ...]]:
    """The tools that tell whether an action happened, by which fields; () for all."""
    effects = _find_effects(read_action_name(tool, arguments))
    if effects is None:
        return {"get_status": (), "get_state": ()}
    return {name: effect.fields for name, effect in effects.items() if not effect.when}


def read_action_name(tool: str, arguments: Mapping[str, object] | None) -> str:
    """The action of a call: grouped tools of API v2 name it in an argument."""
    return resolve_call(tool, arguments).name


def may_have_moved_dock(action: str, status: object) -> bool:
    """Whether a refused action may have docked or undocked, where the era is unknown.

    ``status`` is the believed get_status: only an action that does not fit the dock
    state makes a server dock or undock.
    """
    content = unwrap_content(status)
    if not isinstance(content, Mapping):
        return content is not None
    places = ("player.docked_at_base", "docked_at_base", "location.docked_at")
    docked = bool(find_first(content, *places))
    return action in (_NEEDS_SPACE if docked else _NEEDS_DOCK)


def is_mutation(name: str, told: bool | None = None) -> bool:
    """Whether a tool changes the game: by the table, else the server, else its name."""
    if name in _READ_NAMES or name in READS:
        return False
    if name in ACTIONS:
        return True
    if told is not None:
        return told
    return not name.startswith(_READS)


def _find_effects(name: str) -> Effects | None:
    for known in (ACTIONS, LOSSES):
        if name in known:
            return known[name]
    return next((e for prefix, e in PREFIXES.items() if name.startswith(prefix)), None)


def _find_refusal_effects(
    name: str, code: str, around: Circumstances
) -> tuple[Invalidation, ...]:
    if around.era == "A" or code in _NOTHING_HAPPENED:
        return ()
    known = _find_effects(name)
    if known is not None and "get_status" not in known:
        return ()
    return tuple(Invalidation(t, e.fields) for t, e in DOCK_STATE.items())


def _find_resolve_tick(answer: Result, current_tick: int | None) -> int | None:
    """The tick from which on a snapshot shows the outcome; None for now."""
    if answer.arrival_tick is not None and answer.arrival_tick > 0:
        return answer.arrival_tick
    if not (answer.queued or answer.is_unknown) or current_tick is None:
        return None
    longest = max(0, (answer.duration_ticks or 1) - 1)
    return current_tick + longest + QUEUE_MARGIN_TICKS


# --- Stale marks


def join_marks(marks: Iterable[Stale], current_tick: int | None) -> Stale | None:
    """One mark that says what several say, the newest last; None for none.

    Marks add up: the fields of all, or the whole snapshot if one means that, and the
    latest tick. The reason is the newest action and those still under way; ``causes``
    say which of them touched what.
    """
    found: Stale | None = None
    for each in marks:
        found = _join_two(current_tick, found, each)
    return found


def _join_two(current_tick: int | None, before: Stale | None, new: Stale) -> Stale:
    if before is None:
        return new
    whole = not before.fields or not new.fields
    fields = () if whole else tuple(dict.fromkeys((*before.fields, *new.fields)))
    ticks = [stale.tick for stale in (before, new) if stale.tick is not None]
    under_way = before.tick is not None and before.tick > (current_tick or 0)
    reason = _join_reasons(before.reason, new.reason) if under_way else new.reason
    causes = _join_causes((*before.parts, *new.parts))
    return Stale(reason, max(ticks, default=None), fields, causes=causes)


def _join_causes(marks: Iterable[Stale]) -> tuple[Stale, ...]:
    """Each action with what it touched, once: who mines all day is one cause.

    Of very many those go that newer ones stand for wholly, and then the oldest together
    become one that names no action: no fact gets a cause that is not its own.
    """
    newest: dict[tuple[str, tuple[str, ...]], Stale] = {}
    for each in marks:
        key = each.reason, each.fields
        known = newest.pop(key, each)
        ticks = (tick for tick in (known.tick, each.tick) if tick is not None)
        newest[key] = Stale(each.reason, max(ticks, default=None), each.fields)
    found = list(newest.values())
    if len(found) > MOST_CAUSES:
        found = _drop_covered(found)
    if len(found) > MOST_CAUSES:
        cut = len(found) - MOST_CAUSES + 1
        found[:cut] = [_make_nameless(found[:cut])]
    return tuple(found)


def _make_nameless(marks: Sequence[Stale]) -> Stale:
    """One cause for all that several marks touch, until the last of them is settled."""
    ticks = [mark.tick for mark in marks]
    known = [tick for tick in ticks if tick is not None]
    whole = any(not mark.fields for mark in marks)
    fields = () if whole else tuple(dict.fromkeys(p for m in marks for p in m.fields))
    return Stale(SEVERAL, None if None in ticks else max(known), fields)


def _drop_covered(causes: Sequence[Stale]) -> list[Stale]:
    """Without those of which newer ones touch all, and are settled no sooner."""
    kept: list[Stale] = []
    for each in reversed(causes):
        lasting = [one for one in kept if _lasts_as_long(one, each)]
        paths = [path for one in lasting for path in one.fields]
        whole = any(not one.fields for one in lasting)
        covered = bool(each.fields) and all(
            any(_leads_into(path, field) for path in paths) for field in each.fields
        )
        if not (whole or covered):
            kept.append(each)
    return kept[::-1]


def _lasts_as_long(one: Stale, other: Stale) -> bool:
    if one.tick is None or other.tick is None:
        return one.tick is None
    return one.tick >= other.tick


def _leads_into(path: str, field: str) -> bool:
    """Whether all that touches the field touches the path too."""
    return path == field or field.startswith(f"{path}.")


def _join_reasons(before: str, tool: str) -> str:
    """``travel, mine``; too many actions to name count as an unknown one."""
    names = SEPARATOR.join(dict.fromkeys((*before.split(SEPARATOR), tool)))
    return SEVERAL if before == SEVERAL or len(names) > MAX_REASON else names


def carry_mark(before: Stale | None, tick: int | None) -> Stale | None:
    """The mark, if it takes effect after ``tick``: a new snapshot's, or the present."""
    if before is None or before.tick is None:
        return None
    if tick is not None and not tick < before.tick <= tick + LONGEST_WAIT_TICKS:
        return None
    return before


def build_marks(
    live: Iterable[Stale], tool: str, args: Mapping[str, object]
) -> tuple[Stale, ...]:
    """The marks that actions still under way will put on a tool's snapshots."""
    found: dict[Stale, None] = {}
    name = read_action_name(tool, args)
    for other in live:
        for action in other.reason.split(SEPARATOR):
            effect = (_find_effects(action) or {name: WHOLE}).get(name)
            if effect is not None:
                found[replace(other, reason=action, fields=effect.fields)] = None
    return tuple(found)


# --- Conditions


def _find_said(answer: Result, *keys: str) -> object:
    content = unwrap_content(answer.content)
    return find_first(content, *keys, *(f"result.{key}" for key in keys))


# Whether an answer meets them, asked by what it says under the first of several keys.
_CONDITIONS: Mapping[str, Callable[[Callable[..., object]], bool]] = {
    "skill_gain": lambda find: (
        find("xp_gained", "skill_xp_gained") is not None
        or find("level_up") is not False
    ),
    "storage": lambda find: (
        bool(find("delivered_to_storage", "auto_listed", "unsold"))
        or find("delivered_to_cargo", "total_earned") is None
    ),
    "fuel_cells": lambda find: find("source") != "station" or bool(find("cells_used")),
    "repair_kits": lambda find: bool(find("kits_used")) or not find("cost"),
    "mission_items": lambda find: (
        bool(find("items_received")) or find("credits_earned") is None
    ),
}
