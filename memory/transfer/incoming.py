"""Storing a history: in batches, each whole, and never the same message twice.

What is there already is told by what it says and when it was said, so an import that
was broken off goes on where it stopped, and a file that has grown brings only what is
new. Messages of a source without times are told by what they say alone.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain

from django.db import connection, transaction
from django.utils import timezone

from memory.calls import calls_said
from memory.context.tokens import estimate

from .line import Line, TransferError

BATCH = 500

Key = tuple[str, str, str, str, str, datetime | None]

INSERT = """
INSERT INTO memory_memory (mysis_id, role, origin, sender, content, reasoning,
  signature, tool_calls, calls_text, tool_call_id, tool_name, args, is_error, pending,
  tick, tokens, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s, %s::jsonb, %s, false, %s,
  %s, %s)
"""
KNOWN = """
SELECT role, md5(content), md5(reasoning), tool_call_id,
  coalesce(tool_calls->0->>'id', ''), created_at
FROM memory_memory WHERE mysis_id = %s
"""
OWNER = "SELECT id FROM agents_mysis WHERE id = %s FOR UPDATE"
LOCK = "SELECT pg_try_advisory_lock(hashtext('import_history'), %s::int)"
UNLOCK = "SELECT pg_advisory_unlock(hashtext('import_history'), %s::int)"


def store(
    mysis_id: int, lines: Iterable[Line], done: Callable[[int], None] = lambda _: None
) -> int:
    """Store what is not there yet, in order; how many that were.

    ``done`` is told how many messages of the source were dealt with. Raises
    TransferError while another import into this Mysis runs.
    """
    with _alone(mysis_id):
        known = _Known(mysis_id)
        stored = 0
        for batch in _batches(lines):
            new = [line for line in batch if not known.take(line)]
            _insert(mysis_id, new)
            stored += len(new)
            done(len(batch))
        return stored


class _Known:
    """The messages that are there, each to be found as often as it is there."""

    def __init__(self, mysis_id: int) -> None:
        self._timed: Counter[Key] = Counter()
        self._untimed: Counter[Key] = Counter()
        with connection.cursor() as cursor:
            cursor.execute(KNOWN, [mysis_id])
            for row in cursor:
                self._timed[tuple(row)] += 1
                self._untimed[(*row[:5], None)] += 1

    def take(self, line: Line) -> bool:
        """Whether a message is there; then it is used up."""
        calls = line.tool_calls
        key: Key = (
            line.role,
            _md5(line.content),
            _md5(line.reasoning),
            line.tool_call_id,
            calls[0]["id"] if calls else "",
            line.created_at,
        )
        known = self._untimed if line.created_at is None else self._timed
        if known[key] < 1:
            return False
        known[key] -= 1
        return True


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Batches that never part a call from its results."""
    batch: list[Line] = []
    for line in chain(lines, [None]):
        if line is None or (len(batch) >= BATCH and line.role != "tool"):
            if batch:
                yield batch
            batch = []
        if line is not None:
            batch.append(line)


@transaction.atomic
def _insert(mysis_id: int, lines: list[Line]) -> None:
    now = timezone.now()
    values = [
        (
            mysis_id,
            line.role,
            line.origin,
            line.sender,
            line.content,
            line.reasoning,
            line.signature,
            json.dumps(line.tool_calls),
            calls_said(line.tool_calls),
            line.tool_call_id,
            line.tool_name,
            json.dumps(line.args),
            line.is_error,
            line.tick,
            estimate(line.content),
            line.created_at or now,
        )
        for line in lines
    ]
    if values:
        with connection.cursor() as cursor:
            # As whoever else writes into a log: so its ids have the order of commits,
            # and who follows them misses nothing.
            cursor.execute(OWNER, [mysis_id])
            cursor.executemany(INSERT, values)


@contextmanager
def _alone(mysis_id: int) -> Iterator[None]:
    number = mysis_id % 2**31
    with connection.cursor() as cursor:
        cursor.execute(LOCK, [number])
        (mine,) = cursor.fetchone() or (False,)
    if not mine:
        raise TransferError("another import into this Mysis runs: wait for its end")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(UNLOCK, [number])


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
