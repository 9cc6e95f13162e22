"""What a strategy is, and its options: a frozen dataclass, checked before use.

To write one, copy a file of `memory.context.strategies` and name it in `registry`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal

from memory.context.types import TOOL_MODES, Budget
from memory.context.units import History, Plan

# What a strategy needs of a stored log: the newest rows, a few times its option
# `window`; the log from a place that seldom moves; or what no summary covers.
Reads = Literal["newest", "log", "unsummarized"]


# A tool's name, or a pattern of names with * and ?.
_PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,100}")
_MOST_PATTERNS = 500


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
    """A field of an options dataclass, with its help text and bounds."""
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

    tools: str = option(
        "full",
        "Send the tools in full, in fewer words, or by one line each on demand.",
        choices=TOOL_MODES,
    )
    allow: tuple[str, ...] | None = option(
        None, "Names or patterns of the game's tools that may be called; none for all."
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


def build_options(
    strategy: str, params: type[CommonOptions], given: Mapping[str, object]
) -> CommonOptions:
    """The options, checked; OptionError names the first wrong one and the remedy."""
    known = {spec.name: spec for spec in fields(params)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            names = ", ".join(sorted(known))
            raise OptionError(
                f'options.{name}: unknown for strategy "{strategy}"; it takes {names}'
            )
        values[name] = _check_value(known[name], value)
    return params(**values)


def _check_value(spec: Field[Any], value: object) -> object:
    where = f"options.{spec.name}"
    if spec.default is None:
        return _check_patterns(where, value)
    if isinstance(spec.default, bool):
        if not isinstance(value, bool):
            raise OptionError(f"{where}: must be true or false")
        return value
    if isinstance(spec.default, str):
        choices = spec.metadata["choices"]
        if choices and value not in choices:
            raise OptionError(f"{where}: must be one of {', '.join(choices)}")
        if not isinstance(value, str):
            raise OptionError(f"{where}: must be a text")
        return value
    return _check_number(spec, where, value)


def _check_patterns(where: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise OptionError(
            f'{where}: must be a list of names or patterns such as "get_*"; '
            "leave it out to allow all"
        )
    if len(value) > _MOST_PATTERNS:
        raise OptionError(f"{where}: must have at most {_MOST_PATTERNS} entries")
    for index, pattern in enumerate(value):
        if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
            raise OptionError(
                f"{where}[{index}]: must be the name of a tool, or a pattern with * "
                "and ? such as get_*"
            )
    return tuple(value)


def _check_number(spec: Field[Any], where: str, value: object) -> float:
    whole = isinstance(spec.default, int)
    refused = (bool, float) if whole else (bool,)
    if not isinstance(value, (int, float)) or isinstance(value, refused):
        raise OptionError(f"{where}: must be a {'whole ' if whole else ''}number")
    if not math.isfinite(value):
        raise OptionError(f"{where}: must be a finite number")
    least, most = spec.metadata["minimum"], spec.metadata["maximum"]
    if least is not None and value < least:
        raise OptionError(f"{where}: must be at least {least:g}")
    if most is not None and value > most:
        raise OptionError(f"{where}: must be at most {most:g}")
    return value
