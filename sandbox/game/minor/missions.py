"""Missions: what stations ask for, and how far a captain has come with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.game.actions.action import Call, teach
from sandbox.game.config import GameError, not_docked_here, rfc3339
from sandbox.game.minor.row import DOCK, DOCKED, Deed, act, ask, one
from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Mission, Player
from sandbox.game.world.places import Base

Json = dict[str, Any]
MOST_ACTIVE = 5
LASTS_TICKS = 600
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Template:
    """A mission as it is offered; `item_id` is empty where any target will do."""

    id: str
    title: str
    type: str
    description: str
    goal: str
    item_id: str
    required: int
    credits: int
    skill: str
    xp: int


_TEMPLATES = (
    Template("iron_for_the_docks", "Iron for the Docks", "mining",
        "The yard has run out of plate again. Dig some iron and come back.",
        "mine_resource", "ore_iron", 10, 200, "mining_basic", 15),
    Template("copper_for_the_mill", "Copper for the Mill", "mining",
        "The wire mill pays for fresh copper, no questions about the rest.",
        "mine_resource", "ore_copper", 20, 350, "mining_basic", 20),
    Template("one_pirate_less", "One Pirate Less", "combat",
        "Somebody has been shooting at freighters. Any pirate will do.", "kill_pirate",
        "", 1, 800, "weapons_basic", 20),
)  # fmt: skip
TEMPLATES = {template.id: template for template in _TEMPLATES}


def offers(base: Base, player: Player) -> list[Template]:
    """What a station offers a captain: nothing twice at a time, or once declined."""
    if "missions" not in base.services:
        return []
    taken = {mission.template_id for mission in player.missions}
    left_out = taken.union(player.declined)
    return [one for one in _TEMPLATES if one.id not in left_out]


def advance_missions(player: Player, goal: str, item_id: str, count: int) -> None:
    """Count what was done towards every mission that it serves."""
    for mission in player.missions:
        template = TEMPLATES[mission.template_id]
        if template.goal == goal and template.item_id in ("", item_id):
            mission.current = min(template.required, mission.current + count)


def expire_missions(player: Player, tick: int) -> None:
    player.missions = [one for one in player.missions if one.expire_tick > tick]


def _objective(template: Template) -> Json:
    what = ITEMS[template.item_id].name if template.item_id else "pirate"
    verb = "Mine" if template.goal == "mine_resource" else "Destroy"
    text = f"{verb} {template.required} {what}"
    return {"type": template.goal, "description": text}


def offer_view(template: Template) -> Json:
    return {
        "mission_id": template.id,
        "template_id": template.id,
        "title": template.title,
        "description": template.description,
        "type": template.type,
        "difficulty": 2 if template.type == "combat" else 1,
        "objectives": [_objective(template)],
        "rewards": {
            "credits": template.credits,
            "skill_xp": {template.skill: template.xp},
        },
        "requirements": {},
        "repeatable": True,
        "expires_in_ticks": LASTS_TICKS,
    }


def active_view(mission: Mission, tick: int) -> Json:
    template = TEMPLATES[mission.template_id]
    goal = _objective(template) | {
        "current": mission.current,
        "required": template.required,
        "completed": mission.current >= template.required,
    }
    return {
        "mission_id": mission.id,
        "template_id": template.id,
        "title": template.title,
        "type": template.type,
        "description": template.description,
        "base_id": mission.base_id,
        "objectives": [goal],
        "current": mission.current,
        "required": template.required,
        "percent_complete": 100 * mission.current // template.required,
        "rewards": {
            "credits": template.credits,
            "skill_xp": {template.skill: template.xp},
        },
        "expire_tick": mission.expire_tick,
        "expires_in_ticks": mission.expire_tick - tick,
    }


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
        unless=((
                 _incomplete,
                 "mission_incomplete",
                 "There is more to do. See 'get_active_missions'."),),
        earns=_reward,
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
