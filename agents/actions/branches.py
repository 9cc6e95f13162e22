"""Take back the end of a log, and let the Mysis go on from there with a correction.

What is taken back stays stored, is searched and shown as such, and stands in no view
again: neither its messages nor orders, summaries and notes that came of them. What
happened in the game has happened all the same, which the correction says.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from agents import events
from agents.actions.base import (
    ActionError,
    append_state_event,
    check_text,
    lock_mysis,
    name_mysis,
    set_running,
    set_stopped,
)
from agents.actions.messages import store_messages
from agents.actions.notes import forget_note, save_note
from agents.actions.orders import describe_change, store_order
from agents.events import Kind
from agents.models import Delivery, Mysis, OrderRecipient, OrderState
from agents.models.orders import OPEN_STATES
from memory import audit
from memory.assembly import history_summaries
from memory.context.types import PEER
from memory.models import Branch, HistorySummary, Memory, Note, Role
from memory.notes import select_notes

# Rows that are written at once, while their Mysis is locked.
MOST_MESSAGES = 20_000
HAPPENED = (
    "(What you did after message {kept} is taken back from your memory, but not from the "
    "game: it happened there all the same. Look before you rely on anything.)"
)
TAKEN_BACK = "Taken back with its message."
# What of a recipient of an order is kept for an undo.
_RECIPIENT = ("state", "note", "changed_by", "changed_at", "answered_at")


class Cut(NamedTuple):
    """Where a log would be cut: after ``kept``; ``messages`` are what is taken back.

    ``asked`` is the message after which it was to be cut. ``summaries`` are the
    generations that are taken back too, ``orders`` the numbers of those that end.
    """

    asked: int
    kept: int
    first: int
    through: int
    messages: int
    summaries: tuple[int, ...] = ()
    orders: tuple[int, ...] = ()


def plan_branch(mysis: Mysis, asked: int) -> Cut:
    """What a branch after a message would take back.

    A call and its results stay together: between them it cuts after the last result.
    Raises ActionError: 422 for a message that is not there, 409 where there is nothing to
    take back, or too much.
    """
    log = _select_standing(mysis)
    if not Memory.objects.filter(mysis=mysis, pk=asked).exists():
        raise ActionError(
            f"from: {mysis.name} has no message {asked}: its log names those it has.",
            code="invalid",
            status=422,
        )
    if not log.filter(pk=asked).exists():
        raise ActionError(
            f"from: message {asked} is taken back itself: choose one that stands.",
            code="conflict",
        )
    kept = _find_cut(log, asked)
    later = log.filter(pk__gt=kept).order_by("pk").values_list("pk", flat=True)
    ids = list(later[: MOST_MESSAGES + 1])
    if not ids:
        words = "the results of its calls" if kept != asked else "it"
        raise ActionError(
            f"from: nothing comes after {words}: send {mysis.name} a message instead.",
            code="conflict",
        )
    if len(ids) > MOST_MESSAGES:
        raise ActionError(
            f"from: more than {MOST_MESSAGES:,} messages come after it, which is the most "
            "that can be taken back at once: choose a later one.",
            code="too_many",
        )
    summaries = [row.generation for row in _list_summaries_past(mysis, ids[0])]
    taken = OrderRecipient.objects.filter(mysis=mysis, state__in=OPEN_STATES)
    orders = taken.filter(memory__gte=ids[0]).values_list("order_id", flat=True)
    return Cut(
        asked,
        kept,
        ids[0],
        ids[-1],
        len(ids),
        tuple(summaries),
        tuple(orders.order_by("order_id")),
    )


def _find_cut(log: QuerySet[Memory], asked: int) -> int:
    """The message to go on after: ``asked``, or the last result of the calls before it."""
    later = log.filter(pk__gt=asked)
    answers = later.filter(role=Role.ASSISTANT).order_by("pk")
    end = answers.values_list("pk", flat=True).first()
    results = later.filter(role=Role.TOOL)
    results = results if end is None else results.filter(pk__lt=end)
    return results.aggregate(last=Max("pk"))["last"] or asked


def _select_standing(mysis: Mysis) -> QuerySet[Memory]:
    return Memory.objects.filter(mysis=mysis, branch=None)


@transaction.atomic
def take_branch(
    *, mysis: Mysis, asked: int, text: str, by: str, start: bool = True
) -> Branch:
    """Take back what comes after a message, and go on from there with a correction.

    The Mysis is stopped first; it is started again unless told otherwise. Raises
    ActionError as `plan_branch`, and 422 for an empty or long correction.
    """
    kept = check_text(text, "text:")
    locked = lock_mysis(mysis)
    before = _stop(locked, by)
    cut = plan_branch(locked, asked)
    branch = Branch.objects.create(
        mysis=locked,
        asked_id=cut.asked,
        kept_id=cut.kept,
        first_id=cut.first,
        through_id=cut.through,
        messages=cut.messages,
        by=by[:200],
    )
    taken = _select_standing(locked).filter(pk__gte=cut.first, pk__lte=cut.through)
    moment = taken.order_by("pk").values_list("created_at", flat=True)[0]
    taken.update(branch=branch)
    branch.before = {
        "summaries": _take_back_summaries(locked, cut.first),
        "orders": _take_back_orders(locked, branch, moment),
        "deliveries": _reopen_deliveries(locked, cut.first, moment),
        "notes": _restore_notes(locked, moment, by),
    }
    branch.correction_id = _store_correction(locked, kept, cut.kept, by)
    branch.save(update_fields=["before", "correction_id"])
    _tell(branch, by)
    told = {
        "from": cut.kept,
        "messages": cut.messages,
        "first": cut.first,
        "through": cut.through,
        "text": kept,
    }
    if start:
        set_running(locked, trigger="start")
        append_state_event(locked, by, before=Mysis.State.STOPPED)
    old, new = {"state": before}, {"state": locked.state, **told}
    audit.record("branch.take", name_mysis(locked), by=by, before=old, after=new)
    return branch


def _stop(mysis: Mysis, by: str) -> str:
    """Stop a locked Mysis unless it is; the state before."""
    before = mysis.state
    if before != Mysis.State.STOPPED:
        set_stopped(mysis)
        append_state_event(mysis, by, before=before)
    return before


def _store_correction(mysis: Mysis, text: str, kept: int, by: str) -> int:
    order = store_order(text=text, by=by, to={"myses": [mysis.pk]})
    content = f"{text}\n\n{HAPPENED.format(kept=kept)}"
    [row] = store_messages(order, [mysis], content, by)
    return row.pk


def _tell(branch: Branch, by: str, **more: Any) -> None:
    data = {
        "branch": branch.pk,
        "by": by,
        "from": branch.kept_id,
        "first": branch.first_id,
        "through": branch.through_id,
        "messages": branch.messages,
        "correction": branch.correction_id,
        **more,
    }
    events.append(Kind.MYSIS_BRANCHED, mysis_id=branch.mysis_id, data=data)


# --- Summaries, orders and notes of what is taken back


def _list_summaries_past(mysis: Mysis, first: int) -> list[HistorySummary]:
    """Those that stand and cover something from a message on."""
    status = HistorySummary.Status
    rows = HistorySummary.objects.filter(
        mysis=mysis, status__in=(status.ACTIVE, status.REPLACED), through_id__gte=first
    )
    return list(rows.order_by("generation"))


def _take_back_summaries(mysis: Mysis, first: int) -> list[list[Any]]:
    """Use the newest summary again that covers nothing of it; those that were past it."""
    kept: list[list[Any]] = []
    while True:
        row = history_summaries.read_newest_summary(mysis.pk)
        if row is None or row.through_id < first:
            return kept
        kept.append([row.pk, row.turn_number])
        history_summaries.revert_summary(row, turn=mysis.turn_count)


def _take_back_orders(
    mysis: Mysis, branch: Branch, moment: datetime
) -> list[list[Any]]:
    """End open orders that are taken back; open again those answered in the stretch."""
    rows = OrderRecipient.objects.filter(mysis=mysis).select_related("order")
    gone = Q(memory__branch=branch, state__in=OPEN_STATES)
    stays = Q(memory__branch=None, memory__lt=branch.first_id)
    answered = Q(state=OrderState.ANSWERED, answered_at__gte=moment)
    reported = Q(
        state__in=(OrderState.DONE, OrderState.NOT_DONE),
        changed_by=f"{PEER}{mysis.name}"[:200],
        changed_at__gte=moment,
    )
    kept = []
    found = rows.filter(gone | (stays & (answered | reported))).order_by("pk")
    for row in found.select_for_update(of=("self",)):
        values = [getattr(row, name) for name in _RECIPIENT]
        times = [each.isoformat() if each else None for each in values[-2:]]
        kept.append([row.pk, *values[:-2], *times])
        if (row.memory_id or 0) >= branch.first_id:
            _end_recipient(row, branch.by)
        else:
            row.answered_at = None
            _say(row, OrderState.SHOWN, "", branch.by, reopened=True)
    return kept


def _end_recipient(row: OrderRecipient, by: str) -> None:
    _say(row, OrderState.SUPERSEDED, TAKEN_BACK, by)


def _say(
    row: OrderRecipient, state: OrderState, note: str, by: str, **acts: bool
) -> None:
    row.state, row.note = state, note
    row.changed_by, row.changed_at = by[:200], timezone.now()
    row.save(update_fields=_RECIPIENT)
    kind, owner, data = describe_change(row.order, state, by, note, row.mysis_id)
    events.append(kind, mysis_id=owner, data={**data, **acts})


def _reopen_deliveries(mysis: Mysis, first: int, moment: datetime) -> list[list[Any]]:
    """Messages that stay, and that were answered in the stretch, wait for an answer."""
    rows = Delivery.objects.filter(
        mysis=mysis, memory__lt=first, memory__branch=None, done_at__gte=moment
    )
    found = rows.values_list("pk", "done_at")
    kept = [[pk, done.isoformat()] for pk, done in found if done]
    rows.update(done_at=None)
    return kept


def _restore_notes(
    mysis: Mysis, moment: datetime, by: str
) -> list[tuple[str, int | None]]:
    """Set notes back that the Mysis wrote or forgot since; each with its version of now."""
    own = f"{PEER}{mysis.name}"[:200]
    then = {note.name: note for note in select_notes(mysis.pk, moment)}
    now = {note.name: note for note in select_notes(mysis.pk)}
    changed: list[tuple[str, int | None]] = []
    for name, note in now.items():
        if note.author == own and note.written_at >= moment:
            changed.append((name, note.version))
            _set_note(mysis, name, then.get(name), by)
    for name in then.keys() - now.keys():
        if then[name].ended_by == own:
            changed.append((name, None))
            _set_note(mysis, name, then[name], by)
    return changed


def _set_note(mysis: Mysis, name: str, wanted: Note | None, by: str) -> None:
    if wanted is not None:
        save_note(mysis=mysis, name=name, text=wanted.text, by=by)
    elif select_notes(mysis.pk).filter(name=name).exists():
        forget_note(mysis=mysis, name=name, by=by)


# --- Taken back itself


def explain_no_undo(branch: Branch) -> str:
    """Why a branch cannot be undone any more, in a sentence; empty where it can."""
    if branch.undone_at is not None:
        return f"Branch {branch.pk} is undone already."
    newest = _select_standing(branch.mysis).aggregate(last=Max("pk"))["last"] or 0
    if not branch.correction_id or newest > branch.correction_id:
        return (
            f"{branch.mysis.name} has gone on since branch {branch.pk}, so it cannot be "
            "undone: what came after it would hang in the air. Take a branch again, from "
            "another message."
        )
    return ""


@transaction.atomic
def undo_branch(*, branch: Branch, by: str) -> Branch:
    """Let what was taken back stand again, while nothing came after the correction.

    The Mysis is stopped, and stays so. Raises ActionError 409.
    """
    mysis = lock_mysis(branch.mysis)
    row = Branch.objects.select_for_update().get(pk=branch.pk)
    if words := explain_no_undo(row):
        raise ActionError(words, code="conflict")
    _stop(mysis, by)
    Memory.objects.filter(mysis=mysis, branch=row).update(branch=None)
    Memory.objects.filter(pk=row.correction_id).update(branch=row)
    _end_correction(row, by)
    _restore_summaries(row, mysis)
    for pk, *values in row.before.get("orders", ()):
        stored = OrderRecipient.objects.filter(pk=pk)
        stored.update(**dict(zip(_RECIPIENT, values, strict=True)))
    for pk, done_at in row.before.get("deliveries", ()):
        Delivery.objects.filter(pk=pk).update(done_at=done_at)
    for name, version in row.before.get("notes", ()):
        wanted = Note.objects.filter(mysis=mysis, name=name, version=version).first()
        _set_note(mysis, name, wanted, by)
    row.undone_by, row.undone_at = by[:200], timezone.now()
    row.save(update_fields=["undone_by", "undone_at"])
    _tell(row, by, undone=True)
    told = {"from": row.kept_id, "messages": row.messages}
    audit.record("branch.undo", name_mysis(mysis), by=by, before=told)
    return row


def _end_correction(branch: Branch, by: str) -> None:
    """The order that the correction was ends with it."""
    rows = OrderRecipient.objects.filter(
        memory=branch.correction_id, state__in=OPEN_STATES
    )
    for row in rows.select_related("order").select_for_update(of=("self",)):
        _end_recipient(row, by)


def _restore_summaries(branch: Branch, mysis: Mysis) -> None:
    """Use those again that were in use, and none that was made since."""
    while True:
        made = history_summaries.read_newest_summary(mysis.pk)
        if made is None or made.created_at < branch.created_at:
            break
        history_summaries.revert_summary(made, turn=mysis.turn_count)
    kept = branch.before.get("summaries", ())
    status = HistorySummary.Status
    rows = HistorySummary.objects.filter(mysis=mysis)
    if kept:
        rows.filter(status=status.ACTIVE).update(status=status.REPLACED)
    for place, (pk, turn) in enumerate(kept):
        stands = status.REPLACED if place else status.ACTIVE
        rows.filter(pk=pk).update(status=stands, turn_number=turn)
