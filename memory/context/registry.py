"""The one table of strategies: ours by dotted path, others by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from memory.context.options import CommonOptions, OptionError, OptionSpec, build, specs
from memory.context.strategy import Strategy
from memory.context.types import DEFAULT_STRATEGY

BUILT_IN: Mapping[str, str] = {
    "full": "memory.context.strategies.full",
    "window": "memory.context.strategies.window",
    "snapshot-window": "memory.context.strategies.snapshot_window",
}
ENTRY_POINTS = "zoea.strategies"
DEFAULT = DEFAULT_STRATEGY


class UnknownStrategy(ValueError):
    """No strategy has this name; the text lists those that exist."""


def names() -> tuple[str, ...]:
    """Every registered name, our own first."""
    return (*BUILT_IN, *sorted(set(_plugins()) - set(BUILT_IN)))


@cache
def resolve(name: str) -> Strategy:
    """The strategy of that name; UnknownStrategy or TypeError for a bad plug-in."""
    if name in BUILT_IN:
        return _strategy(name, import_module(BUILT_IN[name]).STRATEGY)
    plugins = _plugins()
    if name not in plugins:
        known = ", ".join(names())
        raise UnknownStrategy(f'strategy: "{name}" is unknown; use one of {known}')
    (found,) = entry_points(group=ENTRY_POINTS, name=name)
    return _strategy(name, found.load())


def validate_options(strategy: str, options: Mapping[str, object]) -> CommonOptions:
    """The checked options of a strategy; UnknownStrategy or OptionError else."""
    return build(strategy, resolve(strategy).params, options)


def option_specs(strategy: str) -> tuple[OptionSpec, ...]:
    """The options of a strategy, as a form shows them."""
    return specs(resolve(strategy).params)


def reset() -> None:
    """Forget what was resolved; for tests that add strategies."""
    resolve.cache_clear()
    _plugins.cache_clear()


@cache
def _plugins() -> tuple[str, ...]:
    return tuple(point.name for point in entry_points(group=ENTRY_POINTS))


def _strategy(name: str, found: object) -> Strategy:
    if not isinstance(found, Strategy):
        raise TypeError(f'strategy: "{name}" is no memory.context.strategy.Strategy')
    return found


__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "OptionError",
    "UnknownStrategy",
    "names",
    "option_specs",
    "reset",
    "resolve",
    "validate_options",
]
