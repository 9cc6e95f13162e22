"""What targets are still to be told: a row for each event of the log and each target.

The log is the outbox. A target's cursor goes forward in the transaction that makes its
rows, so a process that is killed loses none and makes none twice. A row is tried again
until the target took it, or has refused it `AlertDelivery.MOST_REFUSALS` times. Each is
recorded as told once. Where the answer of a target is lost, it is sent again under the
same key. What is due of one cause goes in one message.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from agents import events
from agents.alerts.send import DIGEST, LONGEST, Answer, Message
from agents.encryption import SecretUnreadableError
from agents.events import Item, Kind, Position
from agents.models import AlertDelivery, AlertSettings, AlertTarget
from memory.redaction import hide_secrets

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
# Names of others with the same cause that a message has.
NAMED = 3
State = AlertDelivery.State
_jobs = JobManager(DjangoConnector())
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A delivery that this process is to try now."""

    target: int
    delivery: int
    message: Message


def fill_outbox(now: datetime | None = None) -> None:
    """Make the rows of new alerts, and have a worker tell what is due."""
    moment = now or timezone.now()

    def fill(target: AlertTarget) -> None:
        _take_events(target, moment)
        if _has_due(target, moment):
            queue_delivery(target.pk)

    targets = AlertTarget.objects.filter(enabled=True)
    do_for_each(targets, fill, "Alerts for %s were not handed on.")


def do_for_each(
    targets: Iterable[AlertTarget], act: Callable[[AlertTarget], None], fault: str
) -> None:
    """Do it for each target; a ``fault`` of one is logged and holds up no other.

    Raises the last error of the database, when all had their turn.
    """
    last: DatabaseError | None = None
    for target in targets:
        try:
            act(target)
        except DatabaseError as error:
            logger.exception(fault, target.name)
            last = error
        except Exception:
            logger.exception(fault, target.name)
    if last is not None:
        raise last


def _take_events(target: AlertTarget, now: datetime) -> None:
    """Read on from the cursor; it moves where there was an alert, or it lies far behind.

    Read before the transaction, which holds back what others tell of.
    """
    before = _read_cursor(target)
    end = events.read_settled_end()
    if end == before:
        return
    read = events.read_from(before, kinds=KINDS, limit=BATCH)
    last = read[-1][0] if read else before
    after = last if len(read) == BATCH else max(end, last)
    if not read and after.id - before.id <= FAR:
        return
    with transaction.atomic():
        rows = AlertTarget.objects.select_for_update(skip_locked=True)
        locked = rows.filter(pk=target.pk, enabled=True, cursor=target.cursor).first()
        if locked is not None and _read_cursor(locked) == before:
            _add_deliveries(locked, [item for _, item in read], now)
            locked.cursor_xid, locked.cursor = after
            locked.save(update_fields=["cursor_xid", "cursor"])


def _read_cursor(target: AlertTarget) -> Position:
    """Where it reads on; by the number of the event alone where no more was kept."""
    if target.cursor_xid is None:
        return events.find_position(target.cursor)
    return Position(target.cursor_xid, target.cursor)


def _add_deliveries(target: AlertTarget, items: Sequence[Item], now: datetime) -> None:
    # Those with an older cursor may have read some of these before.
    had = target.deliveries.filter(event__in=[item["id"] for item in items])
    known = set(had.values_list("event", flat=True))
    quiet = timedelta(minutes=AlertSettings.load().quiet_minutes)
    for item in items:
        if item["id"] not in known and _is_wanted(target, item):
            _add_delivery(target, item, quiet, now)


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
    """Hold back a cause that was told a moment ago, and tell it when that is over.

    That of another Mysis is told with one that is still to be told.
    """
    told = AlertDelivery.objects.filter(
        target=row.target,
        cause=row.cause,
        kind=Kind.ALERT_RAISED,
        at__gt=row.at - quiet,
    ).exclude(state=State.LEFT_OUT)
    newest = told.order_by("-event")
    own = newest.filter(mysis=row.mysis).first()
    last = own or newest.first()
    if last is None:
        return
    untold = last.state in AlertDelivery.OPEN and not last.attempts
    if own is None and untold:
        row.state, row.at, row.due_at = State(last.state), last.at, last.due_at
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
    begins = AlertDelivery.objects.filter(
        target=target,
        kind=Kind.ALERT_RAISED,
        rule=OuterRef("rule"),
        mysis=OuterRef("mysis"),
        pk__lt=OuterRef("pk"),
    )
    untold = begins.filter(state__in=AlertDelivery.OPEN)
    in_another = begins.filter(
        cause=OuterRef("cause"),
        state=State.SUMMED,
        told_with__in=waiting.values("pk"),
    )
    free = ~Q(kind=Kind.ALERT_CLEARED) | ~(Exists(untold) | Exists(in_another))
    return waiting.filter(free, due_at__lte=now)


def _has_due(target: AlertTarget, now: datetime) -> bool:
    if target.retry_at is not None and target.retry_at > now:
        return False
    return _list_due(target, now).exists()


@transaction.atomic
def queue_delivery(target_id: int) -> None:
    """Queue a job that tells a target what is due, unless one waits already."""
    # Of two who want one, the second sees that of the first.
    rows = AlertTarget.objects.select_for_update(skip_locked=True)
    if rows.filter(pk=target_id).first() is None:
        return
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
    if not row.attempts:
        _take_along(row, moment)
    row.attempts += 1
    row.due_at = moment + LEASE
    row.save(update_fields=["attempts", "due_at", "body"])
    try:
        message = Message(
            target.kind,
            target.url,
            target.secret,
            hide_secrets(row.body),
            str(row.key),
        )
    except SecretUnreadableError as error:
        _note_failure(target, row, Answer(error=str(error)), moment)
        return None
    return Attempt(target_id, row.pk, message)


def _take_along(row: AlertDelivery, now: datetime) -> None:
    """Have its message name all others that are due with the same cause.

    Nobody comes along of whom something older waits: that is told first.
    """
    if row.kind == DIGEST:
        return
    older = AlertDelivery.objects.filter(
        target=row.target,
        state__in=AlertDelivery.OPEN,
        rule=OuterRef("rule"),
        mysis=OuterRef("mysis"),
        pk__lt=OuterRef("pk"),
    )
    same = _list_due(row.target, now).filter(kind=row.kind, cause=row.cause, attempts=0)
    along = list(same.exclude(pk=row.pk).exclude(Exists(older)).order_by("event"))
    if not along:
        return
    numbers = [one.pk for one in along]
    AlertDelivery.objects.filter(pk__in=numbers).update(
        state=State.SUMMED, told_with=row.pk, at=row.at
    )
    item = json.loads(row.body)
    names = [str(json.loads(one.body)["data"].get("mysis")) for one in along]
    item["data"]["also"] = name_others(names)
    item["data"]["also_events"] = [one.event for one in along]
    row.body = json.dumps(item, ensure_ascii=False)


def name_others(names: Sequence[str]) -> str:
    """A sentence that names those with the same cause, the first of many."""
    rest = len(names) - NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"Also {', '.join(names[:NAMED])}{more}."


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
