"""Factions, the forum, notes and looks."""

from __future__ import annotations

from sandbox.game.game import Game
from sandbox.game.persistence import dump_game, restore_game
from tests.sandbox.captains import Captain, make_game


def test_a_faction_from_its_founding_to_its_end(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.do("create_faction", name="Long Haul", tag="haul")
    (faction,) = captain.call("faction_list")["factions"]
    assert captain.call("get_status")["player"]["faction_rank"] == "leader"
    assert captain.call("get_status")["player"]["clan_tag"] == "HAUL"
    captain.do("faction_invite", player_id=other.player.id)
    (told,) = other.news()
    assert told["msg_type"] == "faction_invite"
    assert other.call("faction_get_invites")["total_count"] == 1
    other.do("join_faction", faction_id=faction["faction_id"])
    assert captain.call("faction_info")["member_count"] == 2
    nearby = {one["username"]: one for one in captain.call("get_nearby")["nearby"]}
    assert nearby["Other"]["faction_tag"] == "HAUL"
    captain.do("leave_faction")
    assert other.call("get_status")["player"]["faction_rank"] == "leader"
    other.do("leave_faction")
    assert captain.call("faction_list")["factions"] == []
    assert captain.refused("leave_faction").code == "not_in_faction"


def test_war_is_told_to_the_other_side(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.do("create_faction", name="Long Haul", tag="haul")
    other.do("create_faction", name="Short Haul", tag="shrt")
    target = {"target_faction_id": other.player.faction_id}
    captain.do("faction_declare_war", **target)
    assert other.news()[-1]["msg_type"] == "faction_war_declared"
    assert other.call("faction_info")["enemies"] == [captain.player.faction_id]
    assert captain.refused("faction_declare_war", **target).code == "invalid_target"
    again = make_game()
    restore_game(again, dump_game(game))
    assert dump_game(again) == dump_game(game)


def test_notes_and_threads(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    assert captain.call("get_notes") == {"notes": None, "total_count": 0}
    note = captain.call("create_note", title="Prices", content="Iron 5")["note_id"]
    captain.call("write_note", note_id=note, content="Iron 6")
    assert captain.call("read_note", note_id=note)["content"] == "Iron 6"
    assert other.refused("read_note", note_id=note).code == "invalid_note"
    thread = captain.call("forum_create_thread", title="Hello", content="Anyone?")
    other.call("forum_reply", thread_id=thread["thread_id"], content="Here.")
    read = captain.call("forum_get_thread", thread_id=thread["thread_id"])
    assert [post["author"] for post in read["posts"]] == ["Wanderer", "Other"]
    assert other.call("forum_list")["threads"][0]["reply_count"] == 1


def test_looks_are_what_others_see(game: Game, captain: Captain) -> None:
    other = Captain(game, "Other")
    captain.call("set_status", status_message="Hauling")
    captain.call("set_colors", primary_color="#FFAA00", secondary_color="#001122")
    seen = {one["username"]: one for one in other.call("get_nearby")["nearby"]}
    assert seen["Wanderer"]["status_message"] == "Hauling"
    assert seen["Wanderer"]["primary_color"] == "#FFAA00"
    captain.call("set_anonymous", anonymous=True)
    nearby = other.call("get_nearby")
    assert "Wanderer" not in [one["username"] for one in nearby["nearby"]]
    assert nearby["count"] == len(nearby["nearby"]) + 1
    refusal = captain.refused("set_colors", primary_color="red", secondary_color="x")
    assert refusal.code == "invalid_color"


def test_an_entry_of_the_log_is_deleted() -> None:
    captain = Captain(make_game(era="C"))
    for text in ("one", "two"):
        captain.call("captains_log_add", entry=text)
    captain.call("captains_log_delete", index=0)
    assert captain.call("captains_log_get", index=0)["entry"] == "one"
    assert captain.refused("captains_log_delete", index=5).code == "invalid_index"
