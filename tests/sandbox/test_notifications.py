"""The queue of notifications and its rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox.game.game import Game
from sandbox.game.sessions import QUEUE_LENGTH, Event, Session
from tests.sandbox.captains import Captain


def test_an_empty_queue(captain: Captain) -> None:
    assert captain.call("get_notifications") == {
        "count": 0,
        "current_tick": 1,
        "notifications": [],
        "remaining": 0,
        "timestamp": 1770338536,
    }


def test_reading_clears_unless_asked_not_to(captain: Captain) -> None:
    captain.call("undock")
    captain.game.step()
    first = captain.call("get_notifications", clear=False)
    assert first["count"] == 1
    assert captain.call("get_notifications") == first
    assert captain.call("get_notifications")["count"] == 0


def test_an_item_has_the_recorded_form(captain: Captain) -> None:
    captain.call("undock")
    captain.game.step()
    (item,) = captain.call("get_notifications")["notifications"]
    assert len(item.pop("id")) == 32
    assert item == {
        "type": "system",
        "timestamp": "2026-02-06T00:42:16.73500264Z",
        "msg_type": "ok",
        "data": {"action": "undock"},
    }


def test_a_limit_leaves_the_rest(game: Game, captain: Captain) -> None:
    for tool in ("undock", "dock", "undock"):
        captain.call(tool)
        game.step()
    first = captain.call("get_notifications", limit=2)
    assert (first["count"], first["remaining"]) == (2, 1)
    actions = [item["data"]["action"] for item in first["notifications"]]
    assert actions == ["undock", "dock"]
    last = captain.call("get_notifications", limit=2)
    assert (last["count"], last["remaining"]) == (1, 0)


def test_types_choose_and_leave_the_others(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.call("undock")
    other.call("scan", target_id=captain.registered["player_id"])
    game.step()
    kinds = ["combat", "chat"]
    chosen = captain.call("get_notifications", types=kinds)["notifications"]
    assert chosen == []
    chosen = captain.call("get_notifications", types=["system"])["notifications"]
    assert {item["msg_type"] for item in chosen} == {"ok", "scan_detected"}
    assert captain.call("get_notifications")["count"] == 0


def test_the_oldest_of_a_hundred_gives_way(game: Game, captain: Captain) -> None:
    for number in range(QUEUE_LENGTH + 5):
        game.state.tell(Event({"number": number}), captain.player)
    read = captain.call("get_notifications", limit=100)
    numbers = [item["data"]["number"] for item in read["notifications"]]
    assert numbers == list(range(5, QUEUE_LENGTH + 5))
    assert read["remaining"] == 0


def test_comings_and_goings_are_told_to_those_who_are_there(game: Game) -> None:
    resident = Captain(game, "Resident")
    traveller = Captain(game, "Traveller")
    traveller.do("undock")
    resident.call("get_notifications")
    traveller.do("travel", target_poi="sol_belt")
    traveller.do("travel", target_poi="sol_station")
    read = resident.call("get_notifications")["notifications"]
    own = [item for item in read if item["data"]["username"] == "Traveller"]
    assert [item["msg_type"] for item in own] == ["poi_departure", "poi_arrival"]
    assert own[0]["data"] == {
        "clan_tag": "",
        "poi_id": "sol_station",
        "poi_name": "Sol Central",
        "username": "Traveller",
    }


def test_others_move_about(game: Game) -> None:
    before = {npc.id: npc.poi_id for npc in game.state.npcs.values()}
    for _ in range(40):
        game.step()
    after = {npc.id: npc.poi_id for npc in game.state.npcs.values()}
    assert before != after
    for npc in game.state.npcs.values():
        here = [
            poi_id
            for poi_id in game.state.world.pois
            if npc in game.state.npcs_at(poi_id)
        ]
        assert here == [npc.poi_id]


@given(
    kinds=st.lists(st.sampled_from(["chat", "combat", "system"]), max_size=130),
    limit=st.integers(1, 100),
    types=st.sets(st.sampled_from(["chat", "combat", "system"])),
)
def test_nothing_is_lost_but_by_age(
    kinds: list[str], limit: int, types: set[str]
) -> None:
    box = Session("", "", 0)
    sent = [{"id": n, "type": kind} for n, kind in enumerate(kinds)]
    for note in sent:
        box.waiting.append(note)
    kept = sent[-QUEUE_LENGTH:]
    peeked, left = box.read(limit, types, clear=False)
    read, left_again = box.read(limit, types, clear=True)
    assert peeked == read
    assert left == left_again
    assert read == [note for note in kept if not types or note["type"] in types][:limit]
    rest, _ = box.read(100, (), clear=True)
    assert sorted([*read, *rest], key=lambda note: int(note["id"])) == kept
    assert box.read(100, (), clear=True) == ([], 0)
