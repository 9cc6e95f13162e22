"""The short forms in which a call's ledger and the ids behind its view are stored.

A ledger has a line for every message considered: the verdicts that many lines share are
stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from memory.context.result_types import LedgerLine
from memory.context.types import build_handle

COLUMNS = ("id", "disposition", "by", "reason", "tokens_in", "tokens_out")
Packed = dict[str, Any]


def pack_ledger(lines: Iterable[LedgerLine]) -> Packed:
    """A ledger as it is stored: a table of verdicts, and each line's id and tokens."""
    verdicts: dict[tuple[object, ...], int] = {}
    kept: list[str] = []
    before = 0
    for line in lines:
        verdict = (line.disposition, line.by, line.reason)
        place = verdicts.setdefault(verdict, len(verdicts))
        same = line.tokens_in == line.tokens_out
        tokens = line.tokens_in if same else f"{line.tokens_in} {line.tokens_out}"
        kept.append(f"{line.id - before} {place} {tokens}")
        before = line.id
    return {
        "verdicts": [list(verdict) for verdict in verdicts],
        "lines": "\n".join(kept),
    }


def unpack_ledger(
    stored: Packed | Sequence[Sequence[Any]], mysis_id: int
) -> list[dict[str, Any]]:
    """The lines of a stored ledger, with handles; old ones hold each line in full."""
    return [_to_line(values, mysis_id) for values in _unpack_verdicts(stored)]


def _unpack_verdicts(
    stored: Packed | Sequence[Sequence[Any]],
) -> Iterable[Sequence[Any]]:
    if not isinstance(stored, Mapping):
        return stored
    verdicts, rows = stored["verdicts"], stored["lines"]
    if isinstance(rows, str):
        rows = [[*map(int, line.split())] for line in rows.splitlines()]
        ids = accumulate(row[0] for row in rows)
        rows = [[pk, *row[1:]] for pk, row in zip(ids, rows, strict=True)]
    return ((row[0], *verdicts[row[1]], row[2], row[-1]) for row in rows)


def _to_line(values: Sequence[Any], mysis_id: int) -> dict[str, Any]:
    known = dict(zip(COLUMNS, values, strict=True))
    whole = known["disposition"] == "kept"
    return known | {
        "handle": None if whole else build_handle(str(mysis_id), known["id"])
    }


def pack_sources(sources: Sequence[Any]) -> str:
    """The ids behind a view as steps from one to the next, which take a tenth in JSON.

    Of a message that was joined from several rows, each step ends with a plus.
    """
    packed: list[str] = []
    before = 0
    for source in sources:
        if source is None:
            packed.append("-")
            continue
        ids = source if isinstance(source, list) else [source]
        steps = [f"{new - old}" for old, new in pairwise([before, *ids])]
        packed.append(f"{'+'.join(steps)}+" if ids is source else steps[0])
        before = ids[-1]
    return " ".join(packed)


def unpack_sources(stored: Sequence[Any]) -> Sequence[Any]:
    """What is behind each message of a stored view: an id, several, or none.

    Those of older views with joined messages are no text but the list itself.
    """
    if not isinstance(stored, str):
        return stored
    found: list[Any] = []
    before = 0
    for packed in stored.split():
        if packed == "-":
            found.append(None)
            continue
        steps = map(int, packed.removesuffix("+").split("+"))
        ids = [*accumulate(steps, initial=before)][1:]
        found.append(ids if packed.endswith("+") else ids[0])
        before = ids[-1]
    return found
