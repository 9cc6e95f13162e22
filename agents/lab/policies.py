"""Policies to replay calls under: stored ones by number or name, or any settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from agents.actions.base import ActionError
from memory.api.parameters import find_row
from memory.context import registry
from memory.context.types import Budget
from memory.gamestate.values import repair_text
from memory.models import ContextPolicy
from memory.redaction import hide_secrets

# What the policy is called that each call had.
OWN = "own"
MOST_POLICIES = 8
LONGEST_NAME = 100
MOST_TOKENS = 2**31 - 1
SETTINGS = ("name", "strategy", "options", "budget_tokens", "budget_reserve")
Given = int | str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to assemble calls; without a strategy, or a budget, each keeps its own.

    With ``keeps_tools`` each also offers its tools as it did, whatever the options say.
    """

    name: str
    strategy: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    budget_tokens: int | None = None
    budget_reserve: int = 0
    keeps_tools: bool = False


def read_policies(given: Sequence[Given]) -> list[Policy]:
    """Stored policies by number or name, and settings as a policy's columns.

    Of settings only ``strategy`` is needed; without options calls offer their tools as
    they did. No two have one name. Raises ActionError 422 that names the place.
    """
    if not 1 <= len(given) <= MOST_POLICIES:
        raise _refuse("policies", f"give 1 to {MOST_POLICIES} of them")
    found: dict[str, Policy] = {}
    for place, one in enumerate(given):
        where = f"policies[{place}]"
        policy = (
            _read_settings(where, one)
            if isinstance(one, Mapping)
            else _read_stored(where, str(one))
        )
        try:
            registry.validate_options(policy.strategy, policy.options)
        except (ValueError, TypeError) as error:
            raise _refuse(where, str(error)) from error
        name = _make_unique(policy.name, {OWN, *found})
        found[name] = replace(policy, name=name)
    return list(found.values())


def _read_stored(where: str, reference: str) -> Policy:
    row = find_row(ContextPolicy.objects.all(), reference)
    if row is None:
        known = ", ".join(
            ContextPolicy.objects.order_by("name").values_list("name", flat=True)[:20]
        )
        raise _refuse(
            where,
            f"there is no policy {reference[:100]!r}: give one of {known or 'none'}, or "
            "settings with a strategy",
        )
    return Policy(
        row.name, row.strategy, row.options, row.budget_tokens, row.budget_reserve
    )


def _read_settings(where: str, given: Mapping[str, Any]) -> Policy:
    unknown = sorted(set(given) - set(SETTINGS))
    if unknown:
        raise _refuse(
            f"{where}.{unknown[0]}", f"unknown: give {', '.join(SETTINGS)} alone"
        )
    strategy = given.get("strategy")
    if not isinstance(strategy, str):
        known = ", ".join(registry.list_names())
        raise _refuse(f"{where}.strategy", f"give one of {known}")
    options = given.get("options") or {}
    if not isinstance(options, Mapping):
        raise _refuse(f"{where}.options", "give an object, or leave it out")
    tokens, reserve = given.get("budget_tokens"), given.get("budget_reserve")
    if tokens is not None:
        reserve = Budget().reserve if reserve is None else reserve
        _check_budget(where, tokens, reserve)
    name = hide_secrets(repair_text(str(given.get("name") or strategy)))
    return Policy(
        name[:LONGEST_NAME],
        strategy,
        options,
        tokens,
        reserve or 0,
        keeps_tools=not options,
    )


def _check_budget(where: str, tokens: object, reserve: object) -> None:
    if (
        not isinstance(tokens, int)
        or not isinstance(reserve, int)
        or not 0 <= reserve < tokens <= MOST_TOKENS
    ):
        raise _refuse(
            f"{where}.budget_tokens",
            f"give 1 to {MOST_TOKENS} tokens, and a reserve below them",
        )


def _make_unique(name: str, taken: set[str]) -> str:
    """The name, numbered where another has it."""
    names = (name if number == 1 else f"{name} {number}" for number in count(1))
    return next(each for each in names if each not in taken)


def _refuse(where: str, remedy: str) -> ActionError:
    return ActionError(f"{where}: {remedy.rstrip('.')}.", code="invalid", status=422)
