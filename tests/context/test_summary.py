"""Summaries: L1, L3 to L6, L10, A12 to A18, I22, and every reason for not asking."""

from __future__ import annotations

import pytest

from memory.context.summaries import LAST_ORDER_LABEL, SummaryOptions
from memory.context.summary_prompt import SUMMARY_RULES, build_summary_prompt
from memory.context.types import (
    NO_RESPONSE_TEXT,
    UNDERSTOOD_TEXT,
    Budget,
    Compaction,
    Summary,
)
from tests.context.days import day, summary
from tests.context.histories import Log
from tests.context.views import kinds, line

SECTIONS = (
    "Goals/Intent",
    "Timeline",
    "Technical context",
    "Files/Changes",
    "Active work (CRITICAL)",
    "Unresolved/Pending",
    "Immediate next step",
)


def test_l1_the_threshold_is_inclusive() -> None:
    tokens = summary(day()).stats["tokens_out"] - len("What's your next move?")
    for threshold, fires in ((tokens, True), (tokens + 1, False)):
        result = summary(day(), options={"threshold": threshold})
        assert (result.summary_wanted is not None) == fires


def test_l1_the_defaults_are_those_of_the_contract() -> None:
    assert SummaryOptions() == SummaryOptions(
        threshold=200_000, keep_recent=3, keep_current_turn=True,
        max_summary_tokens=2_000,
    )  # fmt: skip


def test_a12_zero_disables() -> None:
    result = summary(day(), options={"threshold": 0})
    assert (result.status, result.summary_wanted) == ("disabled", None)
    assert result.reason
    used = summary(day(), options={"threshold": 0}, summary=Summary(4, "Old.", 1))
    assert used.status == "compacted", "a summary is used once it exists"


def test_a13_the_report_counts_where_it_is_larger_and_what_came_since() -> None:
    options = {"threshold": 5_000}
    for reported, through, fires in (
        (0, 0, False),
        (4_999, 8, False),
        (5_000, 8, True),
        (4_990, 4, True),
    ):
        known = Compaction(reported_tokens=reported, reported_through=through)
        result = summary(day(), options=options, compaction=known)
        assert (result.summary_wanted is not None) == fires, (reported, through)
    low = Compaction(reported_tokens=1, reported_through=8)
    assert summary(day(), options={"threshold": 50}, compaction=low).summary_wanted


def test_a18_a_threshold_above_the_window_fires_in_time() -> None:
    log = Log()
    log.user("x" * 7_000)
    log.says("Done.")
    log.user("And now?")
    options = {"threshold": 200_000}
    # 7,013 tokens, and a threshold of 0.8 of the window less 100.
    for tokens, fires in ((8_880, True), (8_891, True), (8_893, False)):
        budget = Budget(tokens, 100)
        result = summary(log, budget=budget, options=options)
        assert (result.summary_wanted is not None) == fires
        assert result.status == "unchanged"


def test_l3_l4_the_request_is_the_prefix_and_the_prompt() -> None:
    log = day()
    log.user("Now?")
    log.calls(("lost", "scan", "{}"))
    before = log.done()
    result = summary(log, system="You are Ada.", options={"keep_current_turn": False})
    assert result.summary_wanted is not None
    request = result.summary_wanted.request
    assert (result.summary_wanted.first_id, result.summary_wanted.last_id) == (1, 9)
    assert request[:-2] == result.messages[: len(request) - 2]
    prompt = build_summary_prompt("", result.summary_wanted.limit)
    assert request[-2:] == [
        {"role": "assistant", "content": UNDERSTOOD_TEXT},
        {"role": "user", "content": prompt},
    ]
    assert log.done() == before, "A14: the log is left alone"
    folded = summary(log, options={"keep_recent": 0})
    assert folded.summary_wanted is not None
    request = folded.summary_wanted.request
    assert [m["content"] for m in request[-3:]] == [
        NO_RESPONSE_TEXT,
        UNDERSTOOD_TEXT,
        build_summary_prompt("", folded.summary_wanted.limit),
    ]
    assert UNDERSTOOD_TEXT not in str(folded.messages)


def test_l3_a17_understood_only_behind_a_result() -> None:
    result = summary(day(), options={"keep_recent": 0})
    assert result.summary_wanted is not None
    assert UNDERSTOOD_TEXT not in str(result.summary_wanted.request)


def test_l10_the_prompt_names_its_seven_sections_in_order() -> None:
    places = [build_summary_prompt("", 9).index(section) for section in SECTIONS]
    assert places == sorted(places)
    assert "continue exactly where we left off without asking" in SUMMARY_RULES


def test_l4_the_prompt_may_be_another() -> None:
    result = summary(day(), compaction=Compaction(prompt="Kurz, bitte."))
    assert result.summary_wanted is not None
    asked = result.summary_wanted.request[-1]["content"]
    limit = result.summary_wanted.limit
    assert asked == build_summary_prompt("Kurz, bitte.", limit), (
        "the answer is read by our rules"
    )


def test_l5_l6_the_exact_two_messages() -> None:
    log = day()
    result = summary(
        log,
        system="You are Ada.",
        summary=Summary(8, "All is told.", 1),
        options={"keep_recent": 0},
    )
    assert [m["role"] for m in result.messages] == ["system", "user"]
    assert result.messages[0]["content"] == "You are Ada."
    label, text, suffix = result.messages[1]["content"].split("\n\n")
    assert (text, suffix) == ("All is told.", "Last request from user was: Sell it.")
    assert "Prior context" in label
    assert "done" in label
    assert kinds(result) == ["prompt", "summary"]
    assert (result.status, result.stats["generation"]) == ("already_compacted", 1)
    assert result.stats["summarized"] == 8
    assert line(result, 5).handle == "ctx://self/5"


def test_l5_without_an_order_there_is_no_suffix() -> None:
    log = Log()
    log.user("What's your next move?", "nudge")
    log.says("I mine.")
    options = {"keep_recent": 0}
    result = summary(log, summary=Summary(2, "All.", 1), options=options)
    assert LAST_ORDER_LABEL not in result.messages[0]["content"]


def test_a14_nobody_elses_words_are_the_last_request() -> None:
    log = day()
    log.user("What's your next move?", "nudge")
    log.user("[Summary 1]", "summary")
    log.says("Hm.")
    options = {"keep_recent": 0}
    result = summary(log, summary=Summary(11, "All.", 2), options=options)
    assert result.messages[0]["content"].endswith(f"{LAST_ORDER_LABEL}Sell it.")


@pytest.mark.parametrize(("answered", "word"), [(True, "done"), (False, "pending")])
def test_a15_the_last_request_is_marked(answered: bool, word: str) -> None:
    log = Log()
    log.user("Mine iron.")
    log.turn("mine", "ore")
    if answered:
        log.says("Mined.")
    options = {"keep_recent": 0}
    result = summary(log, summary=Summary(4, "All.", 1), options=options)
    label = result.messages[0]["content"].partition("\n\n")[0]
    assert word in label


def test_a15_a_huge_order_is_cut_in_the_middle() -> None:
    """I17: with its handle; the view still fits."""
    log = Log()
    log.user("begin " + "x" * 300_000 + " end")
    log.says("Hm.")
    result = summary(
        log,
        summary=Summary(2, "All.", 1),
        budget=Budget(4_000, 100),
        options={"keep_recent": 0},
    )
    content = result.messages[0]["content"]
    assert len(content) <= 2_000
    assert "Last request from user was: begin" in content
    assert content.endswith(" end")
    assert "ctx://self/1]" in content
