"""Which kind of tool a tool is (A1): a table per tool, never one list of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from memory.context.types import POLICIES, Policy

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
