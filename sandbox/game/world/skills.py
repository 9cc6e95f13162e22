"""What captains learn, and how experience becomes levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.game.world.models import Player, Skill

MAX_LEVEL = 10
_XP_PER_LEVEL = (100, 300, 600, 1000, 1500, 2100, 2800, 3600, 4500, 5500)


@dataclass(frozen=True, slots=True)
class SkillKind:
    """A skill that can be learned."""

    id: str
    name: str
    category: str
    description: str
    bonus: str
    source: str
    requires: tuple[str, int] | None = None


_PLAYED = (
    SkillKind("mining_basic", "Mining", "Mining", "Handling of mining lasers.",
        "miningYield", "Mine anything."),
    SkillKind("trading", "Trading", "Trading", "A feeling for prices.", "tradeProfit",
        "Buy and sell at stations."),
    SkillKind("small_ships", "Small Ships", "Ships", "Flying light hulls.", "agility",
        "Travel within a system."),
    SkillKind("navigation", "Navigation", "Navigation", "Plotting jumps.",
        "jumpAccuracy", "Jump between systems."),
    SkillKind("exploration", "Exploration", "Navigation", "Knowing what to look for.",
        "surveyRange", "Visit systems for the first time."),
    SkillKind("crafting_basic", "Basic Crafting", "Crafting",
        "Making things of raw goods.", "craftQuality", "Craft at a workshop."),
    SkillKind("scanning", "Scanning", "Support", "Reading other ships.", "scanPower",
        "Scan ships and pirates."),
    SkillKind("weapons_basic", "Weapons", "Combat", "Hitting what moves.",
        "weaponDamage", "Fight pirates."),
)  # fmt: skip
_FIELDS = ("Mining", "Trading", "Ships", "Navigation", "Support", "Combat", "Crafting")
_STAGES = ("Theory", "Practice", "Mastery")
_TOPICS = ("Armour", "Drives", "Alloys", "Sensors", "Logistics", "Salvage")


def _untaught() -> list[SkillKind]:
    """Skills that are listed but cannot be trained in this game."""
    return [
        SkillKind(
            f"{area}_{topic}_{stage}".lower(),
            f"{area} {topic} {stage}",
            area,
            f"{stage} of {topic.lower()} as it is taught in {area.lower()}.",
            f"{topic.lower()}Efficiency",
            "Not taught here.",
            requires=(f"{area}_{topic}_{_STAGES[step - 1]}".lower(), 3)
            if step
            else None,
        )
        for area in _FIELDS
        for topic in _TOPICS
        for step, stage in enumerate(_STAGES)
    ]


KINDS = {kind.id: kind for kind in (*_PLAYED, *_untaught())}


def needed(level: int) -> int:
    """Give the experience that leads from this level to the next, 0 at the end."""
    return _XP_PER_LEVEL[level] if level < MAX_LEVEL else 0


def learn(player: Player, skill_id: str, xp: int) -> bool:
    """Add experience; True when a level was gained."""
    skill = player.skills.setdefault(skill_id, Skill())
    if skill.level >= MAX_LEVEL:
        return False
    before = skill.level
    skill.xp += xp
    while skill.level < MAX_LEVEL and skill.xp >= needed(skill.level):
        skill.xp -= needed(skill.level)
        skill.level += 1
    if skill.level >= MAX_LEVEL:
        skill.xp = 0
    return skill.level > before


def definition(kind: SkillKind) -> dict[str, Any]:
    """The game's own description of a skill."""
    required = {"required_skills": dict([kind.requires])} if kind.requires else {}
    return {
        "id": kind.id,
        "name": kind.name,
        "description": kind.description,
        "category": kind.category,
        "max_level": MAX_LEVEL,
        **required,
        "bonus_per_level": {kind.bonus: 2},
        "training_source": kind.source,
        "xp_per_level": list(_XP_PER_LEVEL),
    }
