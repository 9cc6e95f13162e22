"""Standing orders: pinned, acknowledged, done, superseded."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from agents.actions.base import (
    CHANGED,
    ActionError,
    append_state_event,
    check_text,
    check_version,
    lock_mysis,
)
from agents.models import Mysis, Pin
from memory import audit
from memory.assembly.hashes import hash_text

State = Pin.State
# What the audit log tells of a pin.
TOLD = ("text", "state")
NOT_STANDING = "not_standing"


@transaction.atomic
def add_pin(*, mysis: Mysis, text: str, by: str, supersedes: Pin | None = None) -> Pin:
    """Pin an order; it stands in every view from the next call on.

    With ``supersedes`` that one stands no longer. Raises ActionError 422 for an empty
    text, and 409 for one that stands already or takes the place of none that stands.
    """
    locked = lock_mysis(mysis)
    if supersedes is not None:
        _refuse_gone(supersedes)
        _mark(supersedes, State.SUPERSEDED, by)
    pin = _store(locked, text, by)
    _tell(locked, by)
    told = {"text": pin.text}
    if supersedes is not None:
        told["supersedes"] = str(supersedes.pk)
    audit.record("pin.create", _name(pin), by=by, after=told)
    return pin


@transaction.atomic
def rewrite_pin(*, pin: Pin, text: str, by: str, version: str | None = None) -> Pin:
    """Put another text in the place of one that stands, and keep that as superseded.

    The same text leaves all as it is. Raises ActionError as `add_pin`, 409 where it
    stands no longer, and where its digest is not as ``version`` says.
    """
    lock_mysis(pin.mysis)
    present = Pin.objects.select_related("mysis").filter(pk=pin.pk).first()
    if present is None or present.state not in Pin.STANDING:
        raise ActionError(
            f"This order is {present.state if present else 'deleted'} and stands no "
            "longer: add yours as a new one.",
            code=NOT_STANDING,
        )
    check_version(present, ["digest"], version)
    if check_text(text, "A pin") == present.text:
        return present
    return add_pin(mysis=present.mysis, text=text, by=by, supersedes=present)


@transaction.atomic
def save_pin(*, pin: Pin, by: str) -> Pin:
    """Store a pin whose text or state was edited; raises ActionError as the others."""
    locked = lock_mysis(pin.mysis)
    _seal(pin, by)
    if pin.state in Pin.STANDING:
        _refuse_double(locked, pin)
    old = audit.read_stored(pin, TOLD)
    pin.save()
    _tell(locked, by)
    audit.record_change(
        "pin.update" if old else "pin.create",
        _name(pin),
        by=by,
        before=old,
        after=audit.read_columns(pin, TOLD),
    )
    return pin


@transaction.atomic
def delete_pin(*, pin: Pin, by: str) -> None:
    """Delete a pin; views lack it from the next call on."""
    locked = lock_mysis(pin.mysis)
    old = audit.read_columns(pin, TOLD)
    audit.record("pin.delete", _name(pin), by=by, before=old)
    pin.delete()
    _tell(locked, by)


@transaction.atomic
def set_pin_state(*, pin: Pin, state: str, by: str, before: str | None = None) -> Pin:
    """Say what became of a standing order; raises ActionError 422 and 409.

    One that is done or superseded leaves the views, and comes back as active. ``before``
    is the state that the caller saw it in: 409 where it is in another by now.
    """
    if state not in State.values:
        raise ActionError(
            f"state: one of {', '.join(State.values)}.", code="invalid", status=422
        )
    locked = lock_mysis(pin.mysis)
    if before is not None:
        _refuse_other(pin, before)
    if state in Pin.STANDING and pin.state not in Pin.STANDING:
        _refuse_double(locked, pin)
    old = {"state": pin.state}
    _mark(pin, State(state), by)
    _tell(locked, by)
    audit.record("pin.state", _name(pin), by=by, before=old, after={"state": state})
    return pin


def list_standing(mysis: Mysis) -> list[str]:
    """The texts of the orders that stand, oldest first."""
    standing = mysis.pins.filter(state__in=Pin.STANDING)
    return list(standing.order_by("pk").values_list("text", flat=True))


def replace_pins(mysis: Mysis, texts: Sequence[str], by: str) -> None:
    """Let these orders stand, the others are superseded; the caller tells of it.

    One that stands already keeps its state.
    """
    wanted = list(dict.fromkeys(check_text(text, "A pin") for text in texts))
    standing = mysis.pins.filter(state__in=Pin.STANDING)
    for gone in standing.exclude(text__in=wanted):
        _mark(gone, State.SUPERSEDED, by)
    known = set(standing.values_list("text", flat=True))
    for text in wanted:
        if text not in known:
            _store(mysis, text, by)
    _forget_lost(mysis)


def _name(pin: Pin) -> str:
    return f"pin:{pin.mysis.name}/{pin.pk}"


def _tell(mysis: Mysis, by: str) -> None:
    _forget_lost(mysis)
    append_state_event(mysis, by, changed=["pins"])


def _forget_lost(mysis: Mysis) -> None:
    # It was found of other pins. The next call says what it lacks of these.
    if mysis.lost_pins:
        mysis.lost_pins = ""
        mysis.save(update_fields=["lost_pins"])


def _seal(pin: Pin, by: str) -> None:
    """Note who wrote the text of a pin, and its hash, before it is saved."""
    pin.text = check_text(pin.text, "A pin")
    pin.digest = hash_text(pin.text)
    pin.author = pin.author or by
    pin.changed_by, pin.changed_at = by, timezone.now()


def _store(mysis: Mysis, text: str, by: str) -> Pin:
    pin = Pin(mysis=mysis, text=text)
    _seal(pin, by)
    _refuse_double(mysis, pin)
    pin.save()
    return pin


def _refuse_gone(pin: Pin) -> None:
    pin.refresh_from_db(fields=["state"])
    if pin.state not in Pin.STANDING:
        raise ActionError(
            f"supersedes: pin {pin.pk} is {pin.state} and stands no longer: leave it out.",
            code=NOT_STANDING,
        )


def _refuse_other(pin: Pin, before: str) -> None:
    now = Pin.objects.filter(pk=pin.pk).values_list("state", flat=True).first()
    if now != before:
        raise ActionError(
            f"Meanwhile this order is {now or 'deleted'}: look at it, then choose again.",
            code=CHANGED,
        )


def _refuse_double(mysis: Mysis, pin: Pin) -> None:
    standing = mysis.pins.filter(state__in=Pin.STANDING, text=pin.text)
    double = standing.exclude(pk=pin.pk).first()
    if double is not None:
        raise ActionError(
            f"text: this order stands already, as pin {double.pk}.", code="double"
        )


def _mark(pin: Pin, state: Pin.State, by: str) -> None:
    pin.state, pin.changed_by, pin.changed_at = state, by, timezone.now()
    pin.save(update_fields=["state", "changed_by", "changed_at"])
