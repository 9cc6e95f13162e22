"""Summaries: L1, L3 to L6, L10, A12 to A18, I22, and every reason for not asking."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from memory.context.folding import SummaryOptions
from memory.context.summaries import SUFFIX
from memory.context.summary_prompt import RULES, UNDERSTOOD, prompt_with
from memory.context.types import (
    FILLER_TEXT,
    NO_RESPONSE_TEXT,
    Assembly,
    Budget,
    Compaction,
    Summary,
)
from tests.context.histories import Log
from tests.context.views import fate, kinds, line, sent, text_of, view

SECTIONS = (
    "Goals/Intent",
    "Timeline",
    "Technical context",
    "Files/Changes",
    "Active work (CRITICAL)",
    "Unresolved/Pending",
    "Immediate next step",
)
EAGER = {"threshold": 1, "keep_recent": 1, "max_summary_tokens": 1}


def summary(log: Log, **more: Any) -> Assembly:
    options = {**EAGER, **more.pop("options", {})}
    more.setdefault("counter", "chars")
    return view(log, "summary", options=options, **more)


def day() -> Log:
    """Rows: 1 order, 2-3 mine, 4 answer, 5 order, 6-7 sell, 8 answer."""
    log = Log()
    log.user("Mine iron.")
    log.turn("mine", "3 iron ore")
    log.says("Mined.")
    log.user("Sell it.", "broadcast")
    log.turn("sell", "sold 3")
    log.says("Sold.")
    return log


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
    assert request[:-1] == result.messages[: len(request) - 1]
    prompt = prompt_with("", result.summary_wanted.limit)
    assert request[-1] == {"role": "user", "content": prompt}
    assert log.done() == before, "A14: the log is left alone"
    folded = summary(log, options={"keep_recent": 0})
    assert folded.summary_wanted is not None
    request = folded.summary_wanted.request
    assert [m["content"] for m in request[-3:]] == [
        NO_RESPONSE_TEXT,
        UNDERSTOOD,
        prompt_with("", folded.summary_wanted.limit),
    ]
    assert UNDERSTOOD not in str(folded.messages)


def test_l3_a17_understood_only_behind_a_result() -> None:
    result = summary(day(), options={"keep_recent": 0})
    assert result.summary_wanted is not None
    assert UNDERSTOOD not in str(result.summary_wanted.request)


def test_l10_the_prompt_names_its_seven_sections_in_order() -> None:
    places = [prompt_with("", 9).index(section) for section in SECTIONS]
    assert places == sorted(places)
    assert "continue exactly where we left off without asking" in RULES


def test_l4_the_prompt_may_be_another() -> None:
    result = summary(day(), compaction=Compaction(prompt="Kurz, bitte."))
    assert result.summary_wanted is not None
    asked = result.summary_wanted.request[-1]["content"]
    limit = result.summary_wanted.limit
    assert asked == prompt_with("Kurz, bitte.", limit), (
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
    assert SUFFIX not in result.messages[0]["content"]


def test_a14_nobody_elses_words_are_the_last_request() -> None:
    log = day()
    log.user("What's your next move?", "nudge")
    log.user("[Summary 1]", "summary")
    log.says("Hm.")
    options = {"keep_recent": 0}
    result = summary(log, summary=Summary(11, "All.", 2), options=options)
    assert result.messages[0]["content"].endswith(f"{SUFFIX}Sell it.")


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


def test_what_came_after_the_summary_stays() -> None:
    result = summary(day(), summary=Summary(4, "Iron was mined.", 3))
    assert sent(result) == [5, 6, 7, 8]
    assert [fate(result, row) for row in (1, 4, 5)] == [
        "summarized",
        "summarized",
        "kept",
    ]
    assert result.messages[0]["content"].endswith(f"{SUFFIX}Mine iron.")
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


@pytest.mark.parametrize(
    ("known", "status"),
    [
        (Compaction(breaker_open=True), "breaker_open"),
        (Compaction(cooling_turns=3), "cooling_down"),
        (Compaction(failure="timeout after 60 s"), "summary_failed"),
    ],
)
def test_why_none_is_asked_for(known: Compaction, status: str) -> None:
    result = summary(day(), compaction=known)
    assert (result.status, result.summary_wanted) == (status, None)
    assert result.reason
    quiet = summary(day(), compaction=known, options={"threshold": 10**6})
    assert quiet.status == "unchanged", "it does not matter before the threshold"


def test_what_has_nothing_to_fold_or_too_little_says_so() -> None:
    log = Log()
    log.user("Go.")
    assert summary(log).status == "nothing_to_fold"
    small = summary(day(), options={"max_summary_tokens": 2_000})
    assert (small.status, small.summary_wanted) == ("not_worth_it", None)
    done = summary(day(), summary=Summary(8, "All.", 1), options={"keep_recent": 0})
    assert done.status == "already_compacted"
    assert done.reason == (
        "Nothing new may be folded yet. Of 8 stored messages: 8 in the summary."
    )


@pytest.mark.parametrize("name", ["summary", "tiered"])
def test_a_window_too_small_for_the_prompt_says_so(name: str) -> None:
    """Silence would look as if there were nothing to be told."""
    log = day()
    log.user("And now?")
    options = {**EAGER, **({"hi": 0.01, "lo": 0.0} if name == "tiered" else {})}
    options["max_summary_tokens"] = 7
    room = len(prompt_with("", 7))
    result = view(log, name, options=options, budget=Budget(room, 0), counter="chars")
    assert (result.status, result.summary_wanted) == ("nothing_to_fold", None)
    made_up = room + len(UNDERSTOOD) + len(FILLER_TEXT) + len("Mine iron.")
    assert result.reason.startswith(
        f"A request for a summary needs {made_up} tokens; {room} are left."
    )


def test_a_request_fits_the_window() -> None:
    """I13: what is too much for one request is folded in several."""
    log = Log()
    for number in range(40):
        log.user(f"{number} " + "x" * 500)
        log.says("Yes.")
    result = summary(log, budget=Budget(8_000, 1_000))
    wanted = result.summary_wanted
    assert wanted is not None
    size = sum(len(m["content"]) for m in wanted.request)
    assert 4_000 < size <= 7_000
    assert wanted.first_id == 1


def test_i27_secrets_are_in_no_request() -> None:
    log = Log()
    log.user("Log in.")
    log.calls(("s", "login", '{"password": "hunter2-secret"}'))
    log.result("s", "welcome")
    log.says("I am in with hunter2-secret.")
    log.user("Go.")
    result = summary(
        log,
        tool_policy={"login": "secret"},
        summary=Summary(1, "The password is hunter2-secret.", 1),
        compaction=Compaction(prompt="Never tell hunter2-secret."),
    )
    assert result.summary_wanted is not None
    assert "hunter2" not in str((result.messages, result.summary_wanted))


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


def test_a13_a_report_beside_its_estimate_counts_as_the_difference() -> None:
    """Masks, other options and thoughts that are not sent again change nothing."""
    log = day()
    log.user("And now?")
    plain = summary(log, options={"threshold": 10_000})
    assert plain.summary_wanted is None
    now = sum(plain.stats["tokens_by_category"].values())
    eager = {"threshold": now + 50, "keep_recent": 0, "max_summary_tokens": 1}
    for reported, fires in ((now, False), (now + 49, False), (now + 50, True)):
        known = Compaction(reported_tokens=reported, reported_estimate=now)
        result = summary(log, options=eager, compaction=known)
        assert (result.summary_wanted is not None) == fires, reported
    # The last call was far larger, as the estimate knew: it says nothing of this one.
    known = Compaction(reported_tokens=90_000, reported_estimate=90_000)
    assert summary(log, options=eager, compaction=known).summary_wanted is None


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


def test_a_summary_is_wanted_with_its_figures() -> None:
    """What is dropped for the budget counts too: the request shows it."""
    log = Log()
    for number in range(60):
        log.says(f"Step {number}. " + "x" * 100)
    options = {"threshold": 1, "keep_recent": 2, "max_summary_tokens": 700}
    result = summary(log, options=options, budget=Budget(4_000, 0))
    wanted = result.summary_wanted
    assert wanted is not None
    assert "dropped_for_budget" in {line.disposition for line in result.ledger}
    record = sum(len(m["content"]) for m in wanted.request[:-1] if m["role"] != "user")
    assert wanted.folded == wanted.replaced == record
    assert wanted.limit == 700
    known = Summary(wanted.last_id, "Short.", 1)
    again = summary(log, options=options, budget=Budget(4_000, 0), summary=known)
    assert again.summary_wanted is not None
    assert again.summary_wanted.replaced > again.summary_wanted.folded


def test_a_small_window_gets_small_summaries() -> None:
    """Else nothing would ever be worth folding in it, for good and without a word."""
    log = Log()
    for number in range(40):
        log.says(f"Step {number}. " + "x" * 100)
    usual = {"threshold": 1, "max_summary_tokens": 2_000}
    result = summary(log, options=usual, budget=Budget(3_600, 0))
    assert result.summary_wanted is not None
    assert result.summary_wanted.limit == 3_600 // 4
    assert "at most 900 tokens" in result.summary_wanted.request[-1]["content"]
