"""Ledgers as they are kept: what many lines say alike is kept once.

Each call keeps a line for every message that was considered, and most of them say
that a message was sent as stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from memory.assembly import load
from memory.assembly.load import Entry, wire_of
from memory.context.types import LedgerLine, Message, handle_of
from memory.models import SentContext

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


# SECTION What makes two payloads the same.


def canonical(messages: Sequence[Mapping[str, Any]], system: str | None = None) -> str:
    """A view as canonical JSON: keys in order, no blanks, no escapes."""
    body = {"system": system, "messages": messages}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(messages: list[dict[str, Any]], system: str | None = None) -> str:
    """SHA-256 of a view as canonical JSON; equal digests are equal payloads."""
    return _sha256(canonical(messages, system))


def span_digest(messages: Iterable[Message]) -> str:
    """SHA-256 of stored messages, which tells whether a span is still what it was."""
    rows = [
        (m.id, m.role, m.content, m.is_error, m.pending, [*map(str, m.tool_calls)])
        for m in messages
    ]
    return _sha256(json.dumps(rows, separators=(",", ":"), ensure_ascii=False))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# SECTION A past call as it was sent, rendered again byte for byte from what was kept.


@dataclass(frozen=True, slots=True)
class Shown:
    """A past view, rendered again; ``intact`` tells whether the hash agrees."""

    messages: list[dict[str, Any]]
    system: str | None
    sources: list[Any]
    ledger: list[dict[str, Any]]
    intact: bool


def show(sent: SentContext) -> Shown:
    """Render a kept view again and check it against its hash."""
    messages, system = view_of(sent)
    return Shown(
        messages=messages,
        system=system,
        sources=sent.view["sources"],
        ledger=unpack(sent.ledger, sent.mysis_id),
        intact=digest_of(messages, system) == sent.digest,
    )


def view_of(
    sent: SentContext, known: Mapping[int, Entry] | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """The messages of a kept view, and the system text where it is no message.

    Rows that are ``known`` already are not read again.
    """
    view = sent.view
    rows = rows_of(view["sources"], known or {})
    texts = _texts(_digests(view))
    messages = [_restored(entry, rows, texts) for entry in view["messages"]]
    return messages, _text(view["system"], texts)


def _texts(digests: list[str]) -> dict[str, str]:
    sql = "SELECT digest, text FROM memory_contexttext WHERE digest = ANY(%s)"
    with connection.cursor() as cursor:
        cursor.execute(sql, [digests])
        return dict(cursor.fetchall())


def rows_of(sources: Sequence[Any], known: Mapping[int, Entry]) -> Mapping[int, Entry]:
    """The stored rows behind a view, those that are known and the others."""
    ids = {source for source in sources if isinstance(source, int)}
    missing = ids.difference(known)
    if not missing:
        return known
    return {**known, **load.by_id(missing)}


def _restored(
    entry: Mapping[str, Any], rows: Mapping[int, Entry], texts: Mapping[str, str]
) -> dict[str, Any]:
    row = rows.get(entry["m"]) if "m" in entry else None
    values = wire_of(row) if row is not None else {}
    values |= {key: _text(value, texts) for key, value in entry.get("set", {}).items()}
    return {key: values[key] for key in entry.get("order", values) if key in values}


def _text(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping) and set(value) == {"text"}:
        return texts.get(value["text"], "(text no longer kept)")
    return value


def _digests(view: Mapping[str, Any]) -> list[str]:
    values = [view["system"]]
    for entry in view["messages"]:
        values += entry.get("set", {}).values()
    return [v["text"] for v in values if isinstance(v, Mapping) and set(v) == {"text"}]
