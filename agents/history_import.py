"""What an import brings to the fleet beside the rows of a log.

Imported messages are history: they are marked delivered and never sort after newer
orders. Notes come along with an export, accounts and game states with a database of the original program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.base import ActionError, describe_memory, name_mysis
from agents.actions.messages import select_orders
from agents.actions.notes import clean_note, save_note
from agents.models import Account, Broadcast, Mysis
from memory import audit
from memory.models import GameSnapshot, Memory, Note
from memory.redaction import hide_secrets
from memory.snapshots import writes
from memory.transfer.formats import HistoryFile
from memory.transfer.in_out import ImportHooks, store_lines
from memory.transfer.line import (
    TransferError,
    TransferMessage,
    TransferNote,
    survey_source,
)
from memory.transfer.nova import NovaAccount, NovaDatabase, NovaSnapshot

Done = Callable[[int], None]

# Deliveries of one broadcast lie no further apart.
AT_ONCE = timedelta(seconds=60)

LONGEST_USERNAME = 100
LONGEST_TOOL = 200


class Arrival(ImportHooks):
    """Messages that come to one Mysis, whose row the batch holds."""

    def __init__(self, mysis: Mysis) -> None:
        self._mysis = mysis
        self._given: set[int] = set()

    def begin_batch(self) -> None:
        """Refuse where a turn could see half of it, or an order would be lost."""
        mysis = Mysis.objects.get(pk=self._mysis.pk)
        if mysis.state == Mysis.State.RUNNING:
            raise TransferError(f"{mysis.name} is running: stop it first, then import")
        queued = select_orders(mysis).filter(pk__gt=mysis.heard, delivery__isnull=True)
        if queued.exists():
            raise TransferError(
                f"{mysis.name} has messages that no call had yet: start it, let it "
                "read them, stop it, then import"
            )

    def find_broadcast(self, line: TransferMessage) -> int | None:
        """The broadcast that a message is a delivery of, made where there is none."""
        if line.role != "user" or line.origin != "broadcast":
            return None
        sent_at = line.broadcast_at or line.created_at
        same = Broadcast.objects.filter(text=line.content, sender=line.sender)
        same = same.exclude(deliveries__mysis=self._mysis).exclude(pk__in=self._given)
        if sent_at is not None:
            same = same.filter(created_at__range=(sent_at - AT_ONCE, sent_at + AT_ONCE))
        found = same.values_list("created_at", "pk")
        _, number = min(
            found, key=lambda row: abs(row[0] - (sent_at or row[0])), default=(None, 0)
        )
        number = number or _store_broadcast(line, sent_at or timezone.now()).pk
        self._given.add(number)
        return number

    def end_batch(self, count: int) -> None:
        """Count the orders as heard, and say once that there is more to read."""
        newest = Memory.objects.filter(mysis_id=self._mysis.pk).latest("pk")
        Mysis.objects.filter(pk=self._mysis.pk).update(heard=newest.pk)
        events.append_all([describe_memory(newest, imported=count)])


def check_source(
    mysis: Mysis, source: HistoryFile, done: Done
) -> tuple[int, list[TransferNote]]:
    """Read all of a source; returns how many messages it has, and its notes.

    Raises TransferError, for a bad note too: nothing is stored then.
    """
    notes: list[TransferNote] = []
    total, late = survey_source(mysis.pk, source.read_lines(notes), done)
    if not total and not notes:
        raise TransferError("holds no message")
    if late:
        raise TransferError(
            f"holds orders from before the newest that {mysis.name} was given: they "
            "would pass for newer ones. Import it into a new Mysis."
        )
    return total, notes


def import_messages(mysis: Mysis, source: HistoryFile, done: Done) -> int:
    """Store the messages that are new; returns how many. Raises TransferError."""
    return store_lines(mysis.pk, source.read_lines(), done, Arrival(mysis))


def import_notes(mysis: Mysis, notes: Iterable[TransferNote]) -> tuple[int, list[str]]:
    """Store the notes that are new; a newer one of ours stays.

    Returns how many were stored, and why others could not be.
    """
    stored, refused = 0, []
    for note in notes:
        try:
            stored += _store_note(mysis, note)
        except ActionError as error:
            refused.append(f"{note.name[:100]}: {error.detail}")
    return stored, refused


def _store_note(mysis: Mysis, note: TransferNote) -> bool:
    """Store a note that is new; one of ours stays unless it is known to be older."""
    name, text = clean_note(note.name, note.text)
    ours = Note.objects.filter(mysis=mysis, name=name)
    now = timezone.now()
    at = min(note.written_at or now, now)
    is_past = note.written_at == at
    if ours.filter(text=text, **({"written_at": at} if is_past else {})).exists():
        return False
    newer = ours.filter(ended_at=None)
    if note.written_at is not None:
        newer = newer.filter(written_at__gte=at)
    if newer.exists():
        return False
    save_note(mysis=mysis, name=name, text=text, by=note.author or "import", at=at)
    return True


def import_accounts_and_states(mysis: Mysis, source: HistoryFile) -> tuple[int, int]:
    """Store the accounts and game states of a database, whole or not at all.

    What is ours already stays, but for older states. Returns how many of both are new.
    """
    if not source.is_nova:
        return 0, 0
    with closing(NovaDatabase(source.path)) as base, transaction.atomic():
        names = {source.owner, base.read_names().get(source.owner, source.owner)}
        accounts = [_store_account(kept, mysis, names) for kept in base.read_accounts()]
        secrets = base.read_passwords() | source.secrets
        snapshots = {
            (kept.username, kept.tool)
            for kept in base.read_snapshots()
            if _store_snapshot(kept, secrets)
        }
        if snapshots:
            told = {"file": source.path.name, "game_states": len(snapshots)}
            audit.record("history.import", name_mysis(mysis), after=told)
    return sum(accounts), len(snapshots)


def _store_broadcast(line: TransferMessage, sent_at: datetime) -> Broadcast:
    """Store a past broadcast; by a Mysis only where its sender says so."""
    name = line.sender.removeprefix("mysis:")
    by_mysis = name != line.sender
    made = Broadcast.objects.create(
        text=line.content,
        sender=line.sender,
        mysis=Mysis.objects.filter(name=name).first() if by_mysis else None,
        from_mysis=by_mysis,
    )
    Broadcast.objects.filter(pk=made.pk).update(created_at=sent_at)
    return made


def _store_account(kept: NovaAccount, mysis: Mysis, names: set[str]) -> bool:
    """Store an account if it is new; one of ours is given to nobody else."""
    if not kept.username or len(kept.username) > LONGEST_USERNAME:
        return False
    if Account.objects.filter(username__iexact=kept.username).exists():
        return False
    account = Account(username=kept.username)
    account.password = kept.password
    if kept.owner in names:
        account.assigned_to = mysis
    account.save()
    told = audit.read_columns(account)
    audit.record_change("account.create", f"account:{account}", after=told)
    if account.assigned_to is not None:
        Mysis.objects.filter(pk=mysis.pk, account=None).update(account=account)
    return True


def _store_snapshot(kept: NovaSnapshot, secrets: frozenset[str]) -> bool:
    """Store a game state if it is newer than ours; it is stale, whatever it says."""
    if len(kept.username) > LONGEST_USERNAME or len(kept.tool) > LONGEST_TOOL:
        return False
    key = writes.make_storage_key({})
    same = {"username": kept.username, "tool_name": kept.tool, "args_key": key}
    if GameSnapshot.objects.filter(**same, captured_at__gte=kept.captured_at).exists():
        return False
    GameSnapshot.objects.filter(**same).delete()
    GameSnapshot.objects.create(
        **same,
        content=hide_secrets(kept.content, secrets),
        game_tick=kept.tick,
        captured_at=kept.captured_at,
        stale_reason="imported",
        stale_tick=kept.tick,
    )
    return True
