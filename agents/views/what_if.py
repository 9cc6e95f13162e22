"""A context under other settings than its own, and two of them side by side.

The same for the next call and for any that was made: only what is assembled differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents import context
from agents.actions import ActionError
from agents.dashboard import changes, comparing
from agents.forms import WhatIfForm
from agents.models import Mysis
from memory.past import Past, as_sent, guessed
from memory.preview import Prepared, Subject

AS_SENT, WHAT_IF = "as it was sent", "what if"

Make = Callable[..., Prepared]


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a form. ``what_if`` is None where nothing else was asked for, and
    ``comparison`` where nothing was to be laid beside.
    """

    own: Prepared | None
    what_if: Prepared | None = None
    comparison: comparing.Comparison | None = None

    @property
    def view(self) -> Prepared | None:
        """The one to show."""
        return self.what_if or self.own


@dataclass(frozen=True, slots=True)
class Likeness:
    """How well a past call can be made again: what is not known of then, and how much
    of it, in per cent from its beginning, comes out as it was sent. ``refused`` says
    why it cannot be made again at all.
    """

    same: bool
    percent: int
    unknown: tuple[str, ...]
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Basis:
    """What is tried on: the subject with its own settings, ``own`` its own view and
    ``make`` another; ``name`` is what its own view is called.
    """

    subject: Subject
    own: Callable[[], Prepared]
    make: Make
    name: str = ""


def on_next(mysis: Mysis) -> Basis:
    """The next call of a Mysis."""

    def make(**values: Any) -> Prepared:
        return context.preview(mysis, **values)

    return Basis(context.subject_of(mysis), make, make)


def on_past(then: Past) -> Basis:
    """A call that was made."""

    def make(**values: Any) -> Prepared:
        return context.again(then, **values)

    return Basis(then.subject, lambda: as_sent(then), make, AS_SENT)


def asks(form: WhatIfForm) -> bool:
    """Whether a form asks for other settings, or for some to be laid beside."""
    return form.is_bound and (form.has_values() or form.lays_beside())


def attempt(basis: Basis, form: WhatIfForm, *, compare: bool) -> Tried:
    """What a form asks for; what cannot be is told at its fields.

    With ``compare``, other settings are laid beside its own.
    """
    if form.is_bound and not form.is_valid():
        return Tried(None)
    try:
        what_if = _what_if(basis, form)
    except ActionError as error:
        form.blame(error.detail)
        return Tried(None)
    # What goes without its own view need not wait for it.
    own = basis.own() if what_if is None or compare else None
    tried = Tried(own, what_if)
    try:
        other = _other(basis, form)
    except ActionError as error:
        form.blame(error.detail, beside=True)
        return tried
    return Tried(own, what_if, _compared(basis, tried, other) if compare else None)


def _what_if(basis: Basis, form: WhatIfForm) -> Prepared | None:
    if not form.is_bound or not form.has_values():
        return None
    return basis.make(**form.changes(basis.subject))


def _other(basis: Basis, form: WhatIfForm) -> Prepared | None:
    values = form.other(basis.subject) if form.is_bound else None
    return None if values is None else basis.make(**values)


def _compared(
    basis: Basis, tried: Tried, other: Prepared | None
) -> comparing.Comparison | None:
    """The one beside it, or what is tried beside its own."""
    first = tried.view if other is not None else tried.own
    second = other or tried.what_if
    if first is None or second is None:
        return None
    name = basis.name if first is tried.own else WHAT_IF if basis.name else ""
    return comparing.of(first, second, (name, WHAT_IF if basis.name else ""))


def likeness(then: Past) -> Likeness:
    """Make a past call again under its own settings, and lay it beside what was sent."""
    try:
        made = context.again(then)
    except ActionError as error:
        # A strategy or an option of then may be gone.
        return Likeness(False, 0, then.unknown, error.detail)
    a, b = then.shown, made.assembly
    found = changes.beside(b.messages, b.system, a.messages, a.system)
    same = made.digest == then.sent.digest
    # What had to be guessed was guessed right where the same bytes come of it.
    unknown = then.unknown if same else (*then.unknown, *guessed(then))
    return Likeness(same, found.percent, unknown)
