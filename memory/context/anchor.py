"""What no strategy may lose: the newest order and the newest unit (I17, I18)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from memory.context.prepared import Prepared
from memory.context.units import Fate, Plan, Unit

_ORDER = Fate("kept", None, "The newest order; kept beyond what the strategy keeps.")
_NEWEST = Fate("kept", None, "The newest unit; kept beyond what the strategy keeps.")


@dataclass(slots=True)
class Anchored:
    """A plan's units with the two that must stay, and where these are."""

    units: list[Unit]
    newest: int | None = None
    intent: int | None = None
    fates: dict[int, Fate] = field(default_factory=dict)


def ensure(plan: Plan, prepared: Prepared) -> Anchored:
    """Put the newest order and the newest unit back in stored order if they are gone."""
    out = Anchored(list(plan.units))
    order = None if plan.covers_intent else _order(prepared)
    newest = prepared.units[-1] if prepared.units and not plan.exempt_newest else None
    for unit, fate in ((order, _ORDER), (newest, _NEWEST)):
        if unit is not None and not _has(out.units, unit):
            place = bisect_right(out.units, unit.start, key=lambda other: other.start)
            out.units.insert(place, unit)
            out.fates.update(dict.fromkeys(unit.rows, fate))
    for index, unit in enumerate(out.units):
        if newest is not None and unit.rows[:1] == newest.rows[:1]:
            out.newest = index
        if order is not None and unit.rows == order.rows:
            out.intent = index
    return out


def _order(prepared: Prepared) -> Unit | None:
    """The unit of the newest order; None if there is none or it is a pin."""
    intent = prepared.repaired.intent
    if intent is None or intent in prepared.repaired.pins:
        return None
    return next(unit for unit in reversed(prepared.units) if unit.rows == (intent,))


def _has(units: list[Unit], wanted: Unit) -> bool:
    return any(unit.rows[:1] == wanted.rows[:1] for unit in reversed(units))
