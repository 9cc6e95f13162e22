"""Take back the end of a log, and let the Mysis go on from there with a correction.

What is taken back stays stored, is searched and shown as such, and stands in no view
again: neither its messages nor orders, summaries and notes that came of them. What
happened in the game has happened all the same, which the correction says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Max, QuerySet
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
from agents.actions.orders import store_order
from agents.actions.taken_back import (
    give_back_effects,
    list_summaries_past,
    take_back_effects,
)
from agents.events import Kind
from agents.models import Mysis, OrderRecipient
from agents.models.orders import OPEN_STATES
from memory import audit
from memory.models import Branch, Memory, Role

# Rows that are written at once, while their Mysis is locked.
MOST_MESSAGES = 20_000
HAPPENED = (
    "(What you did after message {kept} is taken back from your memory, but not from the "
    "game: it happened there all the same. Look before you rely on anything.)"
)


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
    summaries = [row.generation for row in list_summaries_past(mysis, ids[0])]
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
    branch.before = take_back_effects(locked, branch, moment)
    branch.correction_id = _store_correction(locked, kept, cut.kept, by)
    branch.save(update_fields=["before", "correction_id"])
    _announce(branch, by)
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


def _announce(branch: Branch, by: str, **more: Any) -> None:
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
    stretch = Memory.objects.filter(
        mysis=mysis, pk__gte=row.first_id, pk__lte=row.through_id
    )
    stretch.filter(branch=row).update(branch=None)
    Memory.objects.filter(pk=row.correction_id).update(branch=row)
    give_back_effects(mysis, row, by)
    row.undone_by, row.undone_at = by[:200], timezone.now()
    row.save(update_fields=["undone_by", "undone_at"])
    _announce(row, by, undone=True)
    told = {"from": row.kept_id, "messages": row.messages}
    audit.record("branch.undo", name_mysis(mysis), by=by, before=told)
    return row
