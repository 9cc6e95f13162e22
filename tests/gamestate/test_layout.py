"""The events that the program fetched, as the state block tells them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memory.gamestate.layout import MOST_EVENTS, RECENT_TICKS
from memory.gamestate.render import FETCHED, NOTE, render_block
from memory.gamestate.types import AccountState, Happening, Moment

NOW = datetime(2026, 2, 5, tzinfo=UTC)
YIELD = {"resource_id": "ore_copper", "resource_name": "Copper Ore", "quantity": 3}


def block(*events: Happening, tick: int | None = 107, fetched: bool = True) -> str:
    state = AccountState("Ada", (), Moment(tick, NOW), events=events, fetched=fetched)
    return render_block(state).text


def test_an_event_is_told_with_its_tick_and_its_values():
    text = block(Happening("mining_yield", YIELD, 105))
    assert "### Events (get_notifications - 2 ticks ago)" in text
    assert "- mining_yield at tick 105: resource name Copper Ore, quantity 3" in text
    assert "ore_copper" not in text, "the name stands beside the id"


def test_old_events_and_none_make_no_section():
    old = Happening("poi_arrival", {}, 107 - RECENT_TICKS - 1)
    assert "### Events" not in block(old)
    assert "### Events" not in block()


def test_an_event_without_a_tick_is_of_late():
    assert "- chat_message: content Hello" in (
        text := block(Happening("chat_message", {"content": "Hello"}))
    )
    assert "### Events (get_notifications - of late)" in text
    assert "### Events (get_notifications - of late)" in block(
        Happening("ok", {}, 5), tick=None
    )


def test_the_newest_are_shown_the_oldest_of_them_first():
    text = block(*(Happening(f"kind{n}", {}, 100) for n in range(MOST_EVENTS + 3)))
    assert "kind2 " not in text
    assert text.index("kind3 ") < text.index(f"kind{MOST_EVENTS + 2} ")


def test_the_note_says_who_asks():
    assert FETCHED in block()
    assert NOTE in block(fetched=False)
    assert NOTE not in block()


@given(
    st.lists(
        st.builds(
            Happening,
            st.text(max_size=300),
            st.dictionaries(st.text(max_size=50), st.text(max_size=5000), max_size=9),
            st.one_of(st.none(), st.integers(-(10**30), 10**30)),
        ),
        max_size=12,
    )
)
def test_whatever_others_wrote_stays_in_its_line_and_in_the_budget(
    events: list[Happening],
):
    text = block(*events)
    assert len(text.encode()) <= 2048
    told = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(told) <= MOST_EVENTS + 1
    assert text.count("\n### ") <= 1
