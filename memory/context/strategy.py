"""What a strategy is: a callable from a history and its options to a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory.context.options import CommonOptions
from memory.context.units import History, Plan


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named strategy. `run(history, options)` gets a checked `params` instance."""

    name: str
    run: Callable[[History, Any], Plan]
    params: type[CommonOptions] = CommonOptions
