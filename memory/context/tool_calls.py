"""Which kind of tool a tool is (A1): a table per tool, never one list of names."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NoReturn

from memory.context.text import clean
from memory.context.types import POLICIES, Message, Policy

PolicyOf = Callable[[str], Policy]

#: Reads that empty what they read.
DRAINS = frozenset({"get_notifications"})
#: Reads of our own tools that show a state.
OWN_SNAPSHOTS = frozenset({"zoea_swarm_status", "zoea_list_myses"})
SNAPSHOT_PREFIXES = ("get_", "view_", "list_")
#: Actions that are named like a read.
ACTION_NAMES = frozenset({"list_item", "list_ship_for_sale"})
SNAPSHOT_NAMES = frozenset({"captains_log_list"})
QUERY_PREFIXES = ("find_", "search_", "zoea_search_")
QUERY_NAMES = frozenset({"captains_log_get", "zoea_recall"})


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a server says of a tool: its annotation and its `is_mutation` mark."""

    name: str
    read_only: bool | None = None
    is_mutation: bool | None = None


@cache
def policy_by_name(name: str) -> Policy:
    """The policy that a tool's name suggests when nothing else is known."""
    if name in DRAINS:
        return "drain"
    if name in ACTION_NAMES:
        return "mutation"
    if name in OWN_SNAPSHOTS or name in SNAPSHOT_NAMES:
        return "snapshot"
    if name.startswith(SNAPSHOT_PREFIXES):
        return "snapshot"
    if name in QUERY_NAMES or name.startswith(QUERY_PREFIXES):
        return "query"
    return "mutation"


def build_policy(
    tools: Iterable[ToolFacts], overrides: Mapping[str, str] | None = None
) -> dict[str, Policy]:
    """The table for a server's tools: overrides, annotations, marks, then names.

    Raises ValueError for an override that is no policy.
    """
    table = {fact.name: _policy_of(fact) for fact in tools}
    for name, policy in (overrides or {}).items():
        table[name] = check_policy(name, policy)
    return table


def check_policy(name: str, policy: object) -> Policy:
    """The policy, if it is one of the closed set; else ValueError naming the tool."""
    for known in POLICIES:
        if policy == known:
            return known
    choices = ", ".join(POLICIES)
    raise ValueError(f'tool_policy.{name}: "{policy}" is not one of {choices}')


def lookup(table: Mapping[str, str]) -> PolicyOf:
    """A function from tool name to policy: the table first, then the name."""
    checked = {name: check_policy(name, policy) for name, policy in table.items()}

    def policy_of(name: str) -> Policy:
        return checked.get(name) or policy_by_name(name)

    return policy_of


def _policy_of(fact: ToolFacts) -> Policy:
    if fact.name in DRAINS:
        return "drain"
    mutates = fact.is_mutation
    if fact.read_only is not None:
        mutates = not fact.read_only
    by_name = policy_by_name(fact.name)
    if mutates is None:
        return by_name
    if mutates:
        return "mutation"
    return by_name if by_name == "snapshot" else "query"


# SECTION Arguments of tool calls: JSON text that must be an object when it is sent.

REDACTED = "[redacted]"

_ODD_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
_SHORT = 256
_ODD_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else str(number)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
#: For values that are written again: 1e999 is JSON, but infinity is not.
_FINITE_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_INVALID = object()


@lru_cache(maxsize=4096)
def wire_name(name: str) -> str:
    """The tool name in the alphabet that providers accept."""
    return _ODD_NAME.sub("_", name)[:_NAME_LENGTH] or "unknown"


def as_object(text: str) -> tuple[str, bool]:
    """The text of a JSON object to send, and whether it still says the same.

    Nothing at all and `null` mean no arguments. What is no object becomes `{}`,
    since a provider refuses the whole request for it (I8).
    """
    if text == "{}":
        return text, True
    text = clean(text)
    if is_object(text):
        try:
            return _without_odd_escapes(text), True
        except RecursionError:
            return "{}", False
    return "{}", not text.strip() or load(text) is None


def is_object(text: str) -> bool:
    """Whether this is the text of a JSON object; what is short is remembered."""
    if len(text) <= _SHORT:
        return _is_short_object(text)
    return isinstance(load(text), dict)


@lru_cache(maxsize=4096)
def _is_short_object(text: str) -> bool:
    return isinstance(load(text), dict)


def load(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The value of a JSON text; a private mark, never equal to a value, if invalid."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError):
        return _INVALID


def load_object(text: str) -> dict[str, Any]:
    """The object of arguments as `as_object` leaves them, which can be sent as it is.

    `{}` where it is none.
    """
    value = load(text, _FINITE_DECODER)
    return value if isinstance(value, dict) else {}


def canonical(text: str) -> str:
    """One spelling for equal arguments; empty for none (A6)."""
    if text in ("", "{}"):
        return ""
    value = load(text)
    if value is _INVALID:
        return text
    if not value:
        return ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def redacted(text: str) -> str:
    """The same argument names with every value hidden (A11)."""
    hidden = dict.fromkeys(map(clean, load_object(text)), REDACTED)
    return json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))


def clean_value(value: Any) -> Any:
    """A JSON value whose strings and numbers can all be sent.

    Raises RecursionError for one that is nested some hundred times.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): clean_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _without_odd_escapes(text: str) -> str:
    if "\\u" not in text or not _ODD_ESCAPE.search(text):
        return text
    value = load(text)
    cleaned = clean_value(value)
    if cleaned == value:
        return text
    return json.dumps(cleaned, ensure_ascii=False, separators=(",", ":"))


# SECTION Secrets stay out of every view, also where somebody repeats them (A11, I27).
#
# Arguments and results of `secret` tools are hidden whole. The passwords, tokens and
# keys among them are hidden wherever else they stand as well.

Sanitizer = Callable[[str], str]

_SENSITIVE = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|api_?key|session_id", re.IGNORECASE
)
_SHORTEST = 6


def sanitizer(messages: Iterable[Message], policy_of: PolicyOf) -> Sanitizer:
    """The function that makes a text of this log sendable: clean, without secrets."""
    values = _values(messages, policy_of)
    if not values:
        return clean
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def sanitize(text: str) -> str:
        text = clean(text)
        if any(value in text for value in values):
            return pattern.sub(REDACTED, text)
        return text

    return sanitize


def _values(messages: Iterable[Message], policy_of: PolicyOf) -> set[str]:
    """What the secret calls of the log and their results hold under telling names."""
    values: set[str] = set()
    ids: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            if policy_of(call.name) == "secret":
                ids.add(call.id)
                _collect(load(call.arguments), values)
        if message.tool_call_id in ids:
            _collect(load(message.content), values)
    return values


def _collect(value: Any, found: set[str]) -> None:
    """Iterative, since a result may be nested deeply."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(item, str):
                    rest.append(item)
                elif len(item) >= _SHORTEST and _SENSITIVE.search(key):
                    found.update(_spellings(clean(item)))


def _spellings(secret: str) -> set[str]:
    """The secret as it is, and as JSON writes it inside of other calls and results."""
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {secret, plain, json.dumps(secret)[1:-1]}
