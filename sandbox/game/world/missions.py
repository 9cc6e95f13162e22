"""Missions: what stations ask for, and how far a captain has come with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.game.world.catalogue import ITEMS
from sandbox.game.world.models import Mission, Player
from sandbox.game.world.places import Base

Json = dict[str, Any]
MOST_ACTIVE = 5
LASTS_TICKS = 600


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
