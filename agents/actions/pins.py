"""Standing orders: pinned, acknowledged, done, superseded."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from agents.actions.base import (
    ActionError,
    append_state_event,
    check_text,
    lock_mysis,
)
from agents.models import Mysis, Pin
from memory.assembly.sent_view import hash_text

State = Pin.State


@transaction.atomic
def add_pin(*, mysis: Mysis, text: str, by: str, supersedes: Pin | None = None) -> Pin:
    """Pin an order; it stands in every view from the next call on.

    With ``supersedes`` that one stands no longer. Raises ActionError 422 for an empty
    text, and 409 for one that stands already.
    """
    locked = lock_mysis(mysis)
    if supersedes is not None:
        _mark(supersedes, State.SUPERSEDED, by)
    pin = _store(locked, text, by)
    append_state_event(locked, by)
    return pin


@transaction.atomic
def set_pin_state(*, pin: Pin, state: str, by: str) -> Pin:
    """Say what became of a standing order; raises ActionError 422 and 409.

    One that is done or superseded leaves the views, and comes back as active.
    """
    if state not in State.values:
        raise ActionError(
            f"state: one of {', '.join(State.values)}.", code="invalid", status=422
        )
    locked = lock_mysis(pin.mysis)
    if state in Pin.STANDING and pin.state not in Pin.STANDING:
        _refuse_double(locked, pin.text)
    _mark(pin, State(state), by)
    append_state_event(locked, by)
    return pin


def replace_pins(mysis: Mysis, texts: Sequence[str], by: str) -> None:
    """Let these orders stand, and no others; one that stands already keeps its state."""
    wanted = list(dict.fromkeys(check_text(text, "A pin") for text in texts))
    standing = mysis.pins.filter(state__in=Pin.STANDING)
    standing.exclude(text__in=wanted).delete()
    known = set(standing.values_list("text", flat=True))
    for text in wanted:
        if text not in known:
            _store(mysis, text, by)


def seal_pin(pin: Pin, by: str) -> None:
    """Note who wrote the text of a pin, and its hash, before it is saved."""
    pin.text = check_text(pin.text, "A pin")
    pin.digest = hash_text(pin.text)
    pin.author = pin.author or by
    pin.changed_by, pin.changed_at = by, timezone.now()


def _store(mysis: Mysis, text: str, by: str) -> Pin:
    pin = Pin(mysis=mysis, text=text)
    seal_pin(pin, by)
    _refuse_double(mysis, pin.text)
    pin.save()
    return pin


def _refuse_double(mysis: Mysis, text: str) -> None:
    double = mysis.pins.filter(state__in=Pin.STANDING, text=text).first()
    if double is not None:
        raise ActionError(
            f"text: this order stands already, as pin {double.pk}.", code="double"
        )


def _mark(pin: Pin, state: Pin.State, by: str) -> None:
    pin.state, pin.changed_by, pin.changed_at = state, by, timezone.now()
    pin.save(update_fields=["state", "changed_by", "changed_at"])
