"""What came of a stretch of a log: taken back with it, and given back by an undo.

Those are summaries, the states of orders, deliveries and notes. What each was is kept
with the branch; what somebody else has changed since the branch is left as it is then.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone

from agents import events
from agents.actions.notes import forget_note, save_note
from agents.actions.orders import (
    describe_change,
    explain_superseded,
    find_reached,
)
from agents.models import Delivery, Mysis, OrderRecipient, OrderState
from agents.models.orders import OPEN_STATES
from memory.assembly import history_summaries
from memory.context.types import PEER
from memory.models import Branch, HistorySummary, Note
from memory.notes import select_notes

TAKEN_BACK = "Taken back with its message."
# What of a recipient of an order is kept for an undo.
_TIMES = ("since_at", "changed_at", "answered_at")
_RECIPIENT = (
    *("state", "note", "since_turn", "changed_by", "replaced_by"),
    *_TIMES,
)
Json = dict[str, Any]


def take_back_effects(mysis: Mysis, branch: Branch, moment: datetime) -> Json:
    """Take back what came of the stretch of a branch since its moment; what it was."""
    return {
        "summaries": _take_back_summaries(mysis, branch.first_id),
        "orders": _take_back_orders(mysis, branch, moment),
        "deliveries": _reopen_deliveries(mysis, branch.first_id, moment),
        "notes": _take_back_notes(mysis, moment, branch.by),
    }


def give_back_effects(mysis: Mysis, branch: Branch, by: str) -> None:
    """Let what a branch took back stand again; its correction is no order any more."""
    _end_correction(branch, by)
    _give_back_summaries(mysis, branch)
    for kept in branch.before.get("orders", ()):
        _give_back_order(branch, kept)
    for pk, done_at in branch.before.get("deliveries", ()):
        Delivery.objects.filter(pk=pk, done_at=None).update(done_at=done_at)
    for kept in branch.before.get("notes", ()):
        _give_back_note(mysis, kept, by)


# --- Summaries


def list_summaries_past(mysis: Mysis, first: int) -> list[HistorySummary]:
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


def _give_back_summaries(mysis: Mysis, branch: Branch) -> None:
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


# --- Orders and deliveries


def _take_back_orders(mysis: Mysis, branch: Branch, moment: datetime) -> list[Json]:
    """End open orders that are taken back; open again those that ended by the stretch.

    Those are answered or reported in it, or gave way to an order that is taken back.
    """
    rows = OrderRecipient.objects.filter(mysis=mysis).select_related("order", "mysis")
    replacing = rows.filter(memory__branch=branch, order__supersedes=True)
    gone = Q(memory__branch=branch, state__in=OPEN_STATES)
    stays = Q(memory__branch=None, memory__lt=branch.first_id)
    answered = Q(state=OrderState.ANSWERED, answered_at__gte=moment)
    reported = Q(
        state__in=(OrderState.DONE, OrderState.NOT_DONE),
        changed_by=f"{PEER}{mysis.name}"[:200],
        changed_at__gte=moment,
    )
    newer = list(replacing.values_list("order_id", flat=True))
    # An older version, running beside this one or of before, wrote the note alone.
    noted = Q(replaced_by=None, note__in=map(explain_superseded, newer))
    gave_way = Q(state=OrderState.SUPERSEDED, changed_at__gte=moment) & (
        Q(replaced_by__in=newer) | noted
    )
    ended = answered | reported | gave_way
    kept = []
    found = rows.filter(gone | (stays & ended)).order_by("pk")
    for row in found.select_for_update(of=("self",)):
        was = {name: getattr(row, name) for name in _RECIPIENT}
        if (row.memory_id or 0) >= branch.first_id:
            _end_recipient(row, branch.by)
        else:
            _reopen_recipient(row, branch.by, moment)
        times = {name: _to_text(was[name]) for name in _TIMES}
        kept.append({"id": row.pk, "set_at": _to_text(row.changed_at), **was, **times})
    return kept


def _to_text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _reopen_recipient(row: OrderRecipient, by: str, moment: datetime) -> None:
    """As far as it was at a moment; its time to answer begins anew."""
    if row.answered_at is not None and row.answered_at >= moment:
        row.answered_at = None
    row.since_turn, row.since_at = row.mysis.turn_count, timezone.now()
    _set_recipient_state(row, find_reached(row), "", by, reopened=True)


def _end_recipient(row: OrderRecipient, by: str) -> None:
    _set_recipient_state(row, OrderState.SUPERSEDED, TAKEN_BACK, by)


def _set_recipient_state(
    row: OrderRecipient, state: str, note: str, by: str, **acts: bool
) -> None:
    row.state, row.note, row.replaced_by = state, note, None
    row.changed_by, row.changed_at = by[:200], timezone.now()
    row.save(update_fields=_RECIPIENT)
    kind, owner, data = describe_change(row.order, state, by, note, row.mysis_id)
    events.append(kind, mysis_id=owner, data={**data, **acts})


def _give_back_order(branch: Branch, kept: Json) -> None:
    """The state of an order as it was, if nobody has said another word of it since."""
    rows = OrderRecipient.objects.filter(
        pk=kept["id"], changed_by=branch.by, changed_at=kept["set_at"]
    )
    # What an older version kept lacks what it did not know.
    rows.update(**{name: kept[name] for name in _RECIPIENT if name in kept})


def _end_correction(branch: Branch, by: str) -> None:
    """The order that the correction was ends with it."""
    rows = OrderRecipient.objects.filter(
        memory=branch.correction_id, state__in=OPEN_STATES
    )
    for row in rows.select_related("order").select_for_update(of=("self",)):
        _end_recipient(row, by)


def _reopen_deliveries(mysis: Mysis, first: int, moment: datetime) -> list[list[Any]]:
    """Messages that stay, and that were answered in the stretch, wait for an answer."""
    rows = Delivery.objects.filter(
        mysis=mysis, memory__lt=first, memory__branch=None, done_at__gte=moment
    )
    found = rows.values_list("pk", "done_at")
    kept = [[pk, done.isoformat()] for pk, done in found if done]
    rows.update(done_at=None)
    return kept


# --- Notes


def _take_back_notes(mysis: Mysis, moment: datetime, by: str) -> list[Json]:
    """Set notes back that the Mysis wrote or forgot since.

    Each with its version of before, and the one that stands now; None for no note.
    """
    own = f"{PEER}{mysis.name}"[:200]
    then = {note.name: note for note in select_notes(mysis.pk, moment)}
    now = {note.name: note for note in select_notes(mysis.pk)}
    changed = [
        name
        for name, note in now.items()
        if note.author == own
        and note.written_at >= moment
        and (name in then or _is_of_the_stretch(mysis, name, moment))
    ]
    changed += [name for name in then.keys() - now.keys() if then[name].ended_by == own]
    kept = []
    for name in changed:
        made = _set_note(mysis, name, then.get(name), by)
        before = now[name].version if name in now else None
        kept.append({"name": name, "was": before, "set": made and made.version})
    return kept


def _is_of_the_stretch(mysis: Mysis, name: str, moment: datetime) -> bool:
    """Whether there was no such note at a moment, not only that no version is kept."""
    rows = Note.objects.filter(mysis=mysis, name=name).order_by("version")
    oldest = rows.only("version", "written_at")[0]
    return oldest.version == 1 or oldest.written_at < moment


def _set_note(mysis: Mysis, name: str, wanted: Note | None, by: str) -> Note | None:
    """Let a version stand again as its author's, or none; the note that stands then."""
    if wanted is not None:
        return save_note(
            mysis=mysis, name=name, text=wanted.text, by=by, author=wanted.author
        )
    if _find_note(mysis, name) is not None:
        forget_note(mysis=mysis, name=name, by=by)
    return None


def _find_note(mysis: Mysis, name: str) -> Note | None:
    return select_notes(mysis.pk).filter(name=name).first()


def _give_back_note(mysis: Mysis, kept: Json, by: str) -> None:
    """A note as it was, if nobody has written it since and that version is kept."""
    stands = _find_note(mysis, kept["name"])
    if (stands and stands.version) != kept["set"]:
        return
    rows = Note.objects.filter(mysis=mysis, name=kept["name"], version=kept["was"])
    wanted = rows.first()
    if wanted is not None or kept["was"] is None:
        _set_note(mysis, kept["name"], wanted, by)
