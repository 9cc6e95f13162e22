"""A made-up day of work, and what a summary of it would be."""

from __future__ import annotations

from typing import Any

from memory.context.result_types import Assembly
from tests.context.histories import Log
from tests.context.views import view

EAGER = {"threshold": 1, "keep_recent": 1, "max_summary_tokens": 1}


def summary(log: Log, **more: Any) -> Assembly:
    options = {**EAGER, **more.pop("options", {})}
    more.setdefault("counter", "chars")
    return view(log, "summary", options=options, **more)


def day() -> Log:
    """Rows: 1 order, 2-3 mine, 4 answer, 5 order, 6-7 sell, 8 answer."""
    log = Log()
    log.user("Mine iron.")
    log.turn("mine", "3 iron ore")
    log.says("Mined.")
    log.user("Sell it.", "broadcast")
    log.turn("sell", "sold 3")
    log.says("Sold.")
    return log
