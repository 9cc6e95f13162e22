"""Where the result of a call goes, whoever else has answered it meanwhile."""

from __future__ import annotations

from agents.models import Mysis
from agents.runtime import turn_rows
from agents.runtime.answers import PendingCall, record_result
from agents.tools.request import INTERRUPTED, LONGEST_RESULT, Outcome, cut_result
from memory.models import Memory
from tests.statements import record_statements

MINED = Outcome(("You mined 3 iron.",), is_error=False, tick=70)


def under_way(mysis: Mysis) -> tuple[turn_rows.TurnHandle, PendingCall]:
    """A turn in the middle of a call."""
    begun = turn_rows.begin_turn(mysis.pk, job_id=mysis.next_job or 0, trigger="start")
    assert begun is not None
    row = Memory.objects.create(
        mysis=mysis,
        turn_id=begun.turn_id,
        role="tool",
        origin="tool",
        tool_call_id="x",
        tool_name="mine",
        pending=True,
        tick=68,
    )
    return begun, PendingCall(row.pk, "mine", "{}")


def shown(call: PendingCall) -> tuple[str, bool, bool, int | None]:
    row = Memory.objects.get(pk=call.memory_id)
    return row.content, row.is_error, row.pending, row.tick


def test_a_late_result_takes_the_place_of_outcome_unknown(ada: Mysis):
    """The worker was taken for dead, and lives."""
    begun, call = under_way(ada)
    turn_rows.answer_open_calls(ada)
    assert shown(call)[:3] == (INTERRUPTED, True, False)
    record_result(begun, call, MINED)
    assert shown(call) == ("You mined 3 iron.", False, False, 70)
    ada.refresh_from_db()
    assert ada.tick == 70


def test_a_result_that_is_there_stays(ada: Mysis):
    begun, call = under_way(ada)
    record_result(begun, call, Outcome(("You mined 3 iron.",), is_error=False))
    turn_rows.answer_open_calls(ada)
    record_result(begun, call, Outcome(("Error: not executed.",), is_error=True))
    assert shown(call) == ("You mined 3 iron.", False, False, 68)


def test_a_result_is_kept_up_to_a_limit(ada: Mysis):
    begun, call = under_way(ada)
    record_result(begun, call, Outcome(("x" * 2 * LONGEST_RESULT,)))
    content = shown(call)[0]
    assert content == cut_result("x" * 2 * LONGEST_RESULT)
    assert len(content) < LONGEST_RESULT + 200


def test_results_are_ordered_with_the_ends_of_turns_by_the_row_of_the_mysis(
    ada: Mysis,
):
    """Who ends a turn holds that row, then writes to the calls it left open."""
    begun, call = under_way(ada)
    with record_statements() as queries:
        record_result(begun, call, MINED)
    [written] = [sql for sql in queries if "UPDATE memory_memory" in sql]
    assert "UPDATE agents_mysis" in written.partition("UPDATE memory_memory")[0]
