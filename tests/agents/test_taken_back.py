"""What came of a stretch that was taken back: orders and notes are as they were before."""

from __future__ import annotations

import pytest
from django.utils import timezone

from agents import actions
from agents.actions import notes, orders
from agents.actions.messages import finish_shown
from agents.models import Mysis, Order, OrderRecipient
from memory.models import Branch, Memory
from memory.notes import select_notes
from tests.agents.test_branches import BY, answer, give, show
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Mysis:
    """At rest, with an account of nothing."""
    return make_mysis(name="Ada", state="stopped")


def write(mysis: Mysis, text: str, by: str = "mysis:Ada") -> None:
    notes.save_note(mysis=mysis, name="base", text=text, by=by)


def read(mysis: Mysis) -> tuple[str, str]:
    """The note's text and author."""
    return select_notes(mysis.pk).values_list("text", "author").get()


def branch_after(mysis: Mysis, message: Memory | int) -> Branch:
    asked = message if isinstance(message, int) else message.pk
    return actions.take_branch(mysis=mysis, asked=asked, text="No.", by=BY, start=False)


def recipient(number: int) -> OrderRecipient:
    return OrderRecipient.objects.get(order=number)


def test_a_note_of_whose_past_nothing_is_kept_stays(ada: Mysis):
    write(ada, "of old")
    first = make_memory(ada, content="Go.")
    answer(ada, "Aye.")
    for number in range(notes.VERSIONS_OF_NOTE + 2):
        write(ada, f"of new {number}")
    stands = read(ada)
    branch = branch_after(ada, first)
    assert read(ada) == stands
    actions.undo_branch(branch=branch, by=BY)
    assert read(ada) == stands


def test_an_undo_leaves_a_note_whose_version_is_gone(ada: Mysis):
    write(ada, "of old")
    first = make_memory(ada, content="Go.")
    answer(ada, "Aye.")
    write(ada, "of new")
    branch = branch_after(ada, first)
    branch.before["notes"][0]["was"] = 99
    branch.save()
    actions.undo_branch(branch=branch, by=BY)
    assert read(ada) == ("of old", "mysis:Ada")


def test_two_branches_set_a_note_back_twice(ada: Mysis):
    write(ada, "of old")
    first = make_memory(ada, content="Go.")
    answer(ada, "Aye.")
    write(ada, "one")
    second = make_memory(ada, content="Go on.")
    answer(ada, "Aye, aye.")
    write(ada, "two")
    branch_after(ada, second)
    assert read(ada) == ("one", "mysis:Ada")
    branch_after(ada, first)
    assert read(ada) == ("of old", "mysis:Ada")


def test_an_order_that_gave_way_to_one_that_is_taken_back_is_open_again(ada: Mysis):
    old, sell = give(ada, "Sell ore.")
    show(ada, sell)
    answer(ada, "I sell.")
    Mysis.objects.update(state="idle")
    actions.send_order(myses=[ada], text="Buy fuel.", by=BY, supersedes=True)
    newer = Order.objects.latest("pk").pk
    # Whatever is said of it since: it is known by its number which order that was.
    orders.change_order(order=Order.objects.get(pk=old), by=BY, note="So it is.")
    found = recipient(old)
    assert (found.state, found.replaced_by) == ("superseded", newer)
    branch = branch_after(ada, sell)
    found = recipient(old)
    assert (found.state, found.note, found.replaced_by) == ("shown", "", None)
    actions.undo_branch(branch=branch, by=BY)
    found = recipient(old)
    assert (found.state, found.replaced_by) == ("superseded", newer)


def test_one_answered_before_and_reported_since_is_answered_and_not_overdue(ada: Mysis):
    number, sell = give(ada, "Sell ore.")
    show(ada, sell)
    said = answer(ada, "I sell.")[0]
    finish_shown([sell])
    answer(ada, "Sold.")
    orders.report_order(mysis=ada, number=number, status="done")
    Mysis.objects.update(turn_count=40)
    before = timezone.now()
    branch_after(ada, said)
    found = recipient(number)
    assert found.state == "answered"
    assert found.answered_at is not None
    assert found.since_turn == 40
    assert found.since_at >= before


def test_an_undo_leaves_what_was_said_since(ada: Mysis):
    write(ada, "of old")
    number, sell = give(ada, "Sell ore.")
    show(ada, sell)
    answer(ada, "Sold.")
    write(ada, "of new")
    orders.report_order(mysis=ada, number=number, status="done")
    branch = branch_after(ada, sell)
    write(ada, "by Ann", BY)
    ticked = Order.objects.get(pk=number)
    orders.change_order(order=ticked, by=BY, state="not_done", note="Too late.")
    actions.undo_branch(branch=branch, by=BY)
    assert read(ada) == ("by Ann", BY)
    found = recipient(number)
    assert (found.state, found.note) == ("not_done", "Too late.")
