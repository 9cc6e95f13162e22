"""What a call was sent, kept by reference; ``shown`` renders it again.

A message that stands for a stored row is kept as that row's id, plus only what
the view changed of it; texts that recur (system prompts, stubs) are kept once
under their hash. So a call costs little more than its new content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .entries import Entry
from .history import wire_of
from .ledgers import pack
from .models import ContextText, SentContext
from .preview import Prepared
from .shown import rows_of

LONG_TEXT = 400


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
    _keep_texts(texts)
    return SentContext.objects.create(
        mysis_id=prepared.subject.mysis_id,
        call_id=call_id,
        strategy=assembly.stats["strategy"],
        dialect=prepared.request.dialect,
        view=view,
        ledger=pack(assembly.ledger),
        stats=assembly.stats,
        facts=dict(prepared.facts),
        username=prepared.subject.username or "",
        first_id=prepared.loaded.start,
        last_id=stored[-1].id if stored else None,
        digest=prepared.digest,
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


def _keep_texts(texts: Mapping[str, str]) -> None:
    ContextText.objects.bulk_create(
        [ContextText(digest=digest, text=text) for digest, text in texts.items()],
        ignore_conflicts=True,
    )
