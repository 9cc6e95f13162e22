"""Create, change, start, stop and delete Myses, and create the demo fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from django.db import transaction

from agents import events, scheduling
from agents.actions.base import (
    ActionError,
    append_state_event,
    check_version,
    lock_mysis,
    name_mysis,
    retry_now,
    set_running,
    set_stopped,
    validate_row,
)
from agents.actions.messages import tell_to_carry_on
from agents.actions.orders import clear_open_orders
from agents.actions.pins import list_standing, replace_pins
from agents.actions.settings import get_default_prompt
from agents.events import Kind
from agents.llm.endpoints import resolve
from agents.llm.model_types import ModelError, UnknownProviderError
from agents.models import BudgetSpend, Mysis, Prompt
from memory import audit
from memory.models import ContextPolicy

# What the audit log tells of a Mysis that is made or deleted.
MADE_OF = ("model", "prompt", "policy", "group", "max_iterations")

DEMO_NAMES = (
    "Ada",
    "Brahe",
    "Cassini",
    "Draper",
    "Eratosthenes",
    "Flammarion",
    "Galileo",
    "Herschel",
    "Ibn al-Haytham",
    "Jansky",
    "Kepler",
    "Leavitt",
)


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
        prompt=prompt or get_default_prompt(),
        policy=policy,
        max_iterations=max_iterations,
    )
    check_provider(mysis.model)
    validate_row(mysis)
    mysis.save()
    replace_pins(mysis, pins, by)
    append_state_event(mysis, by)
    told = {**audit.read_columns(mysis, MADE_OF), "pins": list(pins)}
    audit.record("mysis.create", name_mysis(mysis), by=by, after=told)
    return mysis


@transaction.atomic
def update_mysis(
    *, mysis: Mysis, by: str, version: str | None = None, **changes: Any
) -> Mysis:
    """Change name, model, prompt, policy, group, max_iterations, settings, pins.

    ``version`` is `write_version` of what is changed, as the caller saw it last: raises
    ActionError 409 where it is another now. 422 for what cannot be stored.
    """
    locked = lock_mysis(mysis)
    before, thing = locked.model, name_mysis(locked)
    pins = changes.pop("pins", None)
    check_version(locked, changes, version)
    old = _read_changed(locked, changes, pins)
    for field, value in changes.items():
        setattr(locked, field, value)
    check_provider(locked.model)
    validate_row(locked)
    if changes:
        locked.save(update_fields=list(changes))
    if pins is not None:
        replace_pins(locked, pins, by)
    if locked.hold:
        # Another policy, group or model may count in other budgets.
        scheduling.schedule(locked, trigger="budget")
    elif locked.model != before:
        retry_now(locked)
    changed = [*changes, *(["pins"] if pins is not None else [])]
    append_state_event(locked, by, changed=changed)
    new = _read_changed(locked, changes, pins)
    audit.record_change("mysis.update", thing, by=by, before=old, after=new)
    return locked


def _read_changed(
    mysis: Mysis, changes: Mapping[str, object], pins: Sequence[str] | None
) -> dict[str, Any]:
    """What the audit log compares of a change."""
    told = audit.read_columns(mysis, list(changes)) if changes else {}
    if pins is not None:
        told["pins"] = list_standing(mysis)
    return told


@transaction.atomic
def delete_mysis(*, mysis: Mysis, by: str) -> None:
    """Delete a Mysis with its history; its account becomes free.

    What it spent stays counted, except in budgets for each Mysis.
    """
    locked = lock_mysis(mysis)
    events.append(
        Kind.MYSIS_STATE,
        mysis_id=locked.pk,
        data={"name": locked.name, "state": "deleted", "by": by},
    )
    number = locked.pk
    told = {"id": number, **audit.read_columns(locked, (*MADE_OF, "state"))}
    audit.record("mysis.delete", name_mysis(locked), by=by, before=told)
    locked.delete()
    # After its calls, in the order in which an answer is counted: else a deadlock.
    BudgetSpend.objects.filter(subject=number).delete()


@transaction.atomic
def start_mysis(
    *, mysis: Mysis, by: str, clear_orders: bool = False, upto: int | None = None
) -> Mysis:
    """Start an idle, stopped or errored Mysis. Raises ActionError while it runs.

    With ``clear_orders`` its open orders end as superseded first; with ``upto`` not
    those after that number. One whose newest order has ended goes on with its mission.
    """
    locked = lock_mysis(mysis)
    if locked.state == Mysis.State.RUNNING:
        raise ActionError(
            f"{locked.name} is running already: stop it first, or send a message.",
            code="running",
        )
    cleared = clear_open_orders([locked], by=by, upto=upto) if clear_orders else 0
    more = {"before": locked.state, **({"cleared": cleared} if cleared else {})}
    old = {"state": locked.state}
    set_running(locked, trigger="start")
    append_state_event(locked, by, **more)
    tell_to_carry_on(locked, by)
    told = {"state": locked.state, **({"cleared_orders": cleared} if cleared else {})}
    audit.record("mysis.start", name_mysis(locked), by=by, before=old, after=told)
    return locked


@transaction.atomic
def stop_mysis(*, mysis: Mysis, by: str) -> Mysis:
    """Stop; always wins, is harmless twice, and voids the turn under way by its epoch."""
    locked = lock_mysis(mysis)
    if locked.state == Mysis.State.STOPPED:
        return locked
    before = locked.state
    set_stopped(locked)
    append_state_event(locked, by, before=before)
    old, new = {"state": before}, {"state": locked.state}
    audit.record("mysis.stop", name_mysis(locked), by=by, before=old, after=new)
    return locked


@transaction.atomic
def create_demo_fleet(myses: int) -> list[Mysis]:
    """Start so many Myses on the scripted pilot; none where any exist already."""
    if Mysis.objects.exists():
        return []
    laps = ("", *(f" {lap}" for lap in range(2, myses)))
    names = islice((name + lap for lap in laps for name in DEMO_NAMES), myses)
    fleet = [create_mysis(name=name, by="demo") for name in names]
    return [start_mysis(mysis=mysis, by="demo") for mysis in fleet]


def check_provider(model: str) -> None:
    """Refuse a model of a provider that is not configured (ActionError 422)."""
    try:
        resolve(model)
    except UnknownProviderError as error:
        raise ActionError(f"model: {error}", code="invalid", status=422) from error
    except ModelError:
        # A key or a model that is missing now may be there at the start.
        return
