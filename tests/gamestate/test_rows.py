"""The recency table (SURFACES.md section 6, State row)."""

from __future__ import annotations

from memory.gamestate.confidence import Confidence
from memory.gamestate.rows import MAX_FIELDS, build_rows
from memory.gamestate.types import Stale
from tests.gamestate.builders import NOW, TICK, payload, snapshot, state


def test_a_row_tells_age_confidence_and_reason():
    mark = Stale("buy", 104, ("player.credits",))
    found = build_rows(state(snapshot("get_status", stale=mark, age=4)))[0]
    assert (found.tool, found.args, found.tick) == ("get_status", {}, TICK - 4)
    assert (found.age_ticks, found.age_seconds) == (4, 40.0)
    assert (found.confidence, found.reason) == (Confidence.INVALIDATED, "buy")
    assert found.captured_at < NOW
    assert found.fields["player.credits"] is Confidence.INVALIDATED
    assert found.fields["player.username"] is Confidence.FRESH
    assert found.fields["ship.fuel"] is Confidence.FRESH


def test_reasons():
    reasons = {
        row.tool: row.reason
        for row in build_rows(
            state(
                snapshot("get_ship"),
                snapshot("get_poi", age=50),
                snapshot("get_cargo", logged_out=True),
            )
        )
    }
    assert reasons == {
        "get_ship": None,
        "get_poi": "50 ticks old",
        "get_cargo": "captured before logout",
    }


def test_merged_fields_are_named():
    row = build_rows(state(snapshot("get_ship", field_ticks={"ship.fuel": 106})))[0]
    assert row.fields["ship.fuel"] is Confidence.MERGED
    assert row.confidence is Confidence.MERGED


def test_fields_are_bounded_and_texts_have_none():
    wide = {f"key{n}": {"a": 1, "b": 2} for n in range(1000)}
    assert len(build_rows(state(snapshot("x", wide)))[0].fields) == MAX_FIELDS
    assert build_rows(state(snapshot("x", "Nothing is to be done.")))[0].fields == {}


def test_nobody_logged_in_has_no_rows():
    assert build_rows(state(snapshot("get_status"), username=None)) == ()


def test_rows_keep_the_given_order():
    tools = ["get_trades", "get_status", "get_base"]
    found = build_rows(state(*(snapshot(t, payload(t)) for t in tools)))
    assert [row.tool for row in found] == tools
