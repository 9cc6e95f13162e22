"""Whether a summary is asked for, why not, and with what figures."""

from __future__ import annotations

import pytest

from memory.context.summary_prompt import build_summary_prompt
from memory.context.types import (
    FILLER_TEXT,
    UNDERSTOOD_TEXT,
    Budget,
    Compaction,
    Summary,
)
from tests.context.days import EAGER, day, summary
from tests.context.histories import Log
from tests.context.views import view


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
    room = len(build_summary_prompt("", 7))
    result = view(log, name, options=options, budget=Budget(room, 0), counter="chars")
    assert (result.status, result.summary_wanted) == ("nothing_to_fold", None)
    made_up = room + len(UNDERSTOOD_TEXT) + len(FILLER_TEXT) + len("Mine iron.")
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
    (told,) = (m["content"] for m in wanted.request if m["role"] == "assistant")
    record = sum(map(len, told.split("\n\n")))
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
    result = summary(log, options=usual, budget=Budget(4_000, 0))
    assert result.summary_wanted is not None
    assert result.summary_wanted.limit == 4_000 // 4
    assert "at most 1000 tokens" in result.summary_wanted.request[-1]["content"]
