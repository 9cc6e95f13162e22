"""The texts of API v2, as they were recorded, and as the local game writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.dashboards import read_dashboard
from memory.gamestate.draft import Draft
from memory.gamestate.effects import ACTIONS
from memory.gamestate.extract import read_result
from memory.gamestate.notices import may_lack_events, read_notices
from memory.gamestate.render import render_block
from memory.gamestate.types import AccountState, Moment, Snapshot
from memory.gamestate.values import applies_to, unwrap_content
from sandbox.game.dashboards import render_result
from tests.gamestate.builders import payload

NOW = datetime(2026, 7, 13, tzinfo=UTC)


def read_text(text: str) -> Mapping[str, Any]:
    found = read_dashboard(text)
    assert found is not None, text
    return found


def mcp_text(name: str) -> str:
    return str(payload(f"_v2.mcp_{name}")["result"]["content"][0]["text"])


def test_the_recorded_status() -> None:
    found = read_text(mcp_text("get_status_text"))
    assert found["player"] == {
        "username": "[REDACTED]", "empire": "nebula", "credits": 2750,
    }  # fmt: skip
    ship = found["ship"]
    assert (ship["name"], ship["class_id"]) == ("Prospect", "prospect")
    assert (ship["fuel"], ship["max_fuel"], ship["cargo_used"]) == (87, 130, 30)
    assert (ship["shield"], ship["max_shield"]) == (50, 50)
    where = found["location"]
    assert where["docked_at"] == "market_prime_exchange"
    assert where["system_name"] == "Market Prime"
    assert where["connections"] == ["cargo_lanes", "gold_run", "haven"]
    assert len(where["nearby_players"]) == 7
    assert [(i["item_name"], i["quantity"]) for i in found["cargo"]] == [
        ("Palladium Ore", 22), ("Vanadium Ore", 3), ("Gold Ore", 5),
    ]  # fmt: skip
    assert found["skills"]["navigation"] == {
        "level": 3, "xp": 535, "next_level_xp": 585,
    }  # fmt: skip
    assert len(found["modules"]) == 2
    assert found["missions"]["max_missions"] == 5


@pytest.mark.parametrize(
    "paths",
    [
        ("player.credits", "player.username", "player.empire"),
        ("ship.hull", "ship.max_hull", "ship.fuel", "ship.cargo_used"),
        ("location.docked_at", "location.system_name", "location.security_status"),
        ("location.connections",),
    ],
)
def test_the_text_says_what_the_structured_content_says(paths) -> None:
    both = payload("_v2.http_get_status")
    told, read = both["structuredContent"], read_text(both["result"])
    for path in paths:
        place, key = path.split(".")
        wanted = told[place].get(key)
        if wanted is not None and wanted != "[REDACTED]" and path != "player.username":
            assert read[place][key] == wanted, path
    assert read["skills"].keys() == told["skills"].keys()


def test_the_recorded_system_place_and_skills() -> None:
    for name in ("http_get_system", "http_get_poi", "http_get_skills"):
        both = payload(f"_v2.{name}")
        both = both.get("body", both)
        told, read = both["structuredContent"], read_text(both["result"])
        if "system" in told:
            assert read["system"]["id"] == told["system"]["id"]
            assert {p["id"] for p in read["system"]["pois"]} == {
                p["id"] for p in told["system"]["pois"]
            }
            assert read["system"]["connections"] == told["system"]["connections"]
        elif "poi" in told:
            assert read["poi"]["id"] == told["poi"]["id"]
            assert [r["remaining"] for r in read["resources"]] == [
                r["remaining"] for r in told["resources"]
            ]
        else:
            assert {k: v["level"] for k, v in read["skills"].items()} == {
                k: v["level"] for k, v in told["skills"].items()
            }


def test_a_map_tells_how_much_is_known_and_no_line_of_it() -> None:
    systems = [
        {"system_id": f"s{n}", "name": f"S {n}", "connections": ["s1", "s2"],
         "visited": n == 1} for n in range(30)
    ]  # fmt: skip
    text = render_result("get_map", {"systems": systems, "total_count": 30})
    assert len(read_text(text)["systems"]) == 30
    shown = Snapshot("get_map", {}, text, None, NOW)
    state = AccountState("Ada", (shown,), Moment(None, NOW))
    block = render_block(state).text
    assert "30 systems cached" in block
    assert "S 7" not in block
    assert read_dashboard(text.replace("(30)", "(31)")) is None


def test_no_missions_and_no_notifications() -> None:
    assert read_text(payload("_v2.http_get_active_missions")["result"]) == {
        "missions": {"active": []}
    }
    text = mcp_text("get_notifications_text")
    assert read_text(text)["notifications"] == []
    assert not may_lack_events(text)


def test_what_actions_say() -> None:
    texts = {e["result_text"] for e in payload("_v2.mutation_result_texts")["entries"]}
    read = {text: read_dashboard(text) or {} for text in texts}
    assert read["Sold 6 Gold Ore for 12cr."] == {
        "action": "sell", "quantity_sold": 6, "item": "Gold Ore", "total_earned": 12,
    }  # fmt: skip
    none = read["Sold 0 Palladium Ore for 0cr. 7 unsold (no buyers)."]
    assert (none["quantity_sold"], none["unsold"]) == (0, 7)
    assert read["Refueled 88 fuel for 352cr."]["source"] == "station"
    assert read["Docked at Market Prime Exchange."]["base"] == "Market Prime Exchange"


def test_a_refusal_is_an_error_and_no_state() -> None:
    recorded = payload("_v2.mcp_error_result")["result"]
    result = read_result(recorded["content"], is_error=recorded["isError"])
    assert result.error is not None
    assert result.error.code == "no_resources"


def test_events_of_a_text_are_read_and_what_cannot_be_read_is_lost() -> None:
    data = {"command": "mine", "tick": 9, "result": {"quantity": 3}}
    event = {"id": "a1", "type": "system", "msg_type": "action_result",
             "timestamp": "2026-07-13T00:00:00Z", "data": data}  # fmt: skip
    view = {"count": 1, "notifications": [event], "remaining": 0}
    text = render_result("get_notifications", view)
    assert not may_lack_events(text)
    [notice] = read_notices(text, NOW)
    assert (notice.id, notice.kind, notice.tick) == ("a1", "action_result", 9)
    assert may_lack_events("2 things happened:\n- a pirate shot at you")
    assert may_lack_events(text.replace('{"command"', "{command"))


HEAD = "Ada [solarian] | 5cr | Sol\nFuel: 5/10 | Cargo: 40/50\n"
CARGO = "item\tqty\tsize\nGold Ore\t5\t1\nIron Ore\t7\t1\n"


@pytest.mark.parametrize(
    "title", ["(2 of 40 items)", "(2/40)", "(2, 38 more)", "(3 items)", "(1 items)"]
)
def test_a_table_that_shows_some_of_its_rows_says_nothing(title: str) -> None:
    assert len(read_text(f"{HEAD}Cargo (2 items):\n{CARGO}")["cargo"]) == 2
    assert "cargo" not in read_text(f"{HEAD}Cargo {title}:\n{CARGO}")
    whole = "Cargo: 12/50 | Available: 38\n"
    assert len(read_text(f"{whole}Cargo (2 items):\n{CARGO}")["cargo"]) == 2
    assert read_dashboard(f"{whole}Cargo {title}:\n{CARGO}") is None


def test_what_is_not_there_is_not_known_to_be_empty() -> None:
    found = read_text(HEAD)
    assert not {"cargo", "modules", "skills"} & found.keys()
    assert read_text(HEAD.replace("40/50", "0/50"))["cargo"] == []
    system = read_text("System: Sol (sol) | Security: High")["system"]
    assert not {"pois", "connections"} & system.keys()
    assert "missions" not in read_text(f"{HEAD}Active missions (2/5):\n- Mine (mining)")
    assert read_dashboard("Ship: Ada | Hull: 3/4") is None
    other = CARGO.replace("qty", "amount")
    assert "cargo" not in read_text(f"{HEAD}Cargo (2 items):\n{other}")


@given(st.integers(min_value=0), st.sampled_from(["get_status", "get_system"]))
def test_a_text_that_was_cut_says_nothing_wrong(length: int, tool: str) -> None:
    text = mcp_text(f"{tool}_text")
    whole = read_text(text)
    cut = read_dashboard("\n".join(text.split("\n")[: length % 60])) or {}
    for part, told in (("system", cut.get("system", {})), ("", cut)):
        for key, value in told.items():
            known = whole[part] if part else whole
            if isinstance(value, list) or key == "skills":
                assert value == known[key], key


def test_only_a_line_of_the_action_says_that_the_ship_docked_by_itself() -> None:
    line = "Automatically undocked (required for mine)"
    assert read_text(f"Mined 3 ore.\n{line}\n")["auto_undocked"] is True
    assert read_dashboard(f"Bob says: {line}") is None
    assert read_dashboard(f"Chat:\n{line}\nBye.") is None


def test_the_block_shows_what_the_text_says() -> None:
    snapshots = tuple(
        Snapshot(tool, {}, mcp_text(f"{tool}_text"), None, NOW)
        for tool in ("get_status", "get_system")
    )
    state = AccountState("Kess", snapshots, Moment(None, NOW))
    text = render_block(state).text
    for words in ("Credits: 2,750", "Fuel: 87/130", "Docked: Yes", "Market Prime"):
        assert words in text


def test_marks_of_actions_fit_the_fields_of_a_text() -> None:
    """A text is doubted by its fields, not as a whole."""
    content = unwrap_content(mcp_text("get_status_text"))
    for action in ("travel", "mine", "sell", "refuel", "dock"):
        fields = ACTIONS[action]["get_status"].fields
        assert any(applies_to(content, path) for path in fields), action
    assert not any(
        applies_to(content, path) and path.startswith("player.credits")
        for path in ACTIONS["travel"]["get_status"].fields
    )


def test_events_are_written_into_what_is_read() -> None:
    content = unwrap_content(mcp_text("get_status_text"))
    draft = Draft("get_status", content)
    assert draft.put("location.poi_id", "sol_belt")
    assert draft.add("player.credits", -50)
    assert draft.get("player.credits") == 2700


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_dashboard(text)
    for start in (
        "Ada [solarian] | 5cr | Sol\n",
        "System: ",
        "POI: ",
        "Skills (2 trained",
    ):
        read_dashboard(start + text)
    for start in ("Notifications (1):\n", "Cargo: 1/2\n", "Ship: A (b) | "):
        read_dashboard(start + text)
