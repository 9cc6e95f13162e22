"""`zoea_swarm_status` and `zoea_list_myses`: who flies, and how they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Count

from agents.models import Mysis
from agents.tools.reach import Answer, Reach, told
from memory.state import newest_tick

DEFAULT_LISTED = 50
MOST_LISTED = 200


def status(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """How many Myses are in which state, and the newest game tick."""
    counts = dict.fromkeys(map(str, Mysis.State), 0)
    counts |= dict(
        Mysis.objects.values_list("state").annotate(n=Count("id")).order_by()
    )
    value = {"total": sum(counts.values()), "counts": counts, "tick": newest_tick()}
    return told(value)


def listing(arguments: Mapping[str, Any], reach: Reach) -> Answer:
    """The Myses by number; ``next`` is the ``after`` of the following page."""
    limit = int(arguments.get("limit", DEFAULT_LISTED))
    rows = Mysis.objects.select_related("account", "policy").order_by("pk")
    after = int(arguments.get("after", 0))
    found = list(rows.filter(pk__gt=after)[: limit + 1])
    more = found[limit - 1].pk if len(found) > limit else None
    shown = [_line(row, reach) for row in found[:limit]]
    return told({"total": rows.count(), "myses": shown, "next": more})


def _line(row: Mysis, reach: Reach) -> dict[str, Any]:
    known: dict[str, Any] = {
        "id": row.pk,
        "name": row.name,
        "state": row.state,
        "account": row.account.username if row.account else None,
    }
    if reach.mysis_id is not None:
        # What another one does and runs on is not a Mysis's business.
        return known | {"is_you": row.pk == reach.mysis_id}
    return known | {
        "model": row.model,
        "policy": row.policy.name if row.policy else None,
        "activity": row.activity,
        "tick": row.tick,
        "last_error": row.last_error or None,
    }
