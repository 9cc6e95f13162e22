"""The offices of a station: missions are taken, handed in and turned down."""

from __future__ import annotations

from sandbox.game.config import (
    NS,
    GameError,
    Json,
    format_time,
    make_view,
    not_docked_here,
)
from sandbox.game.tools.rules import DOCKED, Call, act, ask, pick
from sandbox.game.world.catalogue import ITEMS, TEMPLATES, Template
from sandbox.game.world.models import Mission

MOST_ACTIVE = 5
LASTS_TICKS = 600
_OFFER = make_view("mission_id=id template_id=id title description type")
_ACTIVE = make_view("template_id=id title type description")
_TAKEN = make_view("template_id=id title type")


def _list_offers(call: Call) -> list[Template]:
    """What a station offers a captain: nothing twice at a time, or once declined."""
    if "missions" not in call.base.services:
        return []
    taken = {mission.template_id for mission in call.player.missions}
    left_out = taken.union(call.player.declined)
    return [each for each in TEMPLATES.values() if each.id not in left_out]


def _get_missions(call: Call) -> Json:
    offers = [
        {
            **_OFFER(template),
            "difficulty": 2 if template.type == "combat" else 1,
            "objectives": [_objective(template)],
            "rewards": _rewards(template),
            "requirements": {},
            "repeatable": True,
            "expires_in_ticks": LASTS_TICKS,
        }
        for template in _list_offers(call)
    ]
    return {"base_id": call.base.id, "base_name": call.base.name, "missions": offers}


def _objective(template: Template) -> Json:
    what = ITEMS[template.item_id].name if template.item_id else "pirate"
    verb = "Mine" if template.goal == "mine_resource" else "Destroy"
    words = f"{verb} {template.required} {what}"
    return {"type": template.goal, "description": words}


def _rewards(template: Template) -> Json:
    return {"credits": template.credits, "skill_xp": {template.skill: template.xp}}


def _get_active_missions(call: Call) -> Json:
    """As recorded: null where there are none."""
    own = [_active_view(mission, call.state.tick) for mission in call.player.missions]
    totals = {"total_count": len(own), "max_missions": MOST_ACTIVE}
    return {"missions": own or None, **totals}


def _active_view(mission: Mission, tick: int) -> Json:
    template = TEMPLATES[mission.template_id]
    progress = {"current": mission.current, "required": template.required}
    done = mission.current >= template.required
    return {
        "mission_id": mission.id,
        **_ACTIVE(template),
        "base_id": mission.base_id,
        "objectives": [_objective(template) | progress | {"completed": done}],
        **progress,
        "percent_complete": 100 * mission.current // template.required,
        "rewards": _rewards(template),
        "expire_tick": mission.expire_tick,
        "expires_in_ticks": mission.expire_tick - tick,
    }


def _completed_missions(call: Call) -> Json:
    done = [
        {"template_id": name, "completed_at": moment}
        for name, moment in call.player.completed.items()
    ]
    return {"missions": done, "total_count": len(done)}


_find_offer = pick("mission_id", _list_offers, "invalid_mission",
                   "No mission '{}' here. Use 'get_missions'.")  # fmt: skip


def _find_own(call: Call) -> Mission:
    wanted = call.given["mission_id"]
    for mission in call.player.missions:
        if wanted in (mission.id, mission.template_id):
            return mission
    raise GameError(
        "invalid_mission", f"No active mission '{wanted}'. See get_active_missions."
    )


def _find_own_here(call: Call) -> Mission:
    mission = _find_own(call)
    if call.base.id != mission.base_id:
        raise not_docked_here()
    return mission


def _accept(call: Call) -> Json:
    template, state = call.thing, call.state
    expires = state.tick + LASTS_TICKS
    mission = Mission(call.token(), template.id, call.base.id, expires)
    call.player.missions.append(mission)
    lasts = int(LASTS_TICKS * state.config.tick_seconds * NS)
    return {
        "message": f"Mission accepted: {template.title}",
        "mission_id": mission.id,
        **_TAKEN(template),
        "expires_at": format_time(state.sources.now_ns() + lasts),
    }


def _complete(call: Call) -> Json:
    mission, template = call.thing, TEMPLATES[call.thing.template_id]
    call.player.missions.remove(mission)
    call.player.completed[template.id] = call.state.now
    call.teach(template.skill, template.xp)
    return {
        "message": f"Mission complete: {template.title}",
        "mission_id": mission.id,
        "title": template.title,
        "credits_earned": template.credits,
        "skill_xp_gained": {template.skill: template.xp},
    }


_AN_OFFER = {"mission_id": "iron_for_the_docks"}

ROUND = (
    ask("get_missions", "missions", "See what the station offers.", _get_missions,
        notes=DOCKED),
    ask("get_active_missions", "missions", "See the missions you have accepted.",
        _get_active_missions),
    act("accept_mission", "missions", "Accept a mission of this station.",
        "mission_id", example=_AN_OFFER, notes="At most five at a time.", where="dock", names=_find_offer,
        unless=((lambda call: len(call.player.missions) >= MOST_ACTIVE,
                 "too_many_missions", f"At most {MOST_ACTIVE} at a time."),),
        changes=_accept),
    act("complete_mission", "missions", "Hand in a mission where you accepted it.",
        "mission_id", where="dock", names=_find_own_here,
        unless=((lambda call: call.thing.current
                 < TEMPLATES[call.thing.template_id].required, "mission_incomplete",
                 "There is more to do. See 'get_active_missions'."),),
        earns=lambda call: TEMPLATES[call.thing.template_id].credits,
        changes=_complete),
    act("abandon_mission", "missions", "Give a mission up.", "mission_id",
        destructive=True, names=_find_own,
        changes=lambda call: call.player.missions.remove(call.thing)),
)  # fmt: skip
DECISIONS = (
    act("decline_mission", "missions",
        "Turn a mission down, so that it is not offered again.", "mission_id",
        example=_AN_OFFER, where="dock", names=_find_offer,
        changes=lambda call: call.player.declined.append(call.thing.id)),
    ask("completed_missions", "missions", "See the missions you have completed.",
        _completed_missions),
)  # fmt: skip
