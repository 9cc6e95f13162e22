"""Pirates that attack, captains that do, the police, and what a death leaves."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.game import truth
from sandbox.game.game import Game
from sandbox.game.testing import SandboxServer
from sandbox.game.tools.combat import CLONE_COST, WARNING_TICKS, ambush
from sandbox.game.world.models import Skill
from tests.sandbox.captains import Captain, make_game
from tests.sandbox.remote import flying


def kinds(news: list[dict[str, Any]]) -> list[str]:
    return [one["msg_type"] for one in news]


def in_wild_space(game: Game, name: str = "Wanderer") -> Captain:
    """A captain in a system without police, among no pirates."""
    captain = Captain(game, name)
    star = next(
        one
        for one in game.state.world.systems.values()
        if not one.police_level and not one.stronghold
    )
    captain.player.docked_at = None
    game.state.leave(captain.player)
    game.state.arrive(captain.player, star.pois[0].id)
    captain.news()
    return captain


def test_a_raider_warns_shoots_and_kills(captain: Captain) -> None:
    captain.go_mining()
    captain.do("mine")
    witness = Captain(captain.game, "Witness")
    witness.go_mining()
    captain.news()
    old_ship = captain.player.ship.id
    pirate = ambush(captain.game.state, captain.player)
    (near,) = captain.call("get_nearby")["pirates"]
    assert near["pirate_id"] == pirate.id
    captain.game.step()
    spawn, warning = captain.news()
    assert (spawn["msg_type"], warning["msg_type"]) == (
        "pirate_spawn",
        "pirate_warning",
    )
    assert warning["data"]["attack_in_ticks"] == WARNING_TICKS
    assert captain.call("get_nearby")["pirates"][0]["status"] == "attacking"
    for _ in range(WARNING_TICKS):
        captain.game.step()
    (shot,) = captain.news()
    assert shot["msg_type"] == "pirate_combat"
    # What is told of the ship is what is true when the tick has passed.
    ship = captain.call("get_status")["ship"]
    told = shot["data"]["player_hull"], shot["data"]["player_shield"]
    assert told == (ship["hull"], ship["shield"])
    captain.player.ship.hull, captain.player.ship.shield = 3, 0
    captain.game.step()
    last, died = captain.news()
    assert last["data"]["destroyed"] is True
    assert died["data"]["killer_id"] == pirate.id
    assert died["data"]["cause"] == "pirate"
    status = captain.call("get_status")
    home = status["player"]["docked_at_base"]
    assert home == died["data"]["respawn_base"] == "sol_base"
    assert status["player"]["credits"] == 100 - CLONE_COST
    assert (status["ship"]["cargo"], status["ship"]["hull"]) == ([], 100)
    assert captain.call("get_nearby")["poi_id"] == "sol_station"
    left = [other["username"] for other in witness.call("get_nearby")["nearby"]]
    assert "Wanderer" not in left
    assert status["player"]["current_ship_id"] == status["ship"]["id"] != old_ship
    wreck = captain.game.state.wrecks[died["data"]["wreck_id"]]
    assert (wreck.poi_id, wreck.victim_name) == ("sol_belt", "Wanderer")
    assert wreck.cargo


def test_flight_saves_and_the_raider_goes(captain: Captain) -> None:
    captain.go_mining()
    pirate = ambush(captain.game.state, captain.player)
    captain.game.step()
    captain.news()
    assert kinds(captain.do("travel", target_poi="sol_station")) == ["ok"]
    for _ in range(15):
        captain.game.step()
    assert pirate.id not in captain.game.state.pirates
    assert captain.player.ship.hull == 100


def test_raiders_come_in_lawless_space_only() -> None:
    game = make_game(raid_chance=1.0)
    wild, tame = in_wild_space(game), Captain(game, "Tame")
    tame.call("undock")
    game.step()
    game.step()
    assert kinds(wild.news())[:2] == ["pirate_spawn", "pirate_warning"]
    assert kinds(tame.news()) == ["ok"]


def test_residents_of_a_stronghold_attack() -> None:
    game = make_game(raid_chance=0.0)
    captain = Captain(game)
    pirate = next(iter(game.state.pirates.values()))
    captain.player.docked_at = None
    game.state.leave(captain.player)
    game.state.arrive(captain.player, pirate.poi_id)
    for _ in range(1 + WARNING_TICKS):
        game.step()
    heard = set(kinds(captain.news()))
    assert {"pirate_warning", "pirate_combat"} <= heard


def test_captains_shoot_at_each_other(game: Game) -> None:
    rude, victim = Captain(game, "Rude"), Captain(game, "Victim")
    victim.call("undock")
    rude.do("undock")
    victim.news()
    rude.call("attack", target_id=victim.player.id)
    game.step()
    (shot,) = victim.news()
    assert shot["msg_type"] == "combat_update"
    assert shot["data"]["target"] == "Victim"
    assert victim.player.ship.shield == 50 - shot["data"]["shield_hit"]
    assert kinds(rude.news()) == ["combat_update"]


def test_the_police_shoots_at_who_is_out_in_space(captain: Captain) -> None:
    with pytest.raises(ValueError, match="not out in space"):
        truth.let_happen(captain.game, "Wanderer", "police_combat", {})
    captain.do("undock")
    truth.let_happen(captain.game, "Wanderer", "police_combat", {})
    (drone,) = captain.news()
    assert drone["msg_type"] == "police_combat"
    assert captain.player.ship.shield == 50 - drone["data"]["damage"]
    captain.player.ship.hull, captain.player.ship.shield = 1, 0
    truth.let_happen(captain.game, "Wanderer", "police_combat", {})
    assert kinds(captain.news()) == ["police_combat", "player_died"]
    assert captain.player.docked_at == "sol_base"


def test_a_captain_can_be_killed(game: Game) -> None:
    rude, victim = in_wild_space(game, "Rude"), in_wild_space(game, "Victim")
    rude.news()
    victim.player.ship.hull, victim.player.ship.shield = 1, 0
    rude.do("attack", target_id=victim.player.id)
    assert kinds(victim.news()) == ["combat_update", "player_died"]
    assert rude.player.stats["ships_destroyed"] == 1
    assert rude.call("get_wrecks")["count"] == 1


def test_the_words_of_era_c() -> None:
    game = make_game(era="C", raid_chance=0.0)
    captain = in_wild_space(game)
    pirate = ambush(game.state, captain.player)
    captain.player.skills.clear()
    pirate.hull, pirate.shield = 1, 0
    captain.call("attack", target_id=pirate.id)
    game.step()
    outcome = game.outcome(captain.player.id)
    assert outcome is not None
    assert outcome.result == {
        "action": "attack",
        "target": pirate.id,
        "target_name": pirate.name,
        "target_type": "pirate",
        "kind": "npc",
    }
    news = {one["msg_type"]: one["data"] for one in captain.news()}
    assert news["battle_damage"]["total_damage"] == 1
    assert news["pirate_destroyed"]["credits_earned"] == pirate.max_hull
    assert news["action_result"]["command"] == "attack"
    again = ambush(game.state, captain.player, "boss")
    for _ in range(1 + WARNING_TICKS):
        game.step()
    news = {one["msg_type"]: one["data"] for one in captain.news()}
    assert news["pirate_warning"]["is_boss"] is True
    assert news["pirate_combat"]["your_shield"] == captain.player.ship.shield
    assert news["pirate_combat"]["your_max_hull"] == 100
    assert game.state.pirates[again.id].victim == captain.player.id


def test_a_level_is_told_in_era_c() -> None:
    game = make_game(era="C")
    captain = Captain(game)
    captain.player.ship.load("ore_iron", 50)
    captain.call("sell", item_id="ore_iron", quantity=50)
    captain.player.skills["trading"] = Skill(0, 99)
    game.step()
    told = [one for one in captain.news() if one["msg_type"] == "skill_level_up"]
    assert told[0]["data"]["skill_id"] == "trading"
    assert told[0]["data"]["new_level"] == 1
    assert captain.call("get_status")["player"]["skills"] == {"trading": 1}


def test_an_action_that_a_death_cut_short_is_answered(game: Game) -> None:
    game = make_game(era="C")
    rude, victim = in_wild_space(game, "Rude"), in_wild_space(game, "Victim")
    victim.player.ship.hull, victim.player.ship.shield = 1, 0
    rude.call("attack", target_id=victim.player.id)
    victim.call("scan", target_id=rude.player.id)
    game.step()
    outcome = game.outcome(victim.player.id)
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.code == "action_cancelled"


def test_self_destruction_leads_home(captain: Captain) -> None:
    assert captain.refused("self_destruct").code == "docked"
    captain.do("undock")
    died, done = captain.do("self_destruct")
    assert died["data"]["cause"] == "self_destruct"
    assert done["data"]["action"] == "self_destruct"
    assert captain.player.docked_at == "sol_base"
    assert captain.player.stats["ships_lost"] == 1


@pytest.mark.parametrize("era", ["A", "C"])
async def test_an_ambush_over_http(era: str) -> None:
    with SandboxServer(era=era) as sandbox:
        async with flying(sandbox) as ada:
            player = sandbox.player("Ada")
            sandbox.run(lambda: setattr(player, "docked_at", None))
            pirate_id = sandbox.ambush("Ada", "medium")
            near = await ada.view("get_nearby")
            assert [one["pirate_id"] for one in near["pirates"]] == [pirate_id]
            sandbox.step(30)
            read = await ada.view("get_notifications", types=["combat"])
            assert "pirate_combat" in kinds(read["notifications"])
            facts = sandbox.truth("Ada")["facts"]
            assert facts["stats"]["ships_lost"] == 1
            assert facts["docked_at_base"] == "sol_base"
