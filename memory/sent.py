"""What a call was sent, kept by reference; ``shown`` renders it again.

A message that stands for a stored row is kept as that row's id, plus only what
the view changed of it; texts that recur (system prompts, stubs) are kept once
under their hash. So a call costs little more than its new content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db import connection
from django.utils import timezone

from .entries import Entry
from .history import wire_of
from .ledgers import pack
from .models import SentContext
from .preview import Prepared
from .shown import rows_of

LONG_TEXT = 400
COLUMNS = (
    "mysis_id",
    "call_id",
    "strategy",
    "dialect",
    "view",
    "ledger",
    "stats",
    "facts",
    "username",
    "first_id",
    "last_id",
    "digest",
    "created_at",
)
JSON = frozenset({"view", "ledger", "stats", "facts"})
KEEP = f"""
WITH texts AS (
  INSERT INTO memory_contexttext (digest, text)
  SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING
)
INSERT INTO memory_sentcontext ({", ".join(COLUMNS)})
VALUES ({", ".join(["%s"] * len(COLUMNS))}) RETURNING id
"""  # noqa: S608 (no input in the text)


def record(*, call_id: int, prepared: Prepared) -> SentContext:
    """Keep the view of one call, in the caller's transaction."""
    assembly = prepared.assembly
    stored = prepared.request.messages
    rows = rows_of(assembly.sources, prepared.loaded.rows)
    texts: dict[str, str] = {}
    view = {
        "system": _kept(assembly.system, texts),
        "sources": assembly.sources,
        "synthetic": [asdict(s) for s in assembly.synthetic],
        "messages": [
            _reference(message, rows.get(_single(source)), texts)
            for message, source in zip(assembly.messages, assembly.sources, strict=True)
        ],
    }
    return _kept_with(
        texts,
        mysis_id=prepared.subject.mysis_id,
        call_id=call_id,
        strategy=assembly.stats["strategy"],
        dialect=prepared.request.dialect,
        view=view,
        ledger=pack(assembly.ledger),
        # What it was made with is no figure, but who asks for these wants to know.
        stats=assembly.stats | {"options": dict(prepared.request.options)},
        facts=dict(prepared.facts),
        username=prepared.subject.username or "",
        first_id=prepared.loaded.start,
        last_id=stored[-1].id if stored else None,
        digest=prepared.digest,
        created_at=timezone.now(),
    )


def _single(source: Any) -> int:
    # A message joined from several rows stands for none of them alone.
    return source if isinstance(source, int) else 0


def _reference(
    message: Mapping[str, Any], row: Entry | None, texts: dict[str, str]
) -> dict[str, Any]:
    plain = wire_of(row) if row is not None else {}
    changed = {
        key: _kept(value, texts)
        for key, value in message.items()
        if key not in plain or plain[key] != value
    }
    gone = [key for key in plain if key not in message]
    other = changed or gone or list(plain) != list(message)
    entry: dict[str, Any] = {"order": list(message)} if other else {}
    if row is not None:
        entry["m"] = row.pk
    if changed:
        entry["set"] = changed
    return entry


def _kept(value: Any, texts: dict[str, str]) -> Any:
    if not isinstance(value, str) or len(value) < LONG_TEXT:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    texts[digest] = value
    return {"text": digest}


def _kept_with(texts: Mapping[str, str], **values: Any) -> SentContext:
    """Write the row, and in the same statement the texts that are not kept yet.

    In one order, so that two who keep the same texts never wait for each other.
    """
    digests = sorted(texts)
    row = [
        json.dumps(values[name]) if name in JSON else values[name] for name in COLUMNS
    ]
    with connection.cursor() as cursor:
        cursor.execute(KEEP, [digests, [texts[each] for each in digests], *row])
        (number,) = cursor.fetchone()
    return SentContext(pk=number, **values)
