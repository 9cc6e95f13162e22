"""Says which snapshots of the fleet have grown too old to be believed."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents import events
from agents.models import Mysis
from memory import ageing


def announce(mysis_id: int | None = None) -> int:
    """Append an event for each snapshot that crossed an age limit; how many.

    Of one Mysis, or of all that fly an account. A crossing is told once, whoever
    asks and however often.
    """
    flown = Mysis.objects.exclude(account=None)
    if mysis_id is not None:
        flown = flown.filter(pk=mysis_id)
    owners = dict(flown.values_list("account__username", "pk"))
    return sum(_announce(name, owners[name]) for name in ageing.due(list(owners)))


@transaction.atomic
def _announce(username: str, mysis_id: int) -> int:
    """One account in a transaction of its own, so that no turn waits for others."""
    lines = [
        (events.Kind.SNAPSHOT_STALE, mysis_id, _line(one))
        for one in ageing.crossings([username])
    ]
    events.append_all(lines)
    return len(lines)


def _line(one: ageing.Crossing) -> dict[str, Any]:
    return {
        "account": one.username,
        "tool": one.tool,
        "args": dict(one.args),
        "fields": [],
        "reason": one.reason,
        "tick": one.tick,
        "confidence": one.confidence,
    }
