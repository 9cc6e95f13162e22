"""Histories into the log, each message once, and out of it as JSON or to be read.

An import is stored in batches, each whole. What is there already is known by what it
says and when it was said, so an import that was broken off goes on where it stopped, and
a file that has grown brings only what is new. Messages of a source without times are
known by what they say alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Max, Min, QuerySet
from django.utils import timezone

from memory.assembly.sent_view import to_wire
from memory.context.tokens import estimate_tokens
from memory.models import (
    Branch,
    Memory,
    Note,
    Role,
    build_insert,
    fetch_rows,
    list_values,
)
from memory.models.secret_tools import read_secret_tools
from memory.models.vectors import describe_calls
from memory.notes import select_notes
from memory.redaction import hide_secrets, hide_secrets_in_value
from memory.search.results import hide_row_secrets
from memory.transfer.line import KnownMessages, TransferError, TransferMessage

BATCH = 500
# A result may have half a megabyte.
CHUNK = 100
FORMATS = ("jsonl", "openai", "markdown")
# By SQL, as the ORM would set the moment of creation anew.
INSERT = build_insert(Memory)
# What a row has as the message has it.
NOT_COPIED = ("created_at", "broadcast_at", "taken_back", "raw")
COPIED = [each.name for each in fields(TransferMessage) if each.name not in NOT_COPIED]
NULL_WHEN_EMPTY = ("sender", "signature", "tool_call_id", "tool_name")
OWNER = "SELECT id FROM agents_mysis WHERE id = %s FOR UPDATE"
LOCK = "SELECT pg_try_advisory_lock(hashtext('import_history'), %s::int)"
UNLOCK = "SELECT pg_advisory_unlock(hashtext('import_history'), %s::int)"


class ImportHooks:
    """What else an import does beside storing messages: in a bare log nothing."""

    def begin_batch(self) -> None:
        """Runs first in the transaction of a batch; raises TransferError to refuse it."""

    def find_broadcast(self, line: TransferMessage) -> int | None:
        """The id of the broadcast that a message is a delivery of, if it is one."""

    def end_batch(self, count: int) -> None:
        """Runs last in the transaction, with the number of messages stored."""


def store_lines(
    mysis_id: int,
    lines: Iterable[TransferMessage],
    done: Callable[[int], None] = lambda _: None,
    hooks: ImportHooks | None = None,
) -> int:
    """Store what is not there yet, in order, and return how many messages that were.

    ``done`` is called with the number of messages read. Raises TransferError while
    another import into this Mysis runs.
    """
    with _lock_mysis(mysis_id):
        known = KnownMessages(mysis_id)
        stored, branch = 0, None
        for batch in _split_batches(lines):
            new = [line for line in batch if not known.take_match(line)]
            if new:
                branch = _insert(mysis_id, new, hooks or ImportHooks(), branch)
            stored += len(new)
            done(len(batch))
        return stored


def _split_batches(lines: Iterable[TransferMessage]) -> Iterator[list[TransferMessage]]:
    """Batches that never part a call from its results."""
    batch: list[TransferMessage] = []
    for line in lines:
        if len(batch) >= BATCH and line.role != "tool":
            yield batch
            batch = []
        batch.append(line)
    if batch:
        yield batch


@transaction.atomic
def _insert(
    mysis_id: int,
    lines: list[TransferMessage],
    hooks: ImportHooks,
    branch: Branch | None,
) -> Branch | None:
    """Store a batch; the branch of what was taken back of this import so far."""
    # As all who write into a log: so its ids have the order of commits, and a reader
    # who follows them misses nothing.
    fetch_rows(OWNER, [mysis_id])
    hooks.begin_batch()
    now = timezone.now()
    gone = sum(line.taken_back for line in lines)
    if gone and branch is None:
        branch = _open_branch(mysis_id)
    log = Memory.objects.filter(mysis_id=mysis_id)
    newest = log.aggregate(id=Max("pk"))["id"] or 0
    rows = [
        Memory(
            **{name: getattr(line, name) for name in COPIED},
            mysis_id=mysis_id,
            broadcast_id=hooks.find_broadcast(line),
            branch=branch if line.taken_back else None,
            calls_text=describe_calls(line.tool_calls),
            tokens=estimate_tokens(line.content),
            created_at=line.created_at or now,
        )
        for line in lines
    ]
    with connection.cursor() as cursor:
        cursor.executemany(INSERT, [list_values(row) for row in rows])
    if gone and branch is not None:
        _extend_branch(branch, log.filter(pk__gt=newest, branch=branch))
    hooks.end_batch(len(lines))
    return branch


def _open_branch(mysis_id: int) -> Branch:
    """A branch for the messages that were taken back where they come from."""
    ids = ("asked_id", "kept_id", "first_id", "through_id", "correction_id")
    return Branch.objects.create(
        mysis_id=mysis_id, messages=0, by="import", **dict.fromkeys(ids, 0)
    )


def _extend_branch(branch: Branch, rows: QuerySet[Memory]) -> None:
    """Have a branch count these messages too, which are newer than those it had."""
    found = rows.aggregate(first=Min("pk"), through=Max("pk"), count=Count("pk"))
    branch.first_id = branch.first_id or found["first"]
    branch.through_id = found["through"]
    branch.messages += found["count"]
    branch.save(update_fields=["first_id", "through_id", "messages"])


@contextmanager
def _lock_mysis(mysis_id: int) -> Iterator[None]:
    number = mysis_id % 2**31
    ((mine,),) = fetch_rows(LOCK, [number])
    if not mine:
        raise TransferError("another import into this Mysis runs: wait for its end")
    try:
        yield
    finally:
        fetch_rows(UNLOCK, [number])


# --- Exports


def write_pieces(
    mysis_id: int,
    form: str,
    *,
    turn_id: int | None = None,
) -> Iterator[str]:
    """The text of an export, one message or note a piece; JSON is in ASCII.

    Of one turn if named; without secrets (A11). Notes come after the messages, the
    oldest first; a turn has none, and a chat in OpenAI's form neither.
    """
    secret = read_secret_tools()
    rows = (_hide_secrets(row, secret) for row in _read_chunks(mysis_id, turn_id))
    if form == "openai":
        # Whoever goes on from there goes on from what stands.
        yield from _write_chat(row for row in rows if not row.taken_back)
        return
    to_text = _to_markdown if form == "markdown" else _to_line
    yield from map(to_text, rows)
    for note in reversed(select_notes(mysis_id)) if turn_id is None else ():
        note.text = hide_secrets(note.text)
        heading = f"## Note: {note.name}\n\n"
        if form == "markdown":
            yield f"{heading}{note.text}\n\n"
        else:
            yield f"{json.dumps({'note': to_note(note)})}\n"


def _write_chat(rows: Iterable[Memory]) -> Iterator[str]:
    lead = '{"messages": [\n'
    for row in rows:
        yield lead + json.dumps(to_wire(row))
        lead = ",\n"
    yield "\n]}\n" if lead.startswith(",") else f"{lead}]}}\n"


def _hide_secrets(row: Memory, secret: Collection[str]) -> Memory:
    hidden = row.tool_name in secret
    row.args = {} if hidden else hide_secrets_in_value(row.args)
    return hide_row_secrets(row, secret)


def _to_line(row: Memory) -> str:
    return f"{json.dumps(to_document(row))}\n"


def _to_markdown(row: Memory) -> str:
    """A message to be read: who, when, what was thought, said, called or answered."""
    who = row.tool_name or row.sender or row.origin
    tick = "" if row.tick is None else f", tick {row.tick}"
    failed = ", refused" if row.is_error else ""
    gone = ", taken back" if row.taken_back else ""
    parts = [f"## {row.role}: {who}{failed}{gone}"]
    parts.append(f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC{tick}")
    if row.reasoning:
        parts.append("\n".join(f"> {line}" for line in row.reasoning.splitlines()))
    if row.content:
        parts.append(_fence(row.content) if row.role == Role.TOOL else row.content)
    for call in row.tool_calls:
        function = call["function"]
        parts.append(_fence(f"{function['name']}({function['arguments']})"))
    return "\n\n".join(parts) + "\n\n"


def _fence(text: str) -> str:
    """A text as it is: its fence is longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def to_document(row: Memory) -> dict[str, Any]:
    """A message with all that an import needs to store the same."""
    sent = row.broadcast
    same = {name: getattr(row, name) for name in COPIED}
    return {
        "id": row.pk,
        "turn": row.turn_id,
        **same,
        **{name: same[name] or None for name in NULL_WHEN_EMPTY},
        "created_at": row.created_at.isoformat(),
        # So that a delivery stays one.
        "broadcast": sent
        and {"id": sent.pk, "created_at": sent.created_at.isoformat()},
        **({"taken_back": True} if row.taken_back else {}),
    }


def to_note(note: Note) -> dict[str, Any]:
    """A note as it stands; its earlier versions stay behind."""
    return {
        "name": note.name,
        "text": note.text,
        "version": note.version,
        "by": note.author,
        "updated_at": note.written_at.isoformat(),
    }


def _read_chunks(mysis_id: int, turn_id: int | None) -> Iterator[Memory]:
    """All rows, by index and in chunks: a history of any length in little memory."""
    log = Memory.objects.filter(mysis_id=mysis_id).order_by("pk")
    log = log if turn_id is None else log.filter(turn_id=turn_id)
    log = log.select_related("broadcast").defer(
        "calls_text", "content_vector", "reasoning_vector", "broadcast__vector"
    )
    after = 0
    while found := list(log.filter(pk__gt=after)[:CHUNK]):
        yield from found
        after = found[-1].pk
