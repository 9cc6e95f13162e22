"""A past call as it was sent, rendered again byte for byte from what was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from . import entries
from .entries import Entry
from .history import wire_of
from .ledgers import unpack
from .models import SentContext
from .payload import digest_of


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
    return {**known, **entries.by_id(missing)}


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
