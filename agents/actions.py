"""Every write that anybody can ask for: atomic, with its events.

Rows of Myses are locked before they are judged, so that a start, a stop and a
turn that ends at the same moment have one order. ``by`` says who asked:
"operator:ann", "token:ci", "mysis:Ada", "system".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction
from django.db.models import Max, QuerySet

from memory import compactions
from memory.gamestate.parse import clean_text as without_odd_characters
from memory.models import ContextPolicy, HistorySummary, Memory, Origin, Role

from . import events, scheduling, summarizing
from .events import Kind
from .llm.endpoints import resolve
from .llm.prompts import DEFAULT_PROMPT
from .llm.types import ModelError, UnknownProviderError
from .models import Broadcast, Mysis, Pin, Prompt, PromptVersion

MAX_TEXT = 100_000
DEFAULT_PROMPT_NAME = "captain"
OPEN_STATES = (Mysis.State.IDLE, Mysis.State.RUNNING)


class ActionError(Exception):
    """A write that cannot be done: one sentence that names the remedy."""

    def __init__(self, detail: str, *, code: str, status: int = 409) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status


def clean_text(text: str, field: str) -> str:
    """Text as it is stored: valid, not empty, of a bounded length."""
    kept = without_odd_characters(text).replace("\r\n", "\n").replace("\r", "\n")
    if not kept.strip():
        raise ActionError(
            f"{field} is empty: write something.", code="empty", status=422
        )
    if len(kept) > MAX_TEXT:
        raise ActionError(
            f"{field} has {len(kept):,} characters, at most {MAX_TEXT:,} are taken.",
            code="too_long",
            status=422,
        )
    return kept


@transaction.atomic
def create_mysis(  # noqa: PLR0913 (one keyword for each column)
    *,
    name: str,
    model: str = "pilot",
    prompt: Prompt | None = None,
    policy: ContextPolicy | None = None,
    pins: Sequence[str] = (),
    max_iterations: int = 10,
    by: str,
) -> Mysis:
    """Create an idle Mysis; without a prompt it gets the default one.

    Raises ActionError 422 for a bad or taken name, or an unknown provider.
    """
    mysis = Mysis(
        name=name.replace("\x00", "").strip(),
        model=model.strip(),
        prompt=prompt or default_prompt(),
        policy=policy,
        max_iterations=max_iterations,
    )
    _clean(mysis)
    mysis.save()
    _replace_pins(mysis, pins, by)
    _state_event(mysis, by)
    return mysis


@transaction.atomic
def update_mysis(*, mysis: Mysis, by: str, **changes: Any) -> Mysis:
    """Change name, model, prompt, policy, max_iterations, model_settings, pins."""
    locked = lock(mysis)
    pins = changes.pop("pins", None)
    for field, value in changes.items():
        setattr(locked, field, value)
    _clean(locked)
    locked.save(update_fields=list(changes)) if changes else None
    if pins is not None:
        locked.pins.all().delete()
        _replace_pins(locked, pins, by)
    _state_event(locked, by)
    return locked


@transaction.atomic
def delete_mysis(*, mysis: Mysis, by: str) -> None:
    """Delete a Mysis with its history; its account becomes free."""
    locked = lock(mysis)
    events.append(
        Kind.MYSIS_STATE,
        mysis_id=locked.pk,
        data={"name": locked.name, "state": "deleted", "by": by},
    )
    locked.delete()


@transaction.atomic
def start_mysis(*, mysis: Mysis, by: str) -> Mysis:
    """Start an idle, stopped or errored Mysis. Raises ActionError while it runs."""
    locked = lock(mysis)
    if locked.state == Mysis.State.RUNNING:
        raise ActionError(
            f"{locked.name} is running already: stop it first, or send a message.",
            code="running",
        )
    _run(locked, trigger="start")
    _state_event(locked, by)
    return locked


@transaction.atomic
def stop_mysis(*, mysis: Mysis, by: str) -> Mysis:
    """Stop; always wins, and twice is as good as once.

    The new epoch makes every turn in flight void: its worker aborts it.
    """
    locked = lock(mysis)
    if locked.state == Mysis.State.STOPPED:
        return locked
    locked.state = Mysis.State.STOPPED
    locked.epoch += 1
    locked.activity = ""
    locked.save(update_fields=["state", "epoch", "activity"])
    scheduling.unschedule(locked)
    _state_event(locked, by)
    return locked


@transaction.atomic
def send_message(*, mysis: Mysis, text: str, by: str) -> Memory:
    """Store a human's message; an idle Mysis wakes.

    Raises ActionError 409 for a stopped or errored one, saying what to do.
    """
    kept = clean_text(text, "The message")
    locked = lock(mysis)
    if locked.state not in OPEN_STATES:
        why = f": {locked.last_error.rstrip('.')}" if locked.last_error else ""
        raise ActionError(
            f"{locked.name} is {locked.state}{why}. Start it, then send again.",
            code=locked.state,
        )
    row = Memory.objects.create(
        mysis=locked, role=Role.USER, origin=Origin.HUMAN, sender=by, content=kept
    )
    _added(row)
    _wake(locked, trigger="message", by=by)
    return row


@transaction.atomic
def send_broadcast(*, text: str, by: str, sender: Mysis | None = None) -> Broadcast:
    """Store a broadcast once and deliver it to every idle and running Mysis.

    Never to its sender; waits for no busy Mysis: it is stored and read when
    that one's next call is made.
    """
    kept = clean_text(text, "The broadcast")
    broadcast = Broadcast.objects.create(
        text=kept, sender=by, mysis=sender, from_mysis=sender is not None
    )
    targets = Mysis.objects.select_for_update(of=("self",)).filter(
        state__in=OPEN_STATES
    )
    if sender is not None:
        targets = targets.exclude(pk=sender.pk)
    recipients = list(targets.order_by("pk"))
    rows = Memory.objects.bulk_create(_delivery(broadcast, m) for m in recipients)
    events.append_all(
        [(Kind.MEMORY_ADDED, row.mysis_id, memory_line(row)) for row in rows]
    )
    for mysis in recipients:
        _wake(mysis, trigger="broadcast", by=by)
    events.append(
        Kind.BROADCAST_SENT,
        mysis_id=sender.pk if sender else None,
        data={"id": broadcast.pk, "text": kept[:500], "recipients": len(rows)},
    )
    return broadcast


@transaction.atomic
def save_prompt(*, prompt: Prompt, text: str, by: str, note: str = "") -> PromptVersion:
    """Add a version; views use it from the next call on (A10)."""
    Prompt.objects.select_for_update().get(pk=prompt.pk)
    newest = prompt.versions.aggregate(n=Max("number"))["n"] or 0
    version = PromptVersion.objects.create(
        prompt=prompt,
        number=newest + 1,
        text=clean_text(text, "The prompt"),
        author=by,
        note=note.replace("\x00", "")[:300],
    )
    events.append(
        Kind.PROMPT_CHANGED, data={"prompt": prompt.name, "version": version.number}
    )
    return version


def rollback_prompt(*, prompt: Prompt, number: int, by: str) -> PromptVersion:
    """Make an old version current again, as a new version."""
    old = prompt.versions.filter(number=number).first()
    if old is None:
        raise ActionError(
            f"{prompt.name} has no version {number}.", code="not_found", status=404
        )
    return save_prompt(
        prompt=prompt, text=old.text, by=by, note=f"rolled back to version {number}"
    )


@transaction.atomic
def take_back_summary(*, summary: HistorySummary, by: str) -> HistorySummary | None:
    """Use the summary before again, or the history itself; refuses an unused one."""
    mysis = lock(summary.mysis)
    try:
        older = compactions.revert(summary, turn=mysis.turn_count)
    except compactions.Outdated as error:
        raise ActionError(str(error), code="conflict") from error
    instead = f"summary {older.generation}" if older else "the history itself"
    reason = f"Summary {summary.generation} was taken back: {instead} is sent again."
    _compaction_event(summary, "reverted", by, reason)
    return older


@transaction.atomic
def clear_failed_summaries(*, chosen: QuerySet[HistorySummary], by: str) -> int:
    """Let failures count no more, so that the next turn may try again; how many."""
    failed = chosen.filter(status=HistorySummary.Status.FAILED)
    rows = list(failed.select_related("mysis"))
    compactions.clear(failed)
    for row in rows:
        _compaction_event(row, "cleared", by, "A failed summary was cleared.")
    return len(rows)


def _compaction_event(row: HistorySummary, status: str, by: str, reason: str) -> None:
    data = {
        "summary": row.pk,
        "generation": row.generation,
        "status": status,
        "reason": reason,
        "by": by,
    }
    events.append(Kind.CONTEXT_COMPACTED, mysis_id=row.mysis_id, data=data)


@transaction.atomic
def default_prompt() -> Prompt:
    """The prompt of a Mysis that names none; made when it is first needed.

    With it comes the template for summaries, so that an author finds it to edit.
    """
    summarizing.install()
    prompt, made = Prompt.objects.get_or_create(name=DEFAULT_PROMPT_NAME)
    if made:
        save_prompt(prompt=prompt, text=DEFAULT_PROMPT, by="system", note="installed")
    return prompt


def lock(mysis: Mysis) -> Mysis:
    """The row as it is now, locked until the transaction ends."""
    try:
        return Mysis.objects.select_for_update(of=("self",)).get(pk=mysis.pk)
    except Mysis.DoesNotExist:
        raise ActionError(
            f"{mysis.name} was deleted.", code="not_found", status=404
        ) from None


def _clean(mysis: Mysis) -> None:
    check_provider(mysis.model)
    try:
        mysis.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        # The one constraint over the whole row is on the name in any case.
        field = "name" if field == NON_FIELD_ERRORS else field
        raise ActionError(
            f"{field}: {messages[0]}", code="invalid", status=422
        ) from error


def check_provider(model: str) -> None:
    """Refuse a model of a provider that is not configured (ActionError 422)."""
    try:
        resolve(model)
    except UnknownProviderError as error:
        raise ActionError(f"model: {error}", code="invalid", status=422) from error
    except ModelError:
        # A key or a model that is missing now may be there when it is started.
        return


def _replace_pins(mysis: Mysis, pins: Sequence[str], by: str) -> None:
    for text in pins:
        Pin.objects.create(mysis=mysis, text=clean_text(text, "A pin"), author=by)


def _run(mysis: Mysis, *, trigger: str) -> None:
    mysis.state = Mysis.State.RUNNING
    mysis.epoch += 1
    mysis.nudges = 0
    mysis.failures = 0
    mysis.last_error = ""
    mysis.save(update_fields=["state", "epoch", "nudges", "failures", "last_error"])
    scheduling.schedule(mysis, trigger=trigger)


def _wake(mysis: Mysis, *, trigger: str, by: str) -> None:
    if mysis.state == Mysis.State.IDLE:
        _run(mysis, trigger=trigger)
        _state_event(mysis, by)
    else:
        mysis.nudges = 0
        mysis.save(update_fields=["nudges"])
        scheduling.schedule(mysis, trigger=trigger)


def _delivery(broadcast: Broadcast, mysis: Mysis) -> Memory:
    return Memory(
        mysis=mysis,
        broadcast=broadcast,
        role=Role.USER,
        origin=Origin.BROADCAST,
        sender=broadcast.sender,
        content=broadcast.text,
    )


def _added(row: Memory) -> None:
    events.append(Kind.MEMORY_ADDED, mysis_id=row.mysis_id, data=memory_line(row))


def memory_line(row: Memory) -> dict[str, Any]:
    """What the memory.added event says of a row; the text stays in the log."""
    return {"memory_id": row.pk, "role": row.role, "origin": row.origin}


def _state_event(mysis: Mysis, by: str) -> None:
    data = {"name": mysis.name, "state": mysis.state, "by": by}
    if mysis.last_error:
        data["error"] = mysis.last_error
    events.append(Kind.MYSIS_STATE, mysis_id=mysis.pk, data=data)
