"""Missions: what the station offers, and what the asker is at."""

from __future__ import annotations

from sandbox.game.missions import MOST_ACTIVE, active_view, offer_view, offers
from sandbox.game.queries.call import Call, Json
from sandbox.game.queries.here import docked_base


def get_missions(call: Call) -> Json:
    base = docked_base(call)
    return {
        "base_id": base.id,
        "base_name": base.name,
        "missions": [offer_view(one) for one in offers(base, call.player)],
    }


def completed_missions(call: Call) -> Json:
    done = [
        {"template_id": name, "completed_at": moment}
        for name, moment in call.player.completed.items()
    ]
    return {"missions": done, "total_count": len(done)}


def get_active_missions(call: Call) -> Json:
    """As recorded: null where there are none."""
    own = [active_view(one, call.state.tick) for one in call.player.missions]
    return {
        "missions": own or None,
        "total_count": len(own),
        "max_missions": MOST_ACTIVE,
    }
