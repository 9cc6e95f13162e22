"""Tool calls: the policy of a tool (A1), sendable arguments, and hidden secrets.

Arguments and results of `secret` tools are hidden whole. The passwords, tokens and
keys among them are hidden wherever else they stand as well (A11, I27).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NoReturn, Protocol

from memory.context.text import clean_text
from memory.context.types import POLICIES, Message, Policy, ToolCall
from memory.game_calls import (
    READS,
    WRAPPER,
    WRITES,
    GameCall,
    is_group,
    is_secret_call,
    read_wrapped,
    resolve_call_text,
)
from memory.secret_patterns import SHORTEST, is_secret_name


class PolicyLookup(Protocol):
    """The policy of a call by its tool and, of a tool with many commands, by the rest."""

    def __call__(self, name: str, arguments: str = "", /) -> Policy: ...


Sanitizer = Callable[[str], str]

REDACTED = "[redacted]"

# Reads that empty what they read.
_DRAINS = frozenset({"get_notifications"})
# Actions that are named like a read.
_ACTION_NAMES = frozenset({"list_item", "list_ship_for_sale"})
_SNAPSHOT_NAMES = frozenset(
    {"captains_log_list", "zoea_swarm_status", "zoea_list_myses"}
)
_SNAPSHOT_PREFIXES = ("get_", "view_", "list_")
# Under the option `tools: on_demand` the game's tools are called by way of these.
GAME, GAME_HELP = "game", "game_help"
# The names of the program's own tools: no other tool is offered under one of them.
OWN_TOOLS = frozenset(
    {GAME, GAME_HELP, "zoea_search_messages", "zoea_search_reasoning"}
    | {"zoea_search_broadcasts", "zoea_recall", "zoea_note", "zoea_forget"}
    | {"zoea_report_order", "zoea_swarm_status", "zoea_list_myses"}
    | {"zoea_send_message", "zoea_broadcast"}
)
_QUERY_NAMES = frozenset({"captains_log_get", "zoea_recall", GAME_HELP})
_QUERY_PREFIXES = ("find_", "search_", "zoea_search_")


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a server says of a tool: its read-only annotation and its mutation mark."""

    name: str
    read_only: bool | None = None
    is_mutation: bool | None = None


@cache
def guess_policy(name: str) -> Policy:
    """The policy that a tool's name suggests when nothing else is known."""
    if name in _DRAINS:
        return "drain"
    if name in _ACTION_NAMES:
        return "mutation"
    if name in _SNAPSHOT_NAMES or name.startswith(_SNAPSHOT_PREFIXES):
        return "snapshot"
    if name in _QUERY_NAMES or name.startswith(_QUERY_PREFIXES):
        return "query"
    return "mutation"


def build_policy_table(
    tools: Iterable[ToolFacts], overrides: Mapping[str, str] | None = None
) -> dict[str, Policy]:
    """Policies by override (ValueError for a bad one), annotation, mark, then name."""
    table = {fact.name: _policy_of(fact) for fact in tools}
    for name, policy in (overrides or {}).items():
        table[name] = check_policy(name, policy)
    return table


def check_policy(name: str, policy: object) -> Policy:
    """The policy, if it is one of the closed set; else ValueError naming the tool."""
    if policy in POLICIES:
        return policy
    choices = ", ".join(POLICIES)
    raise ValueError(f'tool_policy.{name}: "{policy}" is not one of {choices}')


def build_policy_lookup(table: Mapping[str, str]) -> PolicyLookup:
    """A function from tool name to policy: by the table, else by the name.

    Where the table names a secret tool, a call of which cannot be read what it names is
    secret: it may be of that one (I27).
    """
    checked = {name: check_policy(name, policy) for name, policy in table.items()}
    secret = frozenset(name for name in checked if checked[name] == "secret")

    def policy_of(name: str, arguments: str = "", /) -> Policy:
        if name != WRAPPER and not is_group(name):
            return checked.get(name) or guess_policy(name)
        call = resolve_call_text(name, arguments)
        unknown = call.tool == WRAPPER or call.unread
        if unknown and is_secret_call(name, arguments, secret):
            return "secret"
        if call.grouped:
            own = checked.get(call.name) if call.name != call.tool else None
            return own or choose_call_policy(call, checked.get(call.tool))
        return checked.get(call.name) or guess_policy(call.name)

    return policy_of


def choose_call_policy(call: GameCall, told: Policy | None = None) -> Policy:
    """The policy of a call of a grouped tool: by its command, whatever else is said.

    ``told`` is the tool's own. An unknown action is a mutation, unless the server says
    that the whole tool only reads.
    """
    if told in ("secret", "print"):
        return told
    if call.name in READS:
        by_name = guess_policy(call.name)
        return "query" if by_name == "mutation" else by_name
    if call.name in WRITES or told not in ("query", "snapshot"):
        return "mutation"
    return "snapshot" if _is_snapshot_name(call.name.rpartition("/")[2]) else "query"


def _is_snapshot_name(name: str) -> bool:
    return not is_group(name) and guess_policy(name) == "snapshot"


def _policy_of(fact: ToolFacts) -> Policy:
    if fact.name in _DRAINS:
        return "drain"
    mutates = fact.is_mutation if fact.read_only is None else not fact.read_only
    by_name = guess_policy(fact.name)
    if mutates is None:
        return by_name
    if mutates:
        return "mutation"
    return by_name if by_name == "snapshot" else "query"


# --- Arguments: JSON text that must be an object when it is sent (I8)

_ODD_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
_CACHED_LENGTH = 256
_ODD_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _parse_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else str(number)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
# For values that are written again: 1e999 is JSON, but infinity is not.
_FINITE_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_parse_float
)
_INVALID = object()


@lru_cache(maxsize=4096)
def normalize_name(name: str) -> str:
    """The tool name in the alphabet that providers accept."""
    return _ODD_NAME.sub("_", name)[:_NAME_LENGTH] or "unknown"


def normalize_arguments(text: str) -> tuple[str, bool]:
    """The text of a JSON object to send, and whether it means the same.

    An empty text and `null` mean no arguments. What is no object becomes `{}`, since
    a provider refuses the whole request for it (I8).
    """
    if text == "{}":
        return text, True
    text = clean_text(text)
    if is_object(text):
        try:
            return _without_odd_escapes(text), True
        except RecursionError:
            return "{}", False
    return "{}", not text.strip() or parse_json(text) is None


def is_object(text: str) -> bool:
    """Whether this is the text of a JSON object; answers on short texts are cached."""
    if len(text) <= _CACHED_LENGTH:
        return _is_short_object(text)
    return isinstance(parse_json(text), dict)


@lru_cache(maxsize=4096)
def _is_short_object(text: str) -> bool:
    return isinstance(parse_json(text), dict)


def parse_json(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value of a JSON text; if it is invalid, an object that equals no value."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError):
        return _INVALID


def is_json(text: str) -> bool:
    """Whether a text is a JSON value, whole."""
    return parse_json(text) is not _INVALID


def parse_arguments(text: str) -> dict[str, Any]:
    """The object of a text from `normalize_arguments`; `{}` where it is none."""
    value = parse_json(text, _FINITE_DECODER)
    return value if isinstance(value, dict) else {}


def canonicalize_arguments(text: str) -> str:
    """One spelling for equal arguments; empty for none (A6)."""
    if text in ("", "{}"):
        return ""
    value = parse_json(text)
    if value is _INVALID:
        return text
    if not value:
        return ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def redact_arguments(text: str) -> str:
    """The arguments as JSON with every value hidden (A11)."""
    hidden = dict.fromkeys(map(clean_text, parse_arguments(text)), REDACTED)
    return json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))


def clean_value(value: Any) -> Any:
    """A JSON value that can be sent; RecursionError where it nests too deep."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): clean_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


# --- Calls by way of `game`


def is_own_tool(name: str) -> bool:
    """Whether a tool is the program's own, not the game's."""
    return name in OWN_TOOLS


def get_sent_form(call: ToolCall) -> tuple[str, str]:
    """The name and the arguments that a call is sent with: its own, or those of `game`."""
    if call.via != GAME:
        return call.name, call.arguments
    return GAME, call.original or f"{_start_wrapped(call.name)}{call.arguments}}}"


def unwrap_call(call: ToolCall) -> ToolCall:
    """The call that `game` was asked to make; any other, or a wrong one, as it is.

    `get_sent_form` gives back what a call was made of, in the model's own spelling.
    """
    made = call
    while made.name == GAME and (inner := _unwrap_once(made)) is not None:
        made = inner
    if made is call or get_sent_form(made) == (GAME, call.arguments):
        return made
    return replace(made, original=call.arguments)


def _unwrap_once(call: ToolCall) -> ToolCall | None:
    given = parse_json(clean_text(call.arguments))
    # What stands beside the two is refused: it may be what the tool was to be told.
    if not isinstance(given, dict) or given.keys() - {"command", "arguments"}:
        return None
    wrapped = read_wrapped(given)
    if wrapped is None:
        return None
    name, arguments = wrapped
    text = _write_wrapped(call.arguments, given["command"], arguments)
    return ToolCall(call.id, name, text, GAME)


def _write_wrapped(wrapped: str, name: str, arguments: object) -> str:
    """The text of the arguments inside; as it stands there, where that can be told."""
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):  # many models write the object as a text
        return arguments
    start = _start_wrapped(name)
    inside = wrapped[len(start) : -1]
    if wrapped.startswith(start) and parse_json(inside) == arguments:
        return inside
    return json.dumps(arguments, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _start_wrapped(name: str) -> str:
    return f'{{"command": {json.dumps(name, ensure_ascii=False)}, "arguments": '


def _without_odd_escapes(text: str) -> str:
    if "\\u" not in text or not _ODD_ESCAPE.search(text):
        return text
    value = parse_json(text)
    cleaned = clean_value(value)
    if cleaned == value:
        return text
    return json.dumps(cleaned, ensure_ascii=False, separators=(",", ":"))


# --- Secrets


def build_sanitizer(messages: Iterable[Message], policy_of: PolicyLookup) -> Sanitizer:
    """A function that makes a text sendable: clean, and without this log's secrets."""
    values = _find_secrets(messages, policy_of)
    if not values:
        return clean_text
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def sanitize(text: str) -> str:
        text = clean_text(text)
        if any(value in text for value in values):
            return pattern.sub(REDACTED, text)
        return text

    return sanitize


def _find_secrets(messages: Iterable[Message], policy_of: PolicyLookup) -> set[str]:
    """What secret calls and their results hold under names such as `password`."""
    values: set[str] = set()
    ids: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            if policy_of(call.name, call.arguments) == "secret":
                ids.add(call.id)
                _collect_secrets(parse_json(call.arguments), values)
        if message.tool_call_id in ids:
            _collect_secrets(parse_json(message.content), values)
    return values


def _collect_secrets(value: Any, found: set[str]) -> None:
    rest = [value]  # no recursion: a result may be nested deeply
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(item, str):
                    rest.append(item)
                elif len(item) >= SHORTEST and is_secret_name(key):
                    found.update(_spell_in_json(clean_text(item)))


def _spell_in_json(secret: str) -> set[str]:
    """The secret as it is, and as JSON writes it inside other texts."""
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {secret, plain, json.dumps(secret)[1:-1]}
