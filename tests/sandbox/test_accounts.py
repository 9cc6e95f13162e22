"""Registering, logging in, and the life of a session."""

from __future__ import annotations

import pytest

from sandbox.game.config import GameError
from sandbox.game.game import Game
from tests.sandbox.captains import Captain, FixedTime, make_game


def test_a_new_captain_starts_docked_in_a_prospector(captain: Captain) -> None:
    given = captain.registered
    assert len(given["password"]) == 64
    assert len(given["session_id"]) == 32
    player, ship = given["player"], given["ship"]
    assert player["docked_at_base"] == player["home_base"] == "sol_base"
    assert (player["current_system"], player["current_poi"]) == ("sol", "sol_station")
    assert (ship["class_id"], ship["name"]) == ("starter_mining", "Prospector")
    assert (ship["hull"], ship["fuel"], ship["cargo_capacity"]) == (100, 100, 50)
    modules = captain.call("get_status")["modules"]
    assert [module["type_id"] for module in modules] == ["mining_laser_1"]


@pytest.mark.parametrize(
    ("empire", "system"),
    [
        ("solarian", "sol"),
        ("crimson", "krynn"),
        ("voidborn", "nexus_prime"),
        ("nebula", "haven"),
        ("outerrim", "frontier"),
    ],
)
def test_every_empire_has_its_capital(game: Game, empire: str, system: str) -> None:
    captain = Captain(game, "Somebody", empire)
    assert captain.registered["player"]["current_system"] == system
    assert captain.call("get_base")["base"]["empire"] == empire


@pytest.mark.parametrize(
    ("username", "code"),
    [
        ("ab", "invalid_username"),
        ("", "invalid_username"),
        ("   ", "invalid_username"),
        ("x" * 25, "invalid_username"),
        ("semi;colon", "invalid_username"),
        ("back`tick", "invalid_username"),
        ("new\nline", "invalid_username"),
        ("wANDERER", "username_taken"),
        (" Wanderer ", "username_taken"),
    ],
)
def test_bad_names_are_refused(
    game: Game, captain: Captain, username: str, code: str
) -> None:
    with pytest.raises(GameError) as caught:
        game.call("register", {"username": username, "empire": "solarian"})
    assert caught.value.code == code


@pytest.mark.parametrize(
    "username", ["Ada-7", "Ø_l.", "Iron Duke!", "星の船長", "Rocket 🚀", "O'Neill"]
)
def test_names_of_all_scripts_are_taken(game: Game, username: str) -> None:
    captain = Captain(game, username)
    assert captain.call("get_status")["player"]["username"] == username


def test_a_registration_code_is_accepted(game: Game) -> None:
    given = {"username": "Coded", "empire": "nebula", "registration_code": "abc"}
    assert game.call("register", given)["player"]["username"] == "Coded"


def test_the_number_of_players_is_limited() -> None:
    game = make_game(max_players=1)
    Captain(game)
    with pytest.raises(GameError, match="server_full"):
        Captain(game, "Another")


def test_a_login_ends_the_older_session(game: Game, captain: Captain) -> None:
    given = {"username": "wanderer", "password": captain.registered["password"]}
    answer = game.call("login", given)
    assert captain.refused("get_status").code == "session_invalid"
    status = game.call("get_status", {"session_id": answer["session_id"]})
    assert status["player"]["id"] == captain.registered["player_id"]


def test_a_shared_account_keeps_both_sessions_and_both_queues() -> None:
    game = make_game(exclusive=False)
    captain = Captain(game)
    given = {"username": "Wanderer", "password": captain.registered["password"]}
    second = game.call("login", given)["session_id"]
    captain.call("undock")
    game.step()
    for session_id in (captain.session_id, second):
        read = game.call("get_notifications", {"session_id": session_id})
        assert [item["msg_type"] for item in read["notifications"]] == ["ok"]


@pytest.mark.parametrize(
    "given",
    [
        {"username": "Wanderer", "password": "0" * 64},
        {"username": "Nobody", "password": "0" * 64},
        {"username": "Wanderer"},
        {},
    ],
)
def test_a_wrong_login_says_the_same_for_every_reason(
    game: Game, captain: Captain, given: dict[str, str]
) -> None:
    with pytest.raises(GameError) as caught:
        game.call("login", given)
    assert caught.value.text == (
        "Error: auth_failed: Invalid username or password. "
        "Passwords are random hex strings."
    )


def test_the_log_is_replayed_at_login(game: Game, captain: Captain) -> None:
    captain.call("captains_log_add", entry="first")
    captain.call("captains_log_add", entry="second")
    given = {"username": "Wanderer", "password": captain.registered["password"]}
    log = game.call("login", given)["captains_log"]
    assert [(one["index"], one["entry"]) for one in log] == [
        (0, "second"),
        (1, "first"),
    ]


def test_logout_ends_the_session(captain: Captain) -> None:
    assert set(captain.call("logout")) == {"message"}
    assert captain.refused("get_status").code == "session_invalid"


def test_a_session_ends_after_thirty_idle_minutes() -> None:
    time = FixedTime()
    captain = Captain(make_game(time))
    time.pass_minutes(29)
    captain.call("get_status")
    time.pass_minutes(29)
    captain.call("get_status")
    time.pass_minutes(31)
    assert captain.refused("get_status").code == "session_invalid"


def test_an_idle_captain_is_seen_no_more() -> None:
    time = FixedTime()
    game = make_game(time)
    Captain(game, "Sleeper")
    time.pass_minutes(20)
    watcher = Captain(game, "Watcher")
    time.pass_minutes(11)
    game.step()
    nearby = watcher.call("get_nearby")["nearby"]
    assert "Sleeper" not in [other["username"] for other in nearby]


def test_an_action_goes_on_after_logout(game: Game, captain: Captain) -> None:
    captain.call("undock")
    captain.call("logout")
    game.step()
    assert captain.player.docked_at is None
