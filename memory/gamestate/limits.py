"""Ages at which facts stop being believed, as an operator writes them.

``get_nearby=1:5, get_map=24:49, *=5:20``: fresh up to the first number of ticks,
ageing up to the second, stale beyond. ``*`` is for all tools without a line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memory.gamestate.types import Thresholds

ANY_TOOL = "*"
LONGEST = 10**9
_ENTRY = re.compile(r"(?P<tool>[\w.*-]+)\s*=\s*(?P<fresh>\d+)\s*[:/]\s*(?P<ageing>\d+)")


def read_limits(text: str) -> Mapping[str, Thresholds]:
    """The thresholds that a setting names, by tool.

    Raises ValueError with one sentence that names the entry and the remedy.
    """
    found = {}
    for part in re.split(r"[,;\n]", text):
        entry = part.strip()
        if not entry:
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(
                f"{entry[:60]!r} is no age limit: write tool=FRESH:AGEING in ticks, "
                "such as get_nearby=1:5."
            )
        limits = Thresholds(int(match["fresh"]), int(match["ageing"]))
        if not limits.fresh <= limits.ageing <= LONGEST:
            raise ValueError(
                f"{entry[:60]!r}: the second number must not be below the first."
            )
        found[match["tool"]] = limits
    return found
