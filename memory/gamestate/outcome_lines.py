"""What became of a tool call, in one line for people: "sold 20 Iron Ore, +100 cr".

It is read from the call's own answer; `event_lines` reads it from the event that tells it
later, where the game only queued the action. Each line reads on after the name of the
Mysis. Names in it come from other players: whatever they hold, they stay within one
bounded line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from memory.game_calls import GameCall
from memory.gamestate.extract import GameError, Result
from memory.gamestate.outcomes import Data, find_number, find_text, unwrap_result
from memory.gamestate.values import (
    format_line,
    format_quantity,
    format_title,
    unwrap_content,
)

# Characters of a line, and of what the game said within it.
LONGEST = 240
_LONGEST_SAID = 140
# Events that one line tells; the others are counted.
_MOST_EVENTS = 6
# Codes of answers that do not say what became of the action.
_UNKNOWN = frozenset({"outcome_unknown", "interrupted"})
_LOOKS = ("get_", "view_", "list_", "captains_log_list", "captains_log_get")

# What an action is done to, by the names that answers and arguments have for it.
_NAMES = (
    *("item", "item_name", "resource_name", "recipe", "poi", "system", "base"),
    *("base_name", "destination", "target_name", "username", "title", "ship_name"),
    *("class_name", "module_name", "faction_name"),
)
_IDS = (
    *("item_id", "target_poi", "target_system", "target_id", "target", "recipe_id"),
    *("resource_id", "mission_id", "template_id", "module_id", "ship_id", "wreck_id"),
    *("ship_class", "order_id", "base_id", "system_id", "poi_id", "query", "channel"),
    *("faction_id", "name", "topic", "skill_id", "handle", "id", "destination_id"),
)
_EARNED = ("total_earned", "credits_earned", "credits_reward", "earned")
# What a shot took away, by the names of the eras.
DAMAGE = ("damage", "total_damage")
_SPENT = ("total_cost", "cost", "fee", "listing_fee")
# Actions that are not done to anything.
_ALONE = frozenset({"login", "logout", "register", "captains_log_add"})
# Actions whose words are not those of their name.
_VERBS: Mapping[str, str] = {
    "travel": "travel to",
    "jump": "jump to",
    "dock": "dock at",
    "login": "log in",
    "logout": "log out",
    "deposit_items": "store",
    "withdraw_items": "take from storage",
    "captains_log_add": "write in the captain's log",
    "captains_log_delete": "delete from the captain's log",
    "install_mod": "install",
    "uninstall_mod": "uninstall",
    "chat": "speak in",
    "find_route": "find a route to",
    "game_help": "read the help",
    "zoea_forget": "forget note",
    "zoea_send_message": "write to another Mysis",
    "zoea_broadcast": "send a broadcast",
    "zoea_list_myses": "look at the fleet",
    "zoea_swarm_status": "look at the fleet",
}


def describe_outcome(
    call: GameCall, result: Result, *, hidden: bool = False, events: Iterable[str] = ()
) -> str:
    """What became of a call, as one line; never "".

    ``hidden`` is a call whose arguments and answer nobody may read. ``events`` are the
    lines of those that the answer brought (`event_lines`).
    """
    if hidden:
        return f"{name_action(call.name)}: {'refused' if result.is_error else 'done'}"
    data = _read_data(result.content)
    attempt = _describe_attempt(call, data)
    error = result.error
    if result.is_unknown or (error is not None and error.code in _UNKNOWN):
        return clip_line(f"{attempt}: outcome unknown, the answer was lost")
    if error is not None:
        return clip_line(f"could not {attempt}: {describe_reason(error)}")
    if result.queued:
        tick = result.arrival_tick
        due = "" if tick is None else f", due at tick {format_quantity(tick)}"
        return clip_line(f"{attempt}: queued{due}")
    said = result.content if isinstance(result.content, str) else ""
    return _join(events) or clip_line(describe_success(call, data, said))


def _join(lines: Iterable[str]) -> str:
    found = list(lines)
    rest = len(found) - _MOST_EVENTS
    more = [f"and {rest} more"] if rest > 0 else []
    return clip_line("; ".join([*found[:_MOST_EVENTS], *more]))


def clip_line(line: str) -> str:
    """A line within its longest length, without control characters."""
    return format_line(line, LONGEST)


def describe_reason(error: GameError) -> str:
    """Why the game refused, in its own words, else by its code."""
    words = format_line(error.message, _LONGEST_SAID) or error.code.replace("_", " ")
    return words or "no reason was given"


# --- What was called


def _describe_attempt(call: GameCall, data: Data) -> str:
    """A call as something to do: "sell 20 Iron Ore"."""
    words, thing = name_action(call.name), _find_thing(call, data)
    if call.name.startswith(_LOOKS):
        return f"{words} ({thing})" if thing else words
    if call.name in _ALONE:
        return words
    if not thing:
        return re.sub(" (?:at|to|in)$", "", words)
    return " ".join(filter(None, (words, _count(call, data, "quantity"), thing)))


def name_action(command: str) -> str:
    """A command as something to do: "write in the captain's log"."""
    if command in _VERBS:
        return _VERBS[command]
    if command.startswith(_LOOKS):
        return f"look at {format_title(command.replace('_log', ' log')).lower()}"
    plain = command.removeprefix("zoea_").replace("_", " ").replace("/", " ")
    return format_line(plain) or "call a tool"


def _find_thing(call: GameCall, data: Data) -> str:
    """What a call is about: a name where one is told, else an id."""
    given = call.arguments
    if name := format_line(find_text(data, *_NAMES)):
        return name
    return format_id(find_text(given, *_NAMES, *_IDS) or find_text(data, *_IDS))


def format_id(identity: str) -> str:
    """An id as a name: ``iron_ore`` is Iron Ore; one that is no words stays."""
    words = identity.replace("_", " ")
    plain = identity.islower() and words.replace(" ", "").isalpha()
    return format_line(words.title() if plain else identity)


def _count(call: GameCall, data: Data, *keys: str) -> str:
    """How much: what came of it, else what was asked for."""
    found = find_number(data, *keys)
    found = find_number(call.arguments, "quantity", "count") if found is None else found
    return "" if found is None else format_quantity(found)


# --- What came of it


def _read_data(content: object) -> Data:
    """What an answer says, out of its envelopes; {} for a text of unknown form."""
    found = unwrap_content(content)
    if not isinstance(found, Mapping):
        return {}
    return unwrap_result(found) if "command" in found else found


def describe_success(call: GameCall, data: Data, text: str = "") -> str:
    """What a call brought; ``text`` is the answer where it is no object."""
    # A text of unknown form may say anything, also that nothing came of it.
    write = _PAST.get(call.name) if data or not text or call.name in _ALONE else None
    line = write(call, data) if write else ""
    if not line and call.name.startswith(_LOOKS):
        line = _describe_attempt(call, {}).replace("look", "looked", 1)
    if not line:
        said = find_text(data, "message", "detail", "status") or text.split("\n", 1)[0]
        shown = format_line(said, _LONGEST_SAID) or "done"
        line = f"{_describe_attempt(call, data)}: {shown}"
    parts = (format_credits(data), _format_rest(data), _format_level(data))
    return "".join((line, *parts))


def format_credits(data: Data) -> str:
    """The credits that came or went, "" where the answer names none."""
    earned, spent = find_number(data, *_EARNED) or 0, find_number(data, *_SPENT) or 0
    return format_change(earned - spent)


def format_change(credits: float) -> str:
    """Credits with their sign, after a comma; "" for none."""
    sign = "-" if credits < 0 else "+"
    return f", {sign}{format_quantity(abs(credits))} cr" if credits else ""


def _format_rest(data: Data) -> str:
    left = {"not sold": "unsold", "not to be had": "unfilled"}
    found = ((find_number(data, key), words) for words, key in left.items())
    return "".join(f", {format_quantity(n)} {words}" for n, words in found if n)


def _format_level(data: Data) -> str:
    if data.get("level_up") is not True:
        return ""
    skills = data.get("leveled_up_skills")
    named = skills if isinstance(skills, list) else []
    words = [format_id(one) for one in named[:3] if isinstance(one, str)]
    return f", level up in {', '.join(words)}" if words else ", level up"


Words = Callable[[GameCall, Data], str]


def _past(verb: str, *keys: str, bare: str = "") -> Words:
    """``verb``, how much by ``keys``, and of what; ``bare`` where nothing is named."""

    def write(call: GameCall, data: Data) -> str:
        thing = _find_thing(call, data)
        count = _count(call, data, *keys) if keys else ""
        return " ".join(filter(None, (verb, count, thing))) if thing else bare

    return write


def _jump(call: GameCall, data: Data) -> str:
    system = format_line(find_text(data, "system")) or _find_thing(call, data)
    return f"jumped to {system}" if system else "jumped"


def _mine(call: GameCall, data: Data) -> str:
    return _past("mined", "quantity")(call, data) if "quantity" in data else ""


def _sell(call: GameCall, data: Data) -> str:
    count = find_number(data, "quantity_sold")
    if count is None:
        return ""
    verb = "listed" if data.get("auto_listed") else "sold"
    many = format_quantity(count) if count else "no"
    return f"{verb} {many} {_find_thing(call, data)}".rstrip()


def _buy(call: GameCall, data: Data) -> str:
    if find_number(data, "total_cost") is None:
        return ""
    return _past("bought", "quantity")(call, data)


def _refuel(call: GameCall, data: Data) -> str:
    added, cells = find_number(data, "fuel"), find_number(data, "cells_used")
    source = f" from {format_quantity(cells)} fuel cells" if cells else ""
    return "" if added is None else f"refuelled {format_quantity(added)}{source}"


def _repair(call: GameCall, data: Data) -> str:
    added = find_number(data, "repaired")
    return "" if added is None else f"repaired {format_quantity(added)} hull"


def is_missed(data: Data) -> bool:
    """Whether a shot took nothing away, as its answer or its event says."""
    if data.get("hit") is False or data.get("missed") is True:
        return True
    return find_number(data, *DAMAGE) == 0


def _attack(call: GameCall, data: Data) -> str:
    words, damage = _past("attacked", bare="attacked")(call, data), format_damage(data)
    return f"{words}: missed" if is_missed(data) else f"{words}{damage}"


def format_damage(data: Data) -> str:
    """What a shot took away, after a word; "" where that is not told."""
    amount = find_number(data, *DAMAGE)
    return f" for {format_quantity(amount)}" if amount else ""


def _scan(call: GameCall, data: Data) -> str:
    failed = " in vain" if data.get("success") is False else ""
    thing = _find_thing(call, data)
    return f"scanned {thing}{failed}" if thing else ""


def _find_route(call: GameCall, data: Data) -> str:
    target = find_text(call.arguments, "target_system", "query")
    to = format_id(target or find_text(data, "target_system"))
    jumps = find_number(data, "total_jumps")
    if data.get("found") is False:
        return f"found no route to {to}"
    many = "1 jump" if jumps == 1 else f"{format_quantity(jumps)} jumps"
    return "" if jumps is None else f"found a route to {to}: {many}"


def _search(call: GameCall, data: Data) -> str:
    query = format_line(call.arguments.get("query"))
    return f"searched “{query}”: {format_quantity(data.get('count', 0))} found"


def _report(call: GameCall, data: Data) -> str:
    given = call.arguments
    order, status = format_line(given.get("order")), find_text(given, "status")
    named = f"order {order}" if order else "its order"
    return f"reported {named} as {format_line(status).replace('_', ' ') or 'done'}"


def _own(verb: str, *keys: str) -> Words:
    """What one of our own tools did, with what its answer or its call names."""

    def write(call: GameCall, data: Data) -> str:
        named = (place.get(key) for key in keys for place in (data, call.arguments))
        return f"{verb} {format_line(next(filter(None, named), ''))}".strip()

    return write


_PAST: Mapping[str, Words] = {
    "mine": _mine,
    "sell": _sell,
    "buy": _buy,
    "refuel": _refuel,
    "repair": _repair,
    "scan": _scan,
    "find_route": _find_route,
    "travel": _past("arrived at", bare="arrived"),
    "jump": _jump,
    "dock": _past("docked at", bare="docked"),
    "undock": lambda call, data: "undocked",
    "craft": _past("crafted", "quantity"),
    "jettison": _past("jettisoned", "quantity"),
    "attack": _attack,
    "deposit_items": _past("stored", "quantity"),
    "withdraw_items": _past("took from storage", "quantity"),
    "captains_log_add": lambda call, data: "wrote in the captain's log",
    "login": lambda call, data: "logged in",
    "logout": lambda call, data: "logged out",
    "register": lambda call, data: "registered",
    "get_notifications": lambda call, data: "no news",
    "game_help": lambda call, data: "read the help",
    "zoea_note": _own("noted", "noted", "name"),
    "zoea_forget": _own("forgot note", "forgotten", "name"),
    "zoea_recall": _own("recalled", "handle"),
    "zoea_send_message": _own("wrote to", "to", "mysis_id"),
    "zoea_broadcast": _own("sent a broadcast"),
    "zoea_report_order": _report,
    "zoea_search_messages": _search,
    "zoea_search_reasoning": _search,
    "zoea_search_broadcasts": _search,
    "zoea_list_myses": _own("looked at the fleet"),
    "zoea_swarm_status": _own("looked at the fleet"),
}
