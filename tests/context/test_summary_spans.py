"""I22, A16 and A31: what a summary covers, and what it leaves alone."""

from __future__ import annotations

from itertools import pairwise

from memory.context.summaries import LAST_ORDER_LABEL
from memory.context.types import Summary
from tests.context.days import day, summary
from tests.context.histories import Log
from tests.context.views import fate, kinds, sent, text_of


def test_what_came_after_the_summary_stays() -> None:
    result = summary(day(), summary=Summary(4, "Iron was mined.", 3))
    assert sent(result) == [5, 6, 7, 8]
    assert [fate(result, row) for row in (1, 4, 5)] == [
        "summarized",
        "summarized",
        "kept",
    ]
    assert f"{LAST_ORDER_LABEL}Mine iron.\n\n" in result.messages[0]["content"]
    assert result.sources[0] == 5, "what follows is joined to it"
    assert result.stats["tokens_by_category"]["summary"] > 0


def test_i22_the_next_summary_takes_up_where_the_last_one_ended() -> None:
    result = summary(day(), summary=Summary(4, "Iron was mined.", 1))
    wanted = result.summary_wanted
    assert wanted is not None
    assert (wanted.first_id, wanted.last_id) == (5, 7)
    assert wanted.request[0] == result.messages[0], "one summary block, rolled on"
    assert str(result.messages).count("Iron was mined.") == 1


def test_a16_the_turn_that_goes_on_is_not_folded() -> None:
    log = day()
    log.user("Again.")
    log.turn("mine", "ore")
    log.turn("mine", "ore")
    for keep, last in ((True, 8), (False, 11)):
        wanted = summary(log, options={"keep_current_turn": keep}).summary_wanted
        assert wanted is not None
        assert wanted.last_id == last


def test_a31_an_interim_result_is_never_folded() -> None:
    log = Log()
    log.user("Go.")
    log.turn("travel", "queued", pending=True)
    log.turn("scan", "nothing")
    log.says("Waiting.")
    result = summary(log, summary=Summary(5, "Told.", 1))
    assert sent(result) == [2, 3, 6]
    wanted = summary(log, options={"keep_recent": 0}).summary_wanted
    assert wanted is not None
    assert "queued" not in str(wanted.request)


def test_i22_a_result_that_came_late_is_not_lost_in_a_summary() -> None:
    log = Log()
    log.user("Go.")
    log.calls(("a", "scan", "{}"))
    log.says("Waiting.")
    log.result("a", "found it")
    log.user("Thanks.")
    result = summary(log, summary=Summary(3, "Told.", 1))
    assert text_of(result, 4) == "found it"


def test_i22_a_unit_that_reaches_beyond_the_span_is_not_folded() -> None:
    """A late result would be lost where the summary covers only its call."""
    log = Log()
    log.user("Go.")
    log.calls(("a", "scan", "{}"))
    log.says("Waiting.")
    log.user("Well?")
    log.result("a", "found it")
    log.says("Found.")
    log.user("Thanks.")
    result = summary(log, options={"keep_recent": 3})
    wanted = result.summary_wanted
    assert wanted is not None
    assert (wanted.first_id, wanted.last_id) == (1, 3)
    assert "found it" not in str(wanted.request)
    after = summary(log, summary=Summary(3, "Told.", 1))
    assert sent(after) == [2, 5, 4, 6, 7]
    assert after.summary_wanted is not None
    spans = [wanted.last_id, after.summary_wanted.first_id]
    assert spans == [3, 4], "the next span takes up behind the last one"
    assert "found it" in str(after.summary_wanted.request)


def test_i22_one_block_stays_however_often_it_is_rolled_on() -> None:
    """Each request begins with the block before it and goes on behind its span."""
    log = Log()
    known: Summary | None = None
    spans: list[tuple[int, int]] = []
    for number in range(12):
        log.user(f"Order {number}.")
        log.turn("mine", "ore " * 10)
        log.says("Done.")
        result = summary(log, summary=known, options={"threshold": 200})
        assert kinds(result).count("summary") == (known is not None)
        wanted = result.summary_wanted
        if wanted is not None:
            spans.append((wanted.first_id, wanted.last_id))
            known = Summary(wanted.last_id, f"Told to {number}.", len(spans))
    assert len(spans) > 2
    assert all(a[1] + 1 == b[0] for a, b in pairwise(spans))


def test_i22_what_was_read_singly_is_in_no_span() -> None:
    """Between an order from far back and the rest lie rows that nobody was shown."""
    log = Log()
    log.user("Never sell titanium.")
    for number in range(12):
        log.says(f"Step {number}. " + "x" * 100)
    options = {"threshold": 1, "keep_recent": 2, "max_summary_tokens": 1}
    result = summary(log, options=options, unbroken_from=6)
    assert result.summary_wanted is not None
    assert result.summary_wanted.first_id == 6
    assert "titanium" not in str(result.summary_wanted.request)
    assert "titanium" in str(result.messages)
    whole = summary(log, options=options).summary_wanted
    assert whole is not None
    assert whole.first_id == 1
