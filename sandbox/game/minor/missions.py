"""The offices of a station: missions are taken, handed in and turned down."""

from __future__ import annotations

from sandbox.game.actions.action import Call, teach
from sandbox.game.config import GameError, not_docked_here, rfc3339
from sandbox.game.minor.row import DOCK, DOCKED, Deed, Json, act, ask, one
from sandbox.game.world.missions import (
    LASTS_TICKS,
    MOST_ACTIVE,
    TEMPLATES,
    Template,
    active_view,
    offer_view,
    offers,
)
from sandbox.game.world.models import Mission

_NS = 1_000_000_000


def _get_missions(call: Call) -> Json:
    return {
        "base_id": call.base.id,
        "base_name": call.base.name,
        "missions": [offer_view(one) for one in offers(call.base, call.player)],
    }


def _get_active_missions(call: Call) -> Json:
    """As recorded: null where there are none."""
    own = [active_view(one, call.state.tick) for one in call.player.missions]
    return {
        "missions": own or None,
        "total_count": len(own),
        "max_missions": MOST_ACTIVE,
    }


def _completed_missions(call: Call) -> Json:
    done = [
        {"template_id": name, "completed_at": moment}
        for name, moment in call.player.completed.items()
    ]
    return {"missions": done, "total_count": len(done)}


def _offered(deed: Deed) -> Template:
    wanted = deed.given["mission_id"]
    for template in offers(deed.base, deed.player):
        if template.id == wanted:
            return template
    raise GameError(
        "invalid_mission", f"No mission '{wanted}' here. Use 'get_missions'."
    )


def _own(deed: Deed) -> Mission:
    wanted = deed.given["mission_id"]
    for mission in deed.player.missions:
        if wanted in (mission.id, mission.template_id):
            return mission
    raise GameError(
        "invalid_mission", f"No active mission '{wanted}'. See get_active_missions."
    )


def _own_here(deed: Deed) -> Mission:
    mission = _own(deed)
    if deed.base.id != mission.base_id:
        raise not_docked_here()
    return mission


def _accept(deed: Deed) -> Json:
    template, state = deed.thing, deed.state
    expires = state.tick + LASTS_TICKS
    mission = Mission(state.sources.token(16), template.id, deed.base.id, expires)
    deed.player.missions.append(mission)
    lasts = int(LASTS_TICKS * state.config.tick_seconds * _NS)
    return {
        "message": f"Mission accepted: {template.title}",
        "mission_id": mission.id,
        "template_id": template.id,
        "title": template.title,
        "type": template.type,
        "expires_at": rfc3339(state.sources.now_ns() + lasts),
    }


def _incomplete(deed: Deed) -> bool:
    mission: Mission = deed.thing
    return mission.current < TEMPLATES[mission.template_id].required


def _reward(deed: Deed) -> int:
    return TEMPLATES[deed.thing.template_id].credits


def _complete(deed: Deed) -> Json:
    mission, template = deed.thing, TEMPLATES[deed.thing.template_id]
    deed.player.missions.remove(mission)
    deed.player.completed[template.id] = rfc3339(deed.state.sources.now_ns())
    teach(deed.state, deed.player, template.skill, template.xp)
    return {
        "message": f"Mission complete: {template.title}",
        "mission_id": mission.id,
        "title": template.title,
        "credits_earned": template.credits,
        "skill_xp_gained": {template.skill: template.xp},
    }


_MISSION = one("mission_id", "The mission's ID")
_AN_OFFER = _MISSION._replace(example={"mission_id": "iron_for_the_docks"})

ROUND = (
    ask("get_missions", "missions", "See what the station offers.", _get_missions,
        notes=DOCKED),
    ask("get_active_missions", "missions", "See the missions you have accepted.",
        _get_active_missions),
    act("accept_mission", "missions", "Accept a mission of this station.", _AN_OFFER,
        notes="At most five at a time.", where=DOCK, names=_offered,
        unless=((lambda deed: len(deed.player.missions) >= MOST_ACTIVE,
                 "too_many_missions", f"At most {MOST_ACTIVE} at a time."),),
        changes=_accept),
    act("complete_mission", "missions", "Hand in a mission where you accepted it.",
        _MISSION, where=DOCK, names=_own_here,
        unless=((_incomplete, "mission_incomplete",
                 "There is more to do. See 'get_active_missions'."),), earns=_reward,
        changes=_complete),
    act("abandon_mission", "missions", "Give a mission up.", _MISSION, destructive=True,
        names=_own, changes=lambda deed: deed.player.missions.remove(deed.thing)),
)  # fmt: skip
DECISIONS = (
    act("decline_mission", "missions",
        "Turn a mission down, so that it is not offered again.", _AN_OFFER, where=DOCK,
        names=_offered,
        changes=lambda deed: deed.player.declined.append(deed.thing.id)),
    ask("completed_missions", "missions", "See the missions you have completed.",
        _completed_missions),
)  # fmt: skip
