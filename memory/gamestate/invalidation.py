"""What a call made untrue, and how a stale mark lives (G6, API.md section 3).

The table is in `effects`. Here it is asked, for one call and its answer, and the
marks it leads to are made, joined and taken away again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from memory.gamestate.effects import (
    ACTIONS,
    DOCK_STATE,
    DOCKING,
    LOSSES,
    PREFIXES,
    Effects,
)
from memory.gamestate.extract import Result, read_result
from memory.gamestate.types import Stale
from memory.gamestate.values import first, primary

EVERYTHING = "*"
"""The tool of an `Invalidation` that touches every snapshot of the account."""

QUEUE_MARGIN_TICKS = 2
"""A queued action resolves at the next tick, and the tick known of now may be one
behind: from two later on its outcome is certain."""

LONGEST_WAIT_TICKS = 1000
"""No action takes so long: a later mark is from before a reset of the counter."""

PACED = frozenset({"travel", "jump", "dock", "undock", "mine", "attack"})
"""Actions that every server of era A queues: done at once, it is era C."""

NEEDS_SPACE = frozenset(
    {"travel", "jump", "mine", "attack", "scan", "survey_system", "loot_wreck"}
)
NEEDS_DOCK = frozenset({"buy", "sell", "repair", "refuel", "craft"})
"""Actions for which a server of era C undocks, or docks, by itself."""

AND = ", "
SEVERAL = "several actions"
MAX_REASON = 120

# Reads by name, for tools that neither the server nor the table tells about.
_READS = (
    "get_",
    "view_",
    "list_",
    "find_",
    "search_",
    "estimate_",
    "analyze_",
    "browse_",
    "zoea_",
    "read_",
    "forum_list",
    "forum_get",
    "faction_info",
    "faction_list",
    "faction_get",
    "captains_log_list",
    "captains_log_get",
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
    | {"not_authenticated", "session_required", "session_invalid", "session_expired"}
    | {"auth_failed", "invalid_credentials", "already_authenticated", "throttled"}
    | {"rate_limited", "queue_full", "action_queued", "action_pending", "in_transit"}
)


@dataclass(frozen=True, slots=True)
class Invalidation:
    """One tool's snapshots (``*``: all tools) that a call made untrue.

    No ``fields`` means the whole snapshot. ``resolve_tick`` is set for a queued
    action: until that tick even a new snapshot still shows the old truth.
    """

    tool: str
    fields: tuple[str, ...] = ()
    resolve_tick: int | None = None

    def hits(self, tool: str) -> bool:
        """Whether snapshots of ``tool`` are touched."""
        return self.tool in (tool, EVERYTHING)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the call itself.

    ``era`` is "A" where actions are queued, "C" where they block, null where
    nobody knows. ``mutation`` is the server's own word on the tool, if it gave one.
    """

    current_tick: int | None = None
    era: str | None = None
    mutation: bool | None = None


def touched(
    tool: str,
    arguments: Mapping[str, object] | None,
    result: object,
    circumstances: Circumstances | None = None,
) -> tuple[Invalidation, ...]:
    """The snapshots that a call with this result made untrue.

    ``result`` is a read `Result` or whatever the tool answered. A refused call
    touches nothing, save the dock state where actions dock and undock by
    themselves (era C). An unknown mutation touches everything.
    """
    around = circumstances or Circumstances()
    answer = result if isinstance(result, Result) else read_result(result)
    name = action_name(tool, arguments)
    if not is_mutation(name, around.mutation):
        return ()
    if answer.error is not None:
        return _after_refusal(name, answer.error.code, around)
    resolves = _resolve_tick(answer, around.current_tick)
    effects = _effects(name)
    if effects is None:
        return (Invalidation(EVERYTHING, (), resolves),)
    also = DOCKING if _may_have_docked(answer, effects, around) else {}
    return tuple(
        Invalidation(other, effect.fields, resolves)
        for other, effect in (*effects.items(), *also.items())
        if may_hold(effect.when, answer)
    )


def _may_have_docked(answer: Result, effects: Effects, around: Circumstances) -> bool:
    """Whether the server may have docked or undocked for an action (era C)."""
    if answer.is_unknown:
        return around.era != "A" and "get_status" in effects
    return bool(_says(answer, "auto_docked", "auto_undocked"))


def lost(reason: str) -> tuple[Invalidation, ...]:
    """The snapshots that events would have told of which were lost unread."""
    return tuple(Invalidation(t, e.fields) for t, e in LOSSES[reason].items())


def told_by(
    tool: str, arguments: Mapping[str, object] | None
) -> Mapping[str, tuple[str, ...]]:
    """The tools, and the fields of theirs, that tell whether an action happened.

    No fields means the whole answer; of an action that nobody knows it is the status.
    """
    effects = _effects(action_name(tool, arguments))
    if effects is None:
        return {"get_status": (), "get_state": ()}
    return {name: effect.fields for name, effect in effects.items() if not effect.when}


def action_name(tool: str, arguments: Mapping[str, object] | None) -> str:
    """The action behind a call: grouped tools of API v2 name it in an argument."""
    action = (arguments or {}).get("action")
    if tool.startswith("spacemolt") and isinstance(action, str) and action:
        return action
    return tool


def may_have_moved_dock(action: str, status: object) -> bool:
    """Whether a refused action may have docked or undocked, where the era is unknown.

    ``status`` is the believed get_status. A server that does not dock by itself would
    have refused for that very reason an action that does not fit to the dock state.
    """
    content = primary(status)
    if not isinstance(content, Mapping):
        return content is not None
    places = ("player.docked_at_base", "docked_at_base", "location.docked_at")
    docked = bool(first(content, *places))
    return action in (NEEDS_SPACE if docked else NEEDS_DOCK)


def is_mutation(name: str, told: bool | None = None) -> bool:
    """Whether a tool changes the game: the table, then the server, then its name."""
    if name in _READ_NAMES:
        return False
    if name in ACTIONS:
        return True
    if told is not None:
        return told
    return not name.startswith(_READS)


def _effects(name: str) -> Effects | None:
    for known in (ACTIONS, LOSSES):
        if name in known:
            return known[name]
    return next((e for prefix, e in PREFIXES.items() if name.startswith(prefix)), None)


def _after_refusal(
    name: str, code: str, around: Circumstances
) -> tuple[Invalidation, ...]:
    if around.era == "A" or code in _NOTHING_HAPPENED:
        return ()
    known = _effects(name)
    if known is not None and "get_status" not in known:
        return ()
    return tuple(Invalidation(t, e.fields) for t, e in DOCK_STATE.items())


def _resolve_tick(answer: Result, current_tick: int | None) -> int | None:
    """From which tick on a snapshot shows the outcome; None: from now on."""
    if answer.arrival_tick is not None and answer.arrival_tick > 0:
        return answer.arrival_tick
    if not (answer.queued or answer.is_unknown) or current_tick is None:
        return None
    longest = max(0, (answer.duration_ticks or 1) - 1)
    return current_tick + longest + QUEUE_MARGIN_TICKS


# -- the life of a mark ----------------------------------------------------


def mark(
    before: Stale | None,
    invalidation: Invalidation,
    tool: str,
    current_tick: int | None,
) -> Stale:
    """The stale mark of a snapshot after ``tool`` touched it.

    Marks add up: all fields of both, or the whole snapshot if either meant that;
    the tick is the later one. The reason is the newest action, together with
    those that have still to take effect.
    """
    resolves = invalidation.resolve_tick
    new = Stale(
        tool, current_tick if resolves is None else resolves, invalidation.fields
    )
    return new if before is None else _both(before, new, current_tick)


def joined(marks: Iterable[Stale], current_tick: int | None) -> Stale | None:
    """One mark that says what several say, the newest last; None for none."""
    found: Stale | None = None
    for each in marks:
        found = each if found is None else _both(found, each, current_tick)
    return found


def _both(before: Stale, new: Stale, current_tick: int | None) -> Stale:
    whole = not before.fields or not new.fields
    fields = () if whole else tuple(dict.fromkeys((*before.fields, *new.fields)))
    ticks = [stale.tick for stale in (before, new) if stale.tick is not None]
    under_way = before.tick is not None and before.tick > (current_tick or 0)
    reason = _joined(before.reason, new.reason) if under_way else new.reason
    return Stale(reason, max(ticks, default=None), fields)


def _joined(before: str, tool: str) -> str:
    """``travel, mine``; actions too many to name are an unknown one."""
    names = AND.join(dict.fromkeys((*before.split(AND), tool)))
    return SEVERAL if before == SEVERAL or len(names) > MAX_REASON else names


def carried(before: Stale | None, tick: int | None) -> Stale | None:
    """The mark that a new snapshot of ``tick`` inherits, None where it is clean.

    ``tick`` is the tick of the new snapshot, or the account's estimated one where
    it has none. A mark whose action has not taken effect by then stays.
    """
    if before is None or before.tick is None:
        return None
    if tick is not None and not tick < before.tick <= tick + LONGEST_WAIT_TICKS:
        return None
    return before


def inherited(
    pending: Iterable[Stale], tool: str, args: Mapping[str, object], tick: int | None
) -> Stale | None:
    """The mark of a tool's new snapshot while actions are still under way."""
    return joined(inherited_marks(pending, tool, args, tick), tick)


def inherited_marks(
    pending: Iterable[Stale], tool: str, args: Mapping[str, object], tick: int | None
) -> tuple[Stale, ...]:
    """The marks of a tool's new snapshot, one for each action under way.

    ``pending`` are the marks of all the account's snapshots. An action that has not
    taken effect by ``tick`` will make this new snapshot untrue as well.
    """
    live = (
        each
        for each in pending
        if carried(each, tick) is not None and each.tick is not None
    )
    return marks_for(live, tool, args)


def marks_for(
    live: Iterable[Stale], tool: str, args: Mapping[str, object]
) -> tuple[Stale, ...]:
    """What actions that have still to take effect will make untrue of a tool."""
    found: dict[Stale, None] = {}
    for other in live:
        for action in other.reason.split(AND):
            for hit in _by_action(action, other.tick):
                if hit.hits(action_name(tool, args)):
                    found[replace(other, reason=action, fields=hit.fields)] = None
    return tuple(found)


def _by_action(action: str, resolves: int | None) -> tuple[Invalidation, ...]:
    effects = _effects(action)
    if effects is None:
        return (Invalidation(EVERYTHING, (), resolves),)
    return tuple(Invalidation(t, e.fields, resolves) for t, e in effects.items())


# -- conditions ------------------------------------------------------------


def may_hold(condition: str, answer: Result) -> bool:
    """Whether a conditional effect may have happened; in doubt it has."""
    return not condition or _CONDITIONS[condition](answer)


def _skill_gain(answer: Result) -> bool:
    if _says(answer, "xp_gained", "skill_xp_gained") is not None:
        return True
    return _says(answer, "level_up") is not False


def _storage(answer: Result) -> bool:
    if _says(answer, "delivered_to_storage", "auto_listed", "unsold"):
        return True
    return _says(answer, "delivered_to_cargo", "total_earned") is None


def _fuel_cells(answer: Result) -> bool:
    return _says(answer, "source") != "station" or bool(_says(answer, "cells_used"))


def _repair_kits(answer: Result) -> bool:
    return bool(_says(answer, "kits_used")) or not _says(answer, "cost")


def _mission_items(answer: Result) -> bool:
    if _says(answer, "items_received"):
        return True
    return _says(answer, "credits_earned") is None


def _says(answer: Result, *keys: str) -> object:
    content = primary(answer.content)
    return first(content, *keys, *(f"result.{key}" for key in keys))


_CONDITIONS: Mapping[str, Callable[[Result], bool]] = {
    "skill_gain": _skill_gain,
    "storage": _storage,
    "fuel_cells": _fuel_cells,
    "repair_kits": _repair_kits,
    "mission_items": _mission_items,
}
