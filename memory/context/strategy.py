"""What a strategy is, and its options: a frozen dataclass, checked before use.

To write one, copy a file of `memory.context.strategies` and name it in `registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from memory.context.types import Budget
from memory.context.units import History, Plan

#: What a strategy needs of a stored log: the newest rows, a few times its option
#: `window`; the log from a place that seldom moves; or what no summary covers.
Reads = Literal["newest", "log", "unsummarized"]


class OptionError(ValueError):
    """An option that does not exist or has a bad value; the text names it."""


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of an options dataclass, with the help text and bounds that a form shows."""
    return field(
        default=default,
        metadata={
            "help": help,
            "minimum": minimum,
            "maximum": maximum,
            "choices": choices,
        },
    )


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """What every strategy takes."""

    state_block: bool = option(True, "Put the game state at the end of the view.")
    result_cap: int = option(
        20_000, "Most tokens of one tool result in a view; 0 for no cap.", minimum=0
    )

    def trigger(self, budget: Budget) -> int:
        """The tokens of a view at which it is compacted; 0 where it never is."""
        return 0


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named strategy: `run` gets the history and a checked instance of `params`.

    `reads` says which rows of a stored log it needs.
    """

    name: str
    run: Callable[[History, Any], Plan]
    params: type[CommonOptions] = CommonOptions
    reads: Reads = "log"


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option as a form shows it."""

    name: str
    default: object
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]


def list_option_specs(params: type[CommonOptions]) -> tuple[OptionSpec, ...]:
    """The options of an options dataclass, in their order."""
    return tuple(
        OptionSpec(
            item.name,
            None if item.default is MISSING else item.default,
            item.metadata["help"],
            item.metadata["minimum"],
            item.metadata["maximum"],
            item.metadata["choices"],
        )
        for item in fields(params)
    )


def build_options(
    strategy: str, params: type[CommonOptions], given: Mapping[str, object]
) -> CommonOptions:
    """The options, checked; OptionError names the first wrong one and the remedy."""
    known = {spec.name: spec for spec in list_option_specs(params)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        spec = known.get(name)
        if spec is None:
            names = ", ".join(sorted(known))
            raise OptionError(
                f'options.{name}: unknown for strategy "{strategy}"; it takes {names}'
            )
        values[name] = _check_value(spec, value)
    return params(**values)


def _check_value(spec: OptionSpec, value: object) -> object:
    where = f"options.{spec.name}"
    if isinstance(spec.default, bool):
        if not isinstance(value, bool):
            raise OptionError(f"{where}: must be true or false")
        return value
    if isinstance(spec.default, str):
        if spec.choices and value not in spec.choices:
            raise OptionError(f"{where}: must be one of {', '.join(spec.choices)}")
        if not isinstance(value, str):
            raise OptionError(f"{where}: must be a text")
        return value
    return _check_number(spec, where, value)


def _check_number(spec: OptionSpec, where: str, value: object) -> float:
    whole = isinstance(spec.default, int)
    allowed: type | tuple[type, ...] = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise OptionError(f"{where}: must be a {'whole ' if whole else ''}number")
    assert isinstance(value, int | float)  # noqa: S101 - told to mypy by the line above
    if not math.isfinite(value):
        raise OptionError(f"{where}: must be a finite number")
    if spec.minimum is not None and value < spec.minimum:
        raise OptionError(f"{where}: must be at least {spec.minimum:g}")
    if spec.maximum is not None and value > spec.maximum:
        raise OptionError(f"{where}: must be at most {spec.maximum:g}")
    return value
