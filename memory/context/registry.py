"""The strategies by name: our own from this table, others by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from memory.context.strategy import CommonOptions, Strategy, build_options
from memory.context.types import DEFAULT_STRATEGY

BUILT_IN: Mapping[str, str] = {
    "full": "memory.context.strategies.full",
    "window": "memory.context.strategies.window",
    "snapshot-window": "memory.context.strategies.snapshot_window",
    "mask": "memory.context.strategies.mask",
    "summary": "memory.context.strategies.summary",
    "coalesced": "memory.context.strategies.coalesced",
    "tiered": "memory.context.strategies.tiered",
}
ENTRY_POINTS = "zoea.strategies"
DEFAULT = DEFAULT_STRATEGY


class UnknownStrategy(ValueError):
    """No strategy has this name, or its plug-in is broken; the text says which."""


def list_names() -> tuple[str, ...]:
    """Every registered name, our own first."""
    return (*BUILT_IN, *sorted(set(_plugin_names()) - set(BUILT_IN)))


@cache
def find_strategy(name: str) -> Strategy:
    """The strategy of that name; UnknownStrategy where none works under it."""
    if name in BUILT_IN:
        built_in: Strategy = import_module(BUILT_IN[name]).STRATEGY
        return built_in
    if name not in _plugin_names():
        known = ", ".join(list_names())
        raise UnknownStrategy(f'strategy: "{name}" is unknown; use one of {known}')
    return _load_plugin(name)


def validate_options(strategy: str, options: Mapping[str, object]) -> CommonOptions:
    """The options of a strategy, checked; raises UnknownStrategy or OptionError."""
    return build_options(strategy, find_strategy(strategy).params, options)


@cache
def _plugin_names() -> tuple[str, ...]:
    return tuple(point.name for point in entry_points(group=ENTRY_POINTS))


def _load_plugin(name: str) -> Strategy:
    point = next(iter(entry_points(group=ENTRY_POINTS, name=name)))
    try:
        found = point.load()
    except Exception as error:
        raise UnknownStrategy(
            f'strategy: the plug-in "{name}" cannot be loaded '
            f"({type(error).__name__}: {error})"
        ) from error
    if not isinstance(found, Strategy) or not issubclass(found.params, CommonOptions):
        raise UnknownStrategy(
            f'strategy: the plug-in "{name}" is no memory.context.strategy.Strategy '
            "with options derived from CommonOptions"
        )
    return found
