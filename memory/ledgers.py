"""Ledgers as they are kept: what many lines say alike is kept once.

Each call keeps a line for every message that was considered, and most of them say
that a message was sent as stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .context.types import LedgerLine, handle_of

COLUMNS = ("id", "disposition", "by", "reason", "tokens_in", "tokens_out")

Packed = dict[str, Any]


def pack(lines: Iterable[LedgerLine]) -> Packed:
    """A ledger as a table of verdicts, and the id and tokens of each line."""
    verdicts: dict[tuple[object, ...], int] = {}
    kept: list[list[int]] = []
    for line in lines:
        verdict = (line.disposition, line.by, line.reason)
        place = verdicts.setdefault(verdict, len(verdicts))
        same = line.tokens_in == line.tokens_out
        tokens = [line.tokens_in] if same else [line.tokens_in, line.tokens_out]
        kept.append([line.id, place, *tokens])
    return {"verdicts": [list(verdict) for verdict in verdicts], "lines": kept}


def unpack(
    kept: Packed | Sequence[Sequence[Any]], mysis_id: int
) -> list[dict[str, Any]]:
    """The lines again, with handles; older ledgers kept each line in full."""
    return [_line(values, mysis_id) for values in _rows(kept)]


def _rows(kept: Packed | Sequence[Sequence[Any]]) -> Iterable[Sequence[Any]]:
    if not isinstance(kept, Mapping):
        return kept
    verdicts = kept["verdicts"]
    return ((row[0], *verdicts[row[1]], row[2], row[-1]) for row in kept["lines"])


def _line(values: Sequence[Any], mysis_id: int) -> dict[str, Any]:
    known = dict(zip(COLUMNS, values, strict=True))
    whole = known["disposition"] == "kept"
    return known | {"handle": None if whole else handle_of(str(mysis_id), known["id"])}
