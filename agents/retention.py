"""What prune may remove after some days, and what stays however old it is.

Rows go in batches, each its own transaction, so that nothing waits long and an end
at any moment leaves nothing half done. Of the log stays whatever somebody could still
need: the messages of the summary in use and all after it, of an open turn, the newest
order with its answer, and all that a kept call was sent; pins are no messages. Notes
in use stay however old they are; what they said before goes with the days.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, Min, OuterRef, Q, QuerySet

from agents.models import (
    Alert,
    AlertDelivery,
    CreditChange,
    Event,
    Mysis,
    Order,
    OrderRecipient,
    Replay,
    ReplayCall,
    Rewind,
    Turn,
)
from memory.assembly.history_summaries import read_newest_summary
from memory.assembly.packing import unpack_sources
from memory.audit import delete_entries
from memory.context.types import PEER
from memory.models import (
    AuditEntry,
    ContextText,
    GameSnapshot,
    Memory,
    Note,
    Role,
    SentContext,
    fetch_rows,
)
from memory.notes import drop_versions

BATCH = 1000

# A turn takes its calls and what they were sent along.
TURN_BATCH = 100

# The texts that kept calls were sent: where one is named, its hash stands alone.
NAMED = """
SELECT DISTINCT found #>> '{}' FROM memory_sentcontext AS sent
JOIN agents_modelcall AS call ON call.id = sent.call_id
CROSS JOIN LATERAL jsonb_path_query(sent.view, '$.**.text') AS found
WHERE sent.id > %(after)s AND NOT call.turn_id = ANY(%(gone)s)
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of rows: how many may go; ``removal`` removes batches, with their sizes."""

    what: str
    count: int
    removal: Iterator[int]


def plan_steps(before: datetime) -> Iterator[Step]:
    """What was kept from before a moment and may go, in the order of removal.

    A step is counted as if those before it were done: counting tells what would go.
    """
    gone = find_old_turns(before)
    yield Step("turns", len(gone), _remove(Turn.objects, gone, TURN_BATCH))
    messages = find_old_messages(before, gone)
    yield Step("messages", len(messages), _remove(Memory.objects, messages))
    texts = find_unnamed_texts(gone)
    yield Step("context texts", len(texts.digests), texts.remove())
    for what, rows in (
        ("events", Event.objects.filter(created_at__lt=before)),
        ("changes of credits", _select_old_changes(before)),
        ("orders that ended", _select_ended_orders(before)),
        ("alerts that are over", Alert.objects.filter(cleared_at__lt=before)),
        ("rewinds", Rewind.objects.filter(finished_at__lt=before)),
        ("alerts told", _select_told(before)),
        # First, as a replay would take up to 20,000 along at once.
        (
            "calls of finished replays",
            ReplayCall.objects.filter(replay__finished_at__lt=before),
        ),
        ("finished replays", Replay.objects.filter(finished_at__lt=before)),
        ("cleared snapshots", GameSnapshot.objects.filter(logged_out_at__lt=before)),
    ):
        yield Step(what, rows.count(), remove_rows(rows))
    notes = Note.objects.filter(ended_at__lt=before)
    yield Step("old versions of notes", notes.count(), _remove_notes(notes))


def _select_ended_orders(before: datetime) -> QuerySet[Order]:
    """Those with whom nobody is concerned any more; an open one stays, however old."""
    waiting = OrderRecipient.objects.filter(
        order=OuterRef("pk"), state__in=OrderRecipient.OPEN
    )
    of_late = OrderRecipient.objects.filter(
        order=OuterRef("pk"), changed_at__gte=before
    )
    delivered = Order.objects.exclude(broadcast__deliver_to__isnull=False)
    return delivered.filter(~Exists(waiting), ~Exists(of_late), created_at__lt=before)


def _select_old_changes(before: datetime) -> QuerySet[CreditChange]:
    """All but the newest of each account: the next one counts from it."""
    newest = CreditChange.objects.order_by("username", "-pk").distinct("username")
    return CreditChange.objects.filter(at__lt=before).exclude(
        pk__in=newest.values("pk")
    )


def _select_told(before: datetime) -> QuerySet[AlertDelivery]:
    """What targets were told; what waits stays however old it is."""
    told = AlertDelivery.objects.exclude(state__in=AlertDelivery.OPEN)
    return told.filter(created_at__lt=before)


def find_old_turns(before: datetime) -> list[int]:
    """Ended turns; never a Mysis's newest, nor the last whose call is on record."""
    newest = Turn.objects.order_by("mysis", "-pk").distinct("mysis").values("pk")
    sent = SentContext.objects.order_by("mysis", "-pk").distinct("mysis")
    ended = Turn.objects.filter(started_at__lt=before, outcome__isnull=False)
    gone = ended.exclude(pk__in=newest).exclude(pk__in=sent.values("call__turn"))
    return list(gone.order_by("mysis", "pk").values_list("pk", flat=True))


def find_old_messages(before: datetime, gone: list[int]) -> list[int]:
    """Messages that no context, summary, open turn or kept call needs."""
    found: list[int] = []
    for pk in Mysis.objects.order_by("pk").values_list("pk", flat=True):
        log = Memory.objects.filter(mysis_id=pk)
        first = _first_kept(log, pk, before)
        older = log if first is None else log.filter(pk__lt=first)
        kept = (
            _anchors(log.filter(branch=None))
            | _find_open_orders(pk)
            | _find_shown(pk, gone)
        )
        ids = older.order_by("pk").values_list("pk", flat=True)
        found += [number for number in ids if number not in kept]
    return found


def _first_kept(log: QuerySet[Memory], mysis_id: int, before: datetime) -> int | None:
    """Where the part of a log begins that stays whole; None where nothing of it is."""
    needed = Q(created_at__gte=before) | Q(pending=True)
    needed |= Q(turn__isnull=False, turn__outcome__isnull=True)
    first = log.filter(needed).aggregate(first=Min("pk"))["first"]
    summary = read_newest_summary(mysis_id)
    starts = [first, summary.first_id if summary else None]
    start = min((each for each in starts if each is not None), default=None)
    return None if start is None else _whole(log, start)


def _whole(log: QuerySet[Memory], start: int) -> int:
    """The start itself, or the call of the results that it would part."""
    row = log.filter(pk__gte=start).order_by("pk").first()
    if row is None or row.role != Role.TOOL:
        return start
    speech = log.filter(pk__lt=start, role=Role.ASSISTANT).order_by("-pk").first()
    return speech.pk if speech else start


def _anchors(log: QuerySet[Memory]) -> set[int]:
    """The newest order and the answer to it (I17, A15)."""
    told = log.filter(origin__in=["human", "broadcast"])
    order = told.exclude(sender__startswith=PEER).order_by("-pk").first()
    if order is None:
        return set()
    answers = log.filter(pk__gt=order.pk, role=Role.ASSISTANT, tool_calls=[])
    answer = answers.exclude(content="").order_by("pk").first()
    return {order.pk} if answer is None else {order.pk, answer.pk}


def _find_open_orders(mysis_id: int) -> set[int]:
    """The messages that orders came as which are not done yet."""
    waiting = OrderRecipient.objects.filter(
        mysis_id=mysis_id, state__in=OrderRecipient.OPEN, memory__isnull=False
    )
    return set(waiting.values_list("memory_id", flat=True))


def _find_shown(mysis_id: int, gone: list[int]) -> set[int]:
    """The messages that the kept calls of a Mysis were sent."""
    kept = SentContext.objects.filter(mysis_id=mysis_id).exclude(call__turn__in=gone)
    found: set[int] = set()
    for stored in kept.values_list("view__sources", flat=True).iterator():
        for source in unpack_sources(stored):
            found.update([source] if isinstance(source, int) else source or ())
    return found


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts that no call up to the sent context ``seen`` names."""

    digests: list[str]
    seen: int

    def remove(self) -> Iterator[int]:
        """Remove them, but for those that a call has named since."""
        for batch in _batches(self.digests, BATCH):
            with transaction.atomic():
                # Who keeps a text that is there already takes no lock on it: so
                # nobody may keep one while it is looked up and removed.
                fetch_rows("LOCK TABLE memory_contexttext IN SHARE ROW EXCLUSIVE MODE")
                since = _column(NAMED, {"after": self.seen, "gone": []})
                going = [digest for digest in batch if digest not in since]
                ContextText.objects.filter(pk__in=going).delete()
            yield len(batch)


def find_unnamed_texts(gone: list[int]) -> Texts:
    """The texts that only the removed turns were sent, and those nobody was."""
    with transaction.atomic():
        # Waits for those who write just now: whoever comes later has higher ids.
        fetch_rows("LOCK TABLE memory_sentcontext IN SHARE MODE")
        newest = SentContext.objects.order_by("-pk").values_list("pk", flat=True)
        seen = newest.first() or 0
    named = _column(NAMED, {"after": 0, "gone": gone})
    digests = ContextText.objects.order_by("pk").values_list("pk", flat=True)
    return Texts([each for each in digests if each not in named], seen)


def _column(sql: str, values: dict[str, Any]) -> set[Any]:
    return {found for (found,) in fetch_rows(sql, values)}


def plan_audit_step(before: datetime) -> Step:
    """The entries of the audit log from before a moment."""
    rows = AuditEntry.objects.filter(at__lt=before)
    return Step("audit entries", rows.count(), _remove_audit(rows))


def _remove_audit(rows: QuerySet[AuditEntry]) -> Iterator[int]:
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        delete_entries(ids)
        yield len(ids)


def remove_rows(rows: QuerySet[Any]) -> Iterator[int]:
    """Remove rows batch after batch; yields how many each time."""
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        yield from _remove(rows.model._default_manager, ids)


def _remove_notes(rows: QuerySet[Note]) -> Iterator[int]:
    """Remove old versions; what is new never begins below them."""
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        drop_versions(ids)
        yield len(ids)


def _remove(rows: Any, ids: list[int], size: int = BATCH) -> Iterator[int]:
    for batch in _batches(ids, size):
        with transaction.atomic():
            rows.filter(pk__in=batch).delete()
        yield len(batch)


def _batches(ids: list[Any], size: int) -> Iterable[list[Any]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
