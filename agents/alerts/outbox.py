"""What targets are still to be told: a row for each event of the log and each target.

The log is the outbox. A target's cursor goes forward in the transaction that makes its
rows, so a process that is killed loses none and makes none twice. A row is tried again
until the target took it, or has refused it `AlertDelivery.MOST_REFUSALS` times. In these books that happens once; on the wire an event comes
twice where the answer was lost, then under the same key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from agents import events
from agents.alerts.send import LONGEST, Answer, Message
from agents.encryption import SecretUnreadableError
from agents.events import Item, Kind
from agents.models import AlertDelivery, AlertSettings, AlertTarget

TASK = "agents.tasks.deliver_alerts"
QUEUE = "upkeep"
KINDS = (Kind.ALERT_RAISED, Kind.ALERT_CLEARED)
# Events read at once, and how far a cursor may lie behind where there was no alert.
BATCH, FAR = 500, 5_000
# The pause after a failure doubles up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=2), timedelta(minutes=5)
# That of one body which the target refuses: given up after some nine hours.
LONGEST_REFUSED = timedelta(hours=1)
# An attempt that has no answer after this is over: whoever made it is gone.
LEASE = timedelta(seconds=LONGEST + 5)
State = AlertDelivery.State
_jobs = JobManager(DjangoConnector())


@dataclass(frozen=True, slots=True)
class Attempt:
    """A delivery that this process is to try now."""

    target: int
    delivery: int
    message: Message


def fill_outbox(now: datetime | None = None) -> None:
    """Make the rows of new alerts, and have a worker tell what is due."""
    moment = now or timezone.now()
    for pk in AlertTarget.objects.filter(enabled=True).values_list("pk", flat=True):
        _fill_one(pk, moment)


@transaction.atomic
def _fill_one(target_id: int, now: datetime) -> None:
    rows = AlertTarget.objects.select_for_update(skip_locked=True)
    target = rows.filter(pk=target_id, enabled=True).first()
    if target is None:
        return
    end = events.read_settled_end().id
    if end != target.cursor:
        _take_events(target, end, now)
    if _has_due(target, now):
        queue_delivery(target_id)


def _take_events(target: AlertTarget, end: int, now: datetime) -> None:
    read = events.read_after(target.cursor, kinds=KINDS, limit=BATCH)
    numbers = [item["id"] for item in read]
    # The order of the log is not that of its numbers: some may have been read before.
    had = target.deliveries.filter(event__in=numbers)
    known = set(had.values_list("event", flat=True))
    quiet = timedelta(minutes=AlertSettings.load().quiet_minutes)
    for item in read:
        if item["id"] not in known and _is_wanted(target, item):
            _add_delivery(target, item, quiet, now)
    cursor = numbers[-1] if len(read) == BATCH else max([end, *numbers])
    if read or cursor - target.cursor > FAR:
        target.cursor = cursor
        target.save(update_fields=["cursor"])


def _is_wanted(target: AlertTarget, item: Item) -> bool:
    """Whether a target asks for it, or heard its beginning when it still did."""
    rule = item["data"].get("rule")
    if not target.rules or rule in target.rules:
        return True
    if item["kind"] == Kind.ALERT_RAISED:
        return False
    had = target.deliveries.filter(rule=rule, mysis=item["mysis"])
    last = had.order_by("-event").first()
    if last is None or last.state == State.LEFT_OUT:
        return False
    return last.kind == Kind.ALERT_RAISED


def _add_delivery(
    target: AlertTarget, item: Item, quiet: timedelta, now: datetime
) -> None:
    data, at = item["data"], datetime.fromisoformat(item["at"])
    row = AlertDelivery(
        target=target,
        event=item["id"],
        kind=item["kind"],
        rule=str(data.get("rule"))[:20],
        mysis=item["mysis"],
        cause=str(data.get("cause"))[:100],
        body=json.dumps(item, ensure_ascii=False),
        at=at,
        due_at=now,
    )
    if item["kind"] == Kind.ALERT_RAISED:
        _hush(row, quiet)
    else:
        _close(row)
    row.save()


def _hush(row: AlertDelivery, quiet: timedelta) -> None:
    """Hold back a cause that was told a moment ago; leave it out if for another Mysis."""
    told = AlertDelivery.objects.filter(
        target=row.target,
        cause=row.cause,
        kind=Kind.ALERT_RAISED,
        at__gt=row.at - quiet,
    ).exclude(state=State.LEFT_OUT)
    last = told.order_by("-event").first()
    if last is None:
        return
    if last.mysis != row.mysis:
        row.state = State.LEFT_OUT
    else:
        row.state, row.at = State.QUIET, last.at + quiet
        row.due_at = row.at


def _close(row: AlertDelivery) -> None:
    """Leave out the end of what was never told; that of a cause held back ends both."""
    raises = AlertDelivery.objects.filter(
        target=row.target, rule=row.rule, mysis=row.mysis, kind=Kind.ALERT_RAISED
    )
    last = raises.order_by("-event").first()
    if last is not None and last.state == State.QUIET and not last.attempts:
        last.state = State.LEFT_OUT
        last.save(update_fields=["state"])
    if last is None or last.state == State.LEFT_OUT:
        row.state = State.LEFT_OUT


# --- Telling


def _list_due(target: AlertTarget, now: datetime) -> QuerySet[AlertDelivery]:
    """What may be told now: an end only when its beginning was told, or given up."""
    waiting = AlertDelivery.objects.filter(target=target, state__in=AlertDelivery.OPEN)
    begins = waiting.filter(
        kind=Kind.ALERT_RAISED,
        rule=OuterRef("rule"),
        mysis=OuterRef("mysis"),
        pk__lt=OuterRef("pk"),
    )
    free = ~Q(kind=Kind.ALERT_CLEARED) | ~Q(Exists(begins))
    return waiting.filter(free, due_at__lte=now)


def _has_due(target: AlertTarget, now: datetime) -> bool:
    if target.retry_at is not None and target.retry_at > now:
        return False
    return _list_due(target, now).exists()


def queue_delivery(target_id: int) -> None:
    """Queue a job that tells a target what is due, unless one waits already."""
    name = f"alerts-{target_id}"
    if ProcrastinateJob.objects.filter(queueing_lock=name, status="todo").exists():
        return
    # By its name: the app's own function would import what the task runs.
    configure_task(
        name=TASK, job_manager=_jobs, queue=QUEUE, lock=name, queueing_lock=name
    ).defer(target_id=target_id)


@transaction.atomic
def claim_next(target_id: int, now: datetime | None = None) -> Attempt | None:
    """The next delivery of a target, for this process alone; None if nothing is due.

    Those that the target refused come last, so that one of them holds up no other.
    """
    moment = now or timezone.now()
    target = AlertTarget.objects.select_for_update().filter(pk=target_id).first()
    if target is None or not target.enabled or not _has_due(target, moment):
        return None
    row = _list_due(target, moment).order_by("refusals", "event").first()
    if row is None:
        return None
    row.attempts += 1
    row.due_at = moment + LEASE
    row.save(update_fields=["attempts", "due_at"])
    try:
        message = Message(
            target.kind, target.url, target.secret, row.body, str(row.key)
        )
    except SecretUnreadableError as error:
        _note_failure(target, row, Answer(error=str(error)), moment)
        return None
    return Attempt(target_id, row.pk, message)


@transaction.atomic
def record_answer(
    attempt: Attempt, answer: Answer, now: datetime | None = None
) -> None:
    """Note what a target answered: it is told, or is tried again later."""
    moment = now or timezone.now()
    targets = AlertTarget.objects.select_for_update()
    target = targets.filter(pk=attempt.target).first()
    row = AlertDelivery.objects.filter(pk=attempt.delivery).first()
    if target is None or row is None or row.state not in AlertDelivery.OPEN:
        return
    if not answer.ok:
        _note_failure(target, row, answer, moment)
        return
    row.state, row.sent_at = State.SENT, moment
    row.status, row.answer = answer.status, answer.text
    row.save(update_fields=["state", "sent_at", "status", "answer"])
    note_success(target, moment)


def note_success(target: AlertTarget, now: datetime) -> None:
    """A target that answers is tried at once with all that waits."""
    target.failures, target.retry_at, target.failing_since = 0, None, None
    target.last_error, target.told_at = "", now
    fields = ["failures", "retry_at", "failing_since", "last_error", "told_at"]
    target.save(update_fields=fields)


def _note_failure(
    target: AlertTarget, row: AlertDelivery, answer: Answer, now: datetime
) -> None:
    row.status, row.answer = answer.status, answer.text or answer.error
    if answer.refused:
        # It is there: only what it refused waits.
        target.retry_at = None
        _note_refusal(row, now)
    else:
        # A target that is away is waited for as a whole.
        pause = FIRST_PAUSE * 2 ** min(target.failures, 20)
        target.retry_at, row.due_at = now + min(LONGEST_PAUSE, pause), now
    target.failures += 1
    target.failing_since = target.failing_since or now
    target.last_error = answer.describe()
    target.save(update_fields=["failures", "failing_since", "retry_at", "last_error"])
    row.save(update_fields=["state", "refusals", "due_at", "status", "answer"])


def _note_refusal(row: AlertDelivery, now: datetime) -> None:
    """Pause one that was refused, longer each time; the last time it is given up."""
    pause = FIRST_PAUSE * 2 ** min(row.refusals, 20)
    row.refusals += 1
    row.due_at = now + min(LONGEST_REFUSED, pause)
    if row.refusals >= AlertDelivery.MOST_REFUSALS:
        row.state = State.LEFT_OUT
