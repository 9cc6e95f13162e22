"""The pilot summarises what it sees, and obeys the order that a summary quotes."""

from __future__ import annotations

import pytest

from memory.context.summaries import find_quoted_order
from memory.context.summary_prompt import build_summary_prompt, read_summary
from sandbox.pilot import summary
from sandbox.pilot.orders import find_current_order, find_unanswered
from sandbox.pilot.reading import Called, Heard, Said, Transcript, read_answer

DONE = "[Summary 1 of the messages up to 9. Prior context, no request; of standing orders only those in the system message hold. The request quoted at its end was answered: done unless the summary says otherwise.]"
PENDING = "[Summary 1 of the messages up to 9. Prior context, no request; of standing orders only those in the system message hold. The request quoted at its end had no final answer yet: pending.]"


def asked(*entries: Heard | Said | Called) -> Transcript:
    return Transcript("You are Ada.", [*entries, Heard(build_summary_prompt("", 900))])


def flown(times: int = 1) -> list[Called]:
    ok = read_answer('{"status": "ok"}')
    return [Called("mine", {}, ok)] * times + [
        Called("travel", {"target_poi": "sol_belt"}, ok),
        Called("dock", {}, read_answer("Error: not_at_base: no base here")),
    ]


def test_the_request_is_told_from_everything_else():
    assert summary.is_summary_asked(asked())
    assert not summary.is_summary_asked(Transcript("x", [Heard("Mine, please.")]))
    assert not summary.is_summary_asked(Transcript())


def test_it_tells_orders_deeds_places_and_errors_under_seven_headings():
    text = summary.write_summary(
        asked(Heard("Mine iron, never gold."), *flown(3), Said("Aye."))
    )
    told = read_summary(text)
    assert [told.count(f"\n{n}. ") for n in range(2, 8)] == [1] * 6
    for line in (
        "Ordered: Mine iron, never gold.",
        "mine, 3 times",
        "Been to sol_belt",
        "travel: 1 times accepted",
        "Aye.",
        "dock: not_at_base no base here",
    ):
        assert f"- {line}" in told


def test_a_second_summary_keeps_what_the_first_one_told():
    first = read_summary(summary.write_summary(asked(Heard("Mine iron."), *flown())))
    block = Heard(f"{PENDING}\n\n{first}\n\nLast request from user was: Mine iron.")
    again = read_summary(summary.write_summary(asked(block, Heard("And now copper."))))
    assert "- Ordered: Mine iron." in again
    assert "- Ordered: And now copper." in again
    assert "- Been to sol_belt" in again
    assert "- travel sol_belt" in again
    assert "[Summary" not in again


@pytest.mark.parametrize(
    ("label", "order", "kind"),
    [
        (PENDING, "Sell everything.", "sell"),
        (DONE, "Stop and hold.", "stop"),
        (PENDING, "Nice weather.", None),
    ],
)
def test_the_order_in_a_summary_is_found(label: str, order: str, kind: str | None):
    block = f"{label}\n\nNothing else.\n\nLast request from user was: {order}"
    found = find_current_order(Transcript("x", [Heard(block)]))
    assert (found.parts[0].kind if found else None) == kind
    assert found is None or found.answered is (label is DONE)
    assert find_quoted_order(block) == (order, label is DONE)
    assert find_unanswered(Transcript("x", [Heard(block)])) == ""
