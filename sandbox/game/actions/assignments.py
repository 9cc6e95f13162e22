"""accept_mission, complete_mission and abandon_mission."""

from __future__ import annotations

from sandbox.game.actions.action import Action, Arguments, Event, Intent
from sandbox.game.errors import GameError, not_docked_here
from sandbox.game.learning import teach
from sandbox.game.missions import (
    LASTS_TICKS,
    MOST_ACTIVE,
    TEMPLATES,
    Template,
    offers,
)
from sandbox.game.models import Mission, Player
from sandbox.game.stamps import rfc3339
from sandbox.game.state import State

_NS = 1_000_000_000


def _offered(state: State, player: Player, mission_id: str) -> Template:
    if not player.docked_at:
        raise not_docked_here()
    base = state.world.bases[player.docked_at]
    for template in offers(base, player):
        if template.id == mission_id:
            return template
    raise GameError(
        "invalid_mission", f"No mission '{mission_id}' here. Use 'get_missions'."
    )


def _prepare_accept(state: State, player: Player, arguments: Arguments) -> Intent:
    template = _offered(state, player, arguments["mission_id"])
    if len(player.missions) >= MOST_ACTIVE:
        raise GameError("too_many_missions", f"At most {MOST_ACTIVE} at a time.")
    given = {"mission_id": template.id}
    return Intent(given, {**given, "title": template.title, "message": "Accepting..."})


def _finish_accept(state: State, player: Player, arguments: Arguments) -> list[Event]:
    template = _offered(state, player, arguments["mission_id"])
    mission = Mission(
        id=state.sources.token(16),
        template_id=template.id,
        base_id=player.docked_at or "",
        expire_tick=state.tick + LASTS_TICKS,
    )
    player.missions.append(mission)
    lasts = int(LASTS_TICKS * state.config.tick_seconds * _NS)
    return [
        Event(
            {
                "message": f"Mission accepted: {template.title}",
                "mission_id": mission.id,
                "template_id": template.id,
                "title": template.title,
                "type": template.type,
                "expires_at": rfc3339(state.sources.now_ns() + lasts),
            }
        )
    ]


def _own(player: Player, mission_id: str) -> Mission:
    for mission in player.missions:
        if mission_id in (mission.id, mission.template_id):
            return mission
    raise GameError(
        "invalid_mission", f"No active mission '{mission_id}'. See get_active_missions."
    )


def _prepare_complete(state: State, player: Player, arguments: Arguments) -> Intent:
    mission = _own(player, arguments["mission_id"])
    template = TEMPLATES[mission.template_id]
    if player.docked_at != mission.base_id:
        raise not_docked_here()
    if mission.current < template.required:
        raise GameError(
            "mission_incomplete",
            f"{template.title}: {mission.current} of {template.required} done.",
        )
    given = {"mission_id": mission.id}
    return Intent(given, {**given, "message": "Completing..."})


def _finish_complete(state: State, player: Player, arguments: Arguments) -> list[Event]:
    _prepare_complete(state, player, arguments)
    mission = _own(player, arguments["mission_id"])
    template = TEMPLATES[mission.template_id]
    player.missions.remove(mission)
    player.earn(template.credits)
    player.completed[template.id] = rfc3339(state.sources.now_ns())
    teach(state, player, template.skill, template.xp)
    return [
        Event(
            {
                "message": f"Mission complete: {template.title}",
                "mission_id": mission.id,
                "title": template.title,
                "credits_earned": template.credits,
                "skill_xp_gained": {template.skill: template.xp},
            }
        )
    ]


def _prepare_abandon(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"mission_id": _own(player, arguments["mission_id"]).id}
    return Intent(given, {**given, "message": "Abandoning..."})


def _finish_abandon(state: State, player: Player, arguments: Arguments) -> list[Event]:
    mission = _own(player, arguments["mission_id"])
    player.missions.remove(mission)
    return [Event({"message": "Mission abandoned", "mission_id": mission.id})]


def _prepare_decline(state: State, player: Player, arguments: Arguments) -> Intent:
    given = {"mission_id": _offered(state, player, arguments["mission_id"]).id}
    return Intent(given, {**given, "message": "Declining..."})


def _finish_decline(state: State, player: Player, arguments: Arguments) -> list[Event]:
    template = _offered(state, player, arguments["mission_id"])
    player.declined.append(template.id)
    return [Event({"action": "decline_mission", "mission_id": template.id})]


ASSIGNMENTS = (
    Action("accept_mission", _prepare_accept, _finish_accept, needs="dock"),
    Action("complete_mission", _prepare_complete, _finish_complete, needs="dock"),
    Action("abandon_mission", _prepare_abandon, _finish_abandon),
    Action("decline_mission", _prepare_decline, _finish_decline, needs="dock"),
)
