"""What is remembered, as tables, and how SQL by hand is run.

A turn runs such SQL in every call, as the ORM takes three to four times as long for it,
or more than one round trip. It is not in one place, as that of `agents.db` is: each
statement stands with what is made of its rows. The log is read in `assembly.load`, what
a call was sent in `assembly.prepare` and `assembly.sent_view`, summaries in
`assembly.history_summaries`, the game state in `snapshots` (``rows``, ``reads`` and
``in_flight``), factors of tokens in `calibration`, secret tools in `search.results`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from .contexts import (
    ContextPolicy,
    ContextText,
    HistorySummary,
    SentContext,
    TokenCalibration,
)
from .game import AccountClock, ActionUnderWay, GameEvent, GameSnapshot, Lexicon
from .log import Memory, Origin, Role

__all__ = [
    "AccountClock",
    "ActionUnderWay",
    "ContextPolicy",
    "ContextText",
    "GameEvent",
    "GameSnapshot",
    "HistorySummary",
    "Lexicon",
    "Memory",
    "Origin",
    "Role",
    "SentContext",
    "TokenCalibration",
    "fetch_rows",
]


def fetch_rows(sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
    """Run a statement; its rows as tuples, none where it gives none."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else []
