"""What a strategy is: a callable from a history and its options to a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memory.context.options import CommonOptions
from memory.context.units import History, Plan

#: What a strategy has to be given of a stored log: the newest rows, some times its
#: option `window`; the log from a place that seldom moves; or what no summary tells.
Reads = Literal["newest", "log", "unsummarized"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named strategy. `run(history, options)` gets a checked `params` instance.

    `reads` tells who feeds it from a store which rows it cannot do without.
    """

    name: str
    run: Callable[[History, Any], Plan]
    params: type[CommonOptions] = CommonOptions
    reads: Reads = "log"
