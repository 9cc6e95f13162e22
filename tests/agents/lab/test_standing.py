"""What stood at a moment: one rule, in Python and in two statements."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from agents import actions
from agents.lab.policies import OWN, Policy
from agents.lab.replay import replay_calls, select_calls, select_myses
from agents.models import Mysis
from memory.assembly.log_rows import LAST, NOW, Standing, read_rows
from memory.assembly.sent_view import read_last_call
from memory.assembly.turn_reads import TurnReads
from memory.models import Branch, Memory, SentContext
from memory.models.log import STOOD
from tests.agents.lab.histories import make_pilot, record_call, record_turn
from tests.factories import make_turn

pytestmark = pytest.mark.django_db
BY = "operator:ann"


@pytest.fixture
def ada() -> Mysis:
    """One with recorded calls."""
    mysis = make_pilot(strategy="tiered")
    record_turn(mysis, calls=4)
    return mysis


def test_all_say_alike_of_every_row_whether_it_stood(ada: Mysis):
    stretch = {"asked_id": 1, "kept_id": 1, "first_id": 1, "through_id": 1}
    branches = [
        Branch.objects.create(mysis=ada, messages=1, by=BY, **stretch) for _ in "123"
    ]
    calls = list(SentContext.objects.order_by("pk"))
    rows = list(Memory.objects.order_by("pk")[: len(calls)])
    for call, row, branch in zip(calls, rows, [None, *branches], strict=True):
        SentContext.objects.filter(pk=call.pk).update(last_id=row.pk)
        Memory.objects.filter(pk=row.pk).update(branch=branch)
        row.branch = branch
    moments = [0, *(branch.pk for branch in branches), LAST]
    ids = [row.pk for row in rows]
    gaps = [(0, 0), (ids[0], ids[0]), (ids[1], ids[2]), (ids[0], ids[-1]), (1, LAST)]
    found = set()
    for moment, gap in product(moments, gaps):
        standing = Standing(moment, *gap)
        stood = [row.pk for row in rows if standing.has(row.pk, row.branch_id)]
        assert list_by_statement(ids, standing) == stood
        assert list_by_calls(ada, standing) == stood
        found.add(tuple(stood))
    assert len(found) > len(moments)
    assert NOW in {Standing(moment, *gap) for moment, gap in product(moments, gaps)}


def list_by_statement(ids: list[int], standing: Standing) -> list[int]:
    which = f"WHERE id = ANY(%(ids)s) AND {STOOD} ORDER BY id"
    return [row.pk for row in read_rows(which, {"ids": ids, **standing._asdict()})]


def list_by_calls(mysis: Mysis, standing: Standing) -> list[int]:
    """The newest rows of the calls that count, one call after another."""
    found, before = [], LAST
    while last := read_last_call(mysis.pk, before, "", None, standing):
        found.append(last.sent.last_id or 0)
        before = last.sent.pk
    return found[::-1]


def test_a_branch_within_another_that_is_undone_leaves_the_outer_one(ada: Mysis):
    first = Memory.objects.latest("pk")
    record_turn(ada)
    actions.take_branch(mysis=ada, asked=first.pk, text="No.", by=BY)
    record_turn(ada)
    second = Memory.objects.latest("pk")
    record_turn(ada)
    inner = actions.take_branch(mysis=ada, asked=second.pk, text="Nor so.", by=BY)
    # It brings no answer, or there would be no undo.
    record_call(ada, make_turn(ada, outcome="error"), 1, TurnReads())
    actions.undo_branch(branch=inner, by=BY)
    record_turn(ada)
    again = Policy("again", "tiered", {}, 16_000, 2_000)
    calls = list(
        replay_calls(select_myses(ada.pk, ""), select_calls(None, None), [again])
    )
    assert [call.differs for call in calls] == [""] * len(calls)
    sizes = [call.figures[OWN].messages for call in calls]
    # Taken back by the outer, back by the inner one, and forward again.
    steps = [before < after for before, after in pairwise(sizes)]
    between = len(calls) - 3
    assert not steps[between - 1]
    assert all(steps[between:])
