"""What a call was sent, kept by reference, and shown again byte for byte.

A message that stands for a stored row is kept as that row's id, plus only what
the view changed of it; texts that recur (system prompts, stubs) are kept once
under their hash. So a call costs little more than its new content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .context.types import LedgerLine
from .history import wire_of
from .models import ContextText, Memory, SentContext
from .preview import Prepared, digest_of

LONG_TEXT = 400
LEDGER_COLUMNS = ("id", "disposition", "by", "reason", "tokens_in", "tokens_out")


@dataclass(frozen=True, slots=True)
class Shown:
    """A past view, rendered again; ``intact`` tells whether the hash agrees."""

    messages: list[dict[str, Any]]
    system: str | None
    sources: list[Any]
    ledger: list[dict[str, Any]]
    intact: bool


def record(*, call_id: int, prepared: Prepared) -> SentContext:
    """Keep the view of one call, in the caller's transaction."""
    assembly = prepared.assembly
    rows = _rows(assembly.sources)
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
        ledger=[_brief(line) for line in assembly.ledger],
        stats=assembly.stats,
        facts=dict(prepared.facts),
        username=prepared.subject.username or "",
        digest=prepared.digest,
    )


def show(sent: SentContext) -> Shown:
    """Render a kept view again and check it against its hash."""
    view = sent.view
    rows = _rows(view["sources"])
    texts = dict(
        ContextText.objects.filter(pk__in=_digests(view)).values_list("digest", "text")
    )
    messages = [_restored(entry, rows, texts) for entry in view["messages"]]
    system = _text(view["system"], texts)
    return Shown(
        messages=messages,
        system=system,
        sources=view["sources"],
        ledger=[_full(line, sent) for line in sent.ledger],
        intact=digest_of(messages, system) == sent.digest,
    )


def _single(source: Any) -> int:
    # A message joined from several rows stands for none of them alone.
    return source if isinstance(source, int) else 0


def _rows(sources: Sequence[Any]) -> dict[int, Memory]:
    ids = [source for source in sources if isinstance(source, int)]
    return Memory.objects.defer("content_vector", "reasoning_vector").in_bulk(ids)


def _reference(
    message: Mapping[str, Any], row: Memory | None, texts: dict[str, str]
) -> dict[str, Any]:
    plain = wire_of(row) if row is not None else {}
    changed = {
        key: _kept(value, texts)
        for key, value in message.items()
        if key not in plain or plain[key] != value
    }
    gone = [key for key in plain if key not in message]
    entry: dict[str, Any] = {"order": list(message)} if changed or gone else {}
    if row is not None:
        entry["m"] = row.pk
    if changed:
        entry["set"] = changed
    return entry


def _restored(
    entry: Mapping[str, Any], rows: Mapping[int, Memory], texts: Mapping[str, str]
) -> dict[str, Any]:
    row = rows.get(entry["m"]) if "m" in entry else None
    values = wire_of(row) if row is not None else {}
    values |= {key: _text(value, texts) for key, value in entry.get("set", {}).items()}
    return {key: values[key] for key in entry.get("order", values) if key in values}


def _kept(value: Any, texts: dict[str, str]) -> Any:
    if not isinstance(value, str) or len(value) < LONG_TEXT:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    texts[digest] = value
    return {"text": digest}


def _text(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping) and set(value) == {"text"}:
        return texts.get(value["text"], "(text no longer kept)")
    return value


def _digests(view: Mapping[str, Any]) -> Iterable[str]:
    values = [view["system"]]
    for entry in view["messages"]:
        values += entry.get("set", {}).values()
    return [v["text"] for v in values if isinstance(v, Mapping) and set(v) == {"text"}]


def _keep_texts(texts: Mapping[str, str]) -> None:
    ContextText.objects.bulk_create(
        [ContextText(digest=digest, text=text) for digest, text in texts.items()],
        ignore_conflicts=True,
    )


def _brief(line: LedgerLine) -> list[Any]:
    return [getattr(line, column) for column in LEDGER_COLUMNS]


def _full(line: Sequence[Any], sent: SentContext) -> dict[str, Any]:
    known = dict(zip(LEDGER_COLUMNS, line, strict=True))
    handle = f"ctx://{sent.mysis_id}/{known['id']}"
    return known | {"handle": None if known["disposition"] == "kept" else handle}
