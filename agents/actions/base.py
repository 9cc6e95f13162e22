"""What all actions share: ActionError, who asks, the check of texts, waking Myses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.http import HttpRequest

from agents import events, scheduling
from agents.events import Kind
from agents.models import Mysis
from memory.gamestate.values import repair_text as without_odd_characters
from memory.models import Memory
from memory.problems import Problem
from memory.redaction import hide_secrets

MAX_TEXT = 100_000
# The code of the error where somebody else wrote in between.
CHANGED = "changed"

# The columns that a start resets.
RESET_COLUMNS = (
    "state",
    "epoch",
    "nudges",
    "failures",
    "lost_turns",
    "last_error",
    "last_error_code",
    "hold",
    "stuck",
    "trail",
    "empty_turns",
)
OPEN_STATES = (Mysis.State.IDLE, Mysis.State.RUNNING)


class ActionError(Problem):
    """A write that is refused; one sentence with the remedy."""

    def __init__(self, detail: str, *, code: str, status: int = 409) -> None:
        super().__init__(status, code, detail)


def name_operator(request: HttpRequest) -> str:
    """The signed-in user, as actions and events name people."""
    return name_person(request.user)


def name_person(user: AbstractBaseUser | AnonymousUser) -> str:
    """A person as actions, events and the audit log name one, whatever the role."""
    return f"operator:{user.get_username()}"


def act_on_each(
    act: Callable[..., object], myses: Iterable[Mysis]
) -> tuple[int, list[str]]:
    """Do it to those Myses that take it; how many, and why others did not."""
    count, refused = 0, []
    for mysis in myses:
        try:
            act(mysis=mysis)
        except ActionError as error:
            refused.append(error.detail)
        else:
            count += 1
    return count, refused


def check_text(text: str, field: str, most: int = MAX_TEXT) -> str:
    """Prepare a text for storing, without secrets; raises ActionError 422 for an empty or long one."""
    plain = without_odd_characters(text).replace("\r\n", "\n").replace("\r", "\n")
    kept = hide_secrets(plain)
    if not kept.strip():
        raise ActionError(
            f"{field} is empty: write something.", code="empty", status=422
        )
    if len(kept) > most:
        raise ActionError(
            f"{field} has {len(kept):,} characters, at most {most:,} are taken.",
            code="too_long",
            status=422,
        )
    return kept


def name_mysis(mysis: Mysis) -> str:
    """A Mysis, as the audit log names it."""
    return f"mysis:{mysis.name}"


def validate_row(row: Model) -> None:
    """Raise ActionError 422 for the first field of a row that cannot be stored."""
    try:
        row.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        # Of a Mysis, the one constraint without a field is that on its name.
        field = "name" if field == NON_FIELD_ERRORS else field
        raise ActionError(
            f"{field}: {messages[0]}", code="invalid", status=422
        ) from error


def write_version(row: Model, columns: Iterable[str]) -> str:
    """What these columns hold, as one text: a change of any of them changes it."""
    values = {name: row.serializable_value(name) for name in sorted(columns)}
    return json.dumps(values, cls=DjangoJSONEncoder)


def check_version(row: Model, columns: Iterable[str], version: str | None) -> None:
    """Raise ActionError 409 where a locked row is not as ``version`` says; None: any."""
    if version is not None and version != write_version(row, columns):
        raise ActionError(
            f"{row} was changed meanwhile by somebody else: look at it, then save again.",
            code=CHANGED,
        )


def lock_mysis(mysis: Mysis) -> Mysis:
    """The present row, locked until the transaction ends; raises ActionError 404."""
    try:
        return Mysis.objects.select_for_update(of=("self",)).get(pk=mysis.pk)
    except Mysis.DoesNotExist:
        raise ActionError(
            f"{mysis.name} was deleted.", code="not_found", status=404
        ) from None


def set_running(mysis: Mysis, *, trigger: str) -> None:
    """Set a locked Mysis running and schedule its first turn."""
    _reset(mysis)
    mysis.save(update_fields=RESET_COLUMNS)
    scheduling.schedule(mysis, trigger=trigger)


def set_stopped(mysis: Mysis) -> None:
    """Set a locked Mysis stopped, which voids the turn under way by its epoch."""
    mysis.state = Mysis.State.STOPPED
    mysis.epoch += 1
    mysis.activity = mysis.hold = ""
    mysis.save(update_fields=["state", "epoch", "activity", "hold"])
    scheduling.unschedule(mysis)


def _reset(mysis: Mysis) -> None:
    """Set the `RESET_COLUMNS` as of a new one that runs; the caller stores them."""
    fresh = Mysis(state=Mysis.State.RUNNING, epoch=mysis.epoch + 1)
    for column in RESET_COLUMNS:
        setattr(mysis, column, getattr(fresh, column))


def wake_myses(myses: Sequence[Mysis], *, trigger: str, by: str) -> None:
    """Schedule turns of locked, open Myses for new input: now if idle, else after a call.

    A retry is never brought forward: provider or game are left alone until it is due.
    """
    idle = [one for one in myses if one.state == Mysis.State.IDLE]
    busy = [one for one in myses if one.state != Mysis.State.IDLE]
    for mysis in idle:
        _reset(mysis)
    Mysis.objects.bulk_update(idle, RESET_COLUMNS)
    Mysis.objects.filter(pk__in=[mysis.pk for mysis in busy]).update(nudges=0)
    # Without a job it is in a turn, at whose end new input is noticed.
    waiting = [one for one in busy if one.next_job and not _waits_for_retry(one)]
    scheduling.schedule_all([*idle, *waiting], trigger=trigger)
    woken = {"before": str(Mysis.State.IDLE), "trigger": trigger}
    events.append_all([describe_state(mysis, by, **woken) for mysis in idle])


def retry_now(mysis: Mysis) -> None:
    """Try the new model of a locked Mysis at once: the failures were the former one's."""
    waits = _waits_for_retry(mysis)
    # Also while a retry runs, whose failure would be added to them.
    mysis.failures = 0
    mysis.save(update_fields=["failures"])
    if waits:
        scheduling.schedule(mysis, trigger="retry")


def _waits_for_retry(mysis: Mysis) -> bool:
    return mysis.failures > 0 and mysis.wake_at is not None


def append_state_event(mysis: Mysis, by: str, **more: Any) -> None:
    """Append what `describe_state` gives."""
    events.append_all([describe_state(mysis, by, **more)])


def describe_state(mysis: Mysis, by: str, **more: Any) -> events.Line:
    """The mysis.state event of a Mysis; ``by`` made it so."""
    why = {"error": mysis.last_error, "hold": mysis.hold, "stuck": mysis.stuck}
    given = {key: words for key, words in why.items() if words}
    data = {"name": mysis.name, "state": mysis.state, "by": by, **more, **given}
    return Kind.MYSIS_STATE, mysis.pk, data


def describe_memory(row: Memory, **more: Any) -> events.Line:
    """The memory.added event of a row; its text stays in the log."""
    data = {"memory_id": row.pk, "role": row.role, "origin": row.origin, **more}
    return Kind.MEMORY_ADDED, row.mysis_id, data
