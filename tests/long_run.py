"""How often a test does what it repeats: as often as shows the fault, or many times."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("LONG_RUN"))


def few_or_many(few: int, many: int) -> int:
    """``few`` in each run of the tests, ``many`` in one with LONG_RUN=1."""
    return many if LONG else few
