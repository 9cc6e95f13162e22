"""Storing a history: in batches, each whole, and never the same message twice.

What is there already is told by what it says and when it was said, so an import that
was broken off goes on where it stopped, and a file that has grown brings only what is
new. Messages of a source without times are told by what they say alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain

from django.db import connection, transaction
from django.utils import timezone

from memory.calls import calls_said
from memory.context.tokens import estimate

from .known import Known
from .line import Line, TransferError

BATCH = 500

INSERT = """
INSERT INTO memory_memory (mysis_id, broadcast_id, role, origin, sender, content,
  reasoning, signature, tool_calls, calls_text, tool_call_id, tool_name, args, is_error,
  pending, tick, tokens, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s, %s::jsonb, %s, %s, %s,
  %s, %s)
"""
OWNER = "SELECT id FROM agents_mysis WHERE id = %s FOR UPDATE"
LOCK = "SELECT pg_try_advisory_lock(hashtext('import_history'), %s::int)"
UNLOCK = "SELECT pg_advisory_unlock(hashtext('import_history'), %s::int)"


class Reception:
    """What else happens where messages come in: here nothing, as in a bare log."""

    def begin(self) -> None:
        """In the transaction of a batch, first; raises TransferError to refuse it."""

    def broadcast_of(self, line: Line) -> int | None:
        """Which broadcast a message is a delivery of."""

    def end(self, count: int) -> None:
        """In the same transaction, last: so many messages were stored."""


def store(
    mysis_id: int,
    lines: Iterable[Line],
    done: Callable[[int], None] = lambda _: None,
    reception: Reception | None = None,
) -> int:
    """Store what is not there yet, in order; how many that were.

    ``done`` is told how many messages of the source were dealt with. Raises
    TransferError while another import into this Mysis runs.
    """
    with _alone(mysis_id):
        known = Known(mysis_id)
        stored = 0
        for batch in _batches(lines):
            new = [line for line in batch if not known.take(line)]
            if new:
                _insert(mysis_id, new, reception or Reception())
            stored += len(new)
            done(len(batch))
        return stored


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
def _insert(mysis_id: int, lines: list[Line], reception: Reception) -> None:
    with connection.cursor() as cursor:
        # As whoever else writes into a log: so its ids have the order of commits, and
        # who follows them misses nothing.
        cursor.execute(OWNER, [mysis_id])
    reception.begin()
    now = timezone.now()
    values = [
        (
            mysis_id,
            reception.broadcast_of(line),
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
            line.pending,
            line.tick,
            estimate(line.content),
            line.created_at or now,
        )
        for line in lines
    ]
    with connection.cursor() as cursor:
        cursor.executemany(INSERT, values)
    reception.end(len(lines))


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
