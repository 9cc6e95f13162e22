"""What the game's events tell of the account itself, a line each for people.

What others do near it, and what they say, tells nothing of what became of its actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from memory.game_calls import GameCall
from memory.gamestate.extract import GameError
from memory.gamestate.notices import Notice
from memory.gamestate.outcome_lines import (
    clip_line,
    describe_reason,
    describe_success,
    format_change,
    format_credits,
    format_damage,
    format_id,
    is_missed,
    name_action,
)
from memory.gamestate.outcomes import Data, find_number, find_text, unwrap_result
from memory.gamestate.reactions import (
    RESULT_TYPE,
    Owner,
    build_yield_key,
    find_outcome,
)
from memory.gamestate.values import format_line, format_quantity


class EventLine(NamedTuple):
    """A line, and the own action that it is about, "" for none."""

    text: str
    command: str = ""


def describe_events(
    notices: Iterable[Notice], me: Owner, era: str = ""
) -> Iterator[EventLine]:
    """What events tell of the account itself, a line each.

    In era C the answer of an action has told its outcome already.
    """
    told: set[tuple[object, ...]] = set()
    for notice in notices:
        command = find_outcome(notice)
        if not command:
            words = _EVENTS.get(notice.kind)
            if words and not (era == "C" and notice.kind == "action_error"):
                text = clip_line(words(notice.data, me))
                own = find_text(notice.data, "command")
                yield from [EventLine(text, own)] if text else []
            continue
        wrapped = notice.kind == RESULT_TYPE
        data = unwrap_result(notice.data) if wrapped else notice.data
        by_itself = str(notice.data.get("type", "")).startswith("auto_")
        key = (build_yield_key(data), wrapped)
        # One yield is told by two events.
        again = command == "mine" and (key[0], not wrapped) in told
        told.add(key)
        if not again and (by_itself or era != "C"):
            line = describe_success(GameCall(command, command), data)
            text = clip_line(f"{line} by itself" if by_itself else line)
            yield EventLine(text, "" if by_itself else command)


def _level_up(data: Data, me: Owner) -> str:
    skill, level = find_text(data, "skill_id"), find_number(data, "new_level", "level")
    return f"reached level {format_quantity(level)} in {format_id(skill)}"


def _damage(data: Data, me: Owner) -> str:
    if any(me.is_meant(data.get(f"target{end}")) for end in ("", "_id", "_name")):
        other = _name_side(data, "attacker_name", "attacker", "attacker_id")
        if is_missed(data):
            return f"was attacked by {other}: missed"
        return f"was hit by {other}{format_damage(data)}"
    if any(me.is_meant(data.get(f"attacker{end}")) for end in ("", "_id", "_name")):
        other = _name_side(data, "target_name", "target", "target_id")
        if is_missed(data):
            return f"attacked {other}: missed"
        return f"hit {other}{format_damage(data)}"
    return ""


def _name_side(data: Data, *keys: str) -> str:
    return format_line(find_text(data, *keys)) or "somebody"


def _fight(data: Data, me: Owner) -> str:
    hull = format_quantity(find_number(data, "player_hull", "your_hull"))
    return f"fights {_pirate(data)}" + (f", hull {hull}" if hull else "")


def _pirate(data: Data) -> str:
    return format_line(find_text(data, "pirate_name", "pirate_id")) or "a pirate"


def _die(data: Data, me: Owner) -> str:
    killer = format_line(find_text(data, "killer_name", "cause", "killer_id"))
    paid = find_number(data, "insurance_payout") or 0
    change = format_change(paid - (find_number(data, "clone_cost") or 0))
    return f"died{f', killed by {killer}' if killer else ''}{change}"


def _refuse(data: Data, me: Owner) -> str:
    reason = describe_reason(
        GameError(find_text(data, "code"), find_text(data, "message"))
    )
    return f"could not {name_action(find_text(data, 'command'))}: {reason}"


_EVENTS: Mapping[str, Callable[[Data, Owner], str]] = {
    "action_error": _refuse,
    "skill_level_up": _level_up,
    "combat_update": _damage,
    "battle_damage": _damage,
    "pirate_warning": lambda data, me: f"is warned of {_pirate(data)}",
    "pirate_combat": _fight,
    "pirate_destroyed": lambda data, me: (
        f"destroyed {_pirate(data)}{format_credits(data)}"
    ),
    "player_died": _die,
    "trade_complete": lambda data, me: "completed a trade",
}
