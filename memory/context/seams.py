"""What stands between the units of a view, so that the strictest server takes it.

Some servers refuse a user message behind a tool result, and many chat templates want
user and assistant by turns, where calls and their results do not count. So texts of one
side in a row are joined, and where a tool loop lies between two of them, a short text of
the other side stands there. The Anthropic dialect joins blocks by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from memory.context.tokens import TokenCounter
from memory.context.types import (
    FILLER_TEXT,
    NUDGE_TEXT,
    SEPARATOR,
    UNDERSTOOD_TEXT,
    Dialect,
    Kind,
    Role,
)
from memory.context.units import Unit, build_program_unit

# `join` stands for the separator in a joined text, each other one for a message.
Seam = Literal["start", "join", "understood", "go_on", "end"]
_MESSAGES: Mapping[Seam, tuple[Role, Kind]] = {
    "start": ("user", "filler"),
    "understood": ("assistant", "filler"),
    "go_on": ("user", "filler"),
    "end": ("user", "nudge"),
}


def find_seam(before: Unit | None, after: Unit | None, dialect: Dialect) -> Seam | None:
    """What belongs between two units; None stands for the beginning or the end."""
    last = before.items[-1].role if before else None
    if after is None:
        return "end" if last in (None, "assistant") else None
    if last is None:
        return "start" if after.role == "assistant" else None
    if dialect == "anthropic":
        return None
    if last == after.role:
        return "go_on" if after.items[0].calls else "join"
    return "understood" if last == "tool" and after.role == "user" else None


@dataclass(frozen=True, slots=True)
class Seams:
    """The text and the tokens of each seam of a view."""

    dialect: Dialect
    texts: Mapping[Seam, str]
    tokens: Mapping[Seam | None, int]

    @classmethod
    def count(cls, dialect: Dialect, nudge: str, count: TokenCounter) -> Seams:
        """Those of a view that ends with this nudge where it needs one."""
        texts: dict[Seam, str] = {
            "start": FILLER_TEXT,
            "join": SEPARATOR if dialect == "openai" else "",
            "understood": UNDERSTOOD_TEXT,
            "go_on": NUDGE_TEXT,
            "end": nudge,
        }
        return cls(
            dialect, texts, {None: 0} | {key: count(texts[key]) for key in texts}
        )

    def joins(self, before: Unit | None, after: Unit) -> bool:
        """Whether a unit goes to the end of the message before it."""
        return find_seam(before, after, self.dialect) == "join"

    def between(self, units: Sequence[Unit | None]) -> int:
        """The tokens of all seams of neighbours; None is the beginning or the end."""
        found = (find_seam(*pair, self.dialect) for pair in pairwise(units))
        return sum(self.tokens[seam] for seam in found)

    def fill(self, units: Iterable[Unit]) -> list[Unit]:
        """The units with the messages that belong between them."""
        filled: list[Unit] = []
        before: Unit | None = None
        for unit in (*units, None):
            seam = find_seam(before, unit, self.dialect)
            if seam is not None and seam in _MESSAGES:
                filled.append(self._build(seam))
            if unit is not None:
                filled.append(unit)
            before = unit
        return filled

    def _build(self, seam: Seam) -> Unit:
        role, kind = _MESSAGES[seam]
        return build_program_unit(self.texts[seam], self.tokens[seam], kind, role)
