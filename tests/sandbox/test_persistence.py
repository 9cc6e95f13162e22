"""Keeping a world between runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.game.game import Game
from sandbox.game.persistence import (
    Keeper,
    StateFileError,
    dump_game,
    restore_game,
    write_file,
)
from tests.sandbox.captains import Captain, make_game


def played() -> tuple[Game, Captain]:
    """A game in which something of every kind has happened."""
    game = make_game()
    captain = Captain(game)
    captain.go_mining()
    captain.do("mine")
    captain.call("captains_log_add", entry="a note ✓")
    captain.do("travel", target_poi="sol_station")
    captain.do("dock")
    item = next(iter(captain.player.ship.cargo))
    captain.do("sell", item_id=item, quantity=1)
    captain.do("undock")
    near = captain.call("get_system")["system"]["connections"][0]
    captain.call("jump", target_system=near)
    game.step()
    return game, captain


def copy_of(game: Game) -> Game:
    copy = make_game()
    restore_game(copy, dump_game(game))
    return copy


def test_a_restored_game_is_the_same_game() -> None:
    game, _ = played()
    copy = copy_of(game)
    assert dump_game(copy) == dump_game(game)
    assert copy.tick == game.tick


def test_a_flight_goes_on_after_a_restart() -> None:
    game, captain = played()
    copy = copy_of(game)
    game.step()
    copy.step()
    there = copy.state.players[captain.player.id]
    assert there.system_id == captain.player.system_id != "sol"
    assert dump_game(copy) == dump_game(game)


def test_accounts_stay_and_sessions_go() -> None:
    game, captain = played()
    copy = copy_of(game)
    given = {"username": "Wanderer", "password": captain.registered["password"]}
    captain.game = copy
    assert captain.refused("get_status").code == "session_invalid"
    captain.session_id = copy.call("login", given)["session_id"]
    assert captain.call("captains_log_list")["entries"][0]["entry"] == "a note ✓"
    assert captain.registered["password"] not in dump_game(game).decode()


def broken(**changes: Any) -> bytes:
    data = json.loads(dump_game(played()[0]))
    for path, value in changes.items():
        part = data
        *way, last = path.split("__")
        for step in way:
            part = part[int(step) if step.isdigit() else step]
        part[last] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not a saved game"),
        (b"[]", "not a saved game"),
        (b'{"format": 1}', "not a saved game"),
        (broken(seed=7), "--seed 7 --systems 20"),
        (broken(systems=30), "--seed 1 --systems 30"),
        (broken(format=2), "format is 2"),
        (broken(players__0__credits="many"), "players.0.credits"),
        (broken(players__0__poi_id="nowhere"), "unknown"),
        (broken(players__0__ship__cargo={"dust": 3}), "unknown"),
        (broken(players__0__stores={"sol_base": {"dust": 3}}), "unknown"),
        (broken(players__0__skills={"idling": {}}), "unknown"),
        (broken(pirates__0__poi_id="nowhere"), "unknown"),
        (broken(players__0__pending__tool="dance"), "unknown"),
        (broken(players__0__pending__arguments__system_id="nowhere"), "unknown"),
        (broken(mined__0__resource_id="dust"), "unknown"),
    ],
)
def test_a_file_of_no_use_is_refused(
    tmp_path: Path, data: bytes, complaint: str
) -> None:
    path = tmp_path / "world.json"
    path.write_bytes(data)
    with pytest.raises(StateFileError) as caught:
        Keeper(path, make_game()).load()
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == data


def test_no_file_is_a_fresh_world(tmp_path: Path) -> None:
    game = make_game()
    Keeper(tmp_path / "world.json", game).load()
    assert game.tick == 1


def test_writing_replaces_the_whole_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    write_file(path, b"old and long")
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["world.json"]
    with pytest.raises(OSError, match="directory"):
        write_file(tmp_path, b"x")
    assert path.read_bytes() == b"new"


def test_a_file_of_an_earlier_game_is_gone_on_with() -> None:
    """Saved when jobs were of two kinds, and the police had somebody's name."""
    game = make_game(era="C")
    landed = Path(__file__).with_name("landed.json").read_bytes()
    restore_game(game, landed)
    owner = next(iter(game.state.players.values()))
    before = owner.stores["sol_base"].get("refined_copper_wire", 0), len(owner.hangar)
    for _ in range(10):
        game.step()
    after = owner.stores["sol_base"]["refined_copper_wire"], len(owner.hangar)
    assert after == (before[0] + 2, before[1] + 1)
    assert game.state.jobs == {}
    assert all(base.damage == 0 for base in game.state.bases.values())
    again = make_game(era="C")
    restore_game(again, dump_game(game))
    assert dump_game(again) == dump_game(game)


async def test_saves_at_the_same_time_share_one_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []

    def note(path: Path, data: bytes) -> None:
        written.append(data)

    monkeypatch.setattr("sandbox.game.persistence.write_file", note)
    keeper = Keeper(tmp_path / "world.json", make_game())
    await asyncio.gather(*(keeper.save() for _ in range(10)))
    assert 1 <= len(written) <= 2


async def test_a_disk_that_refuses_does_not_end_the_game(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(tmp_path / "gone" / "world.json", make_game())
    await keeper.save()
    assert "could not be saved" in caplog.text
