"""What a summary costs and saves, and that one which never pays back waits."""

from __future__ import annotations

import pytest

from memory.context.documents import build_result_document
from memory.context.payback import Payback, SummaryPlan, TokenPrices, weigh_summary
from memory.context.result_types import Assembly
from memory.context.types import Budget, Compaction
from tests.context.histories import Log
from tests.context.views import view

# A tenth from the cache, four times as much for the answer.
PRICES = TokenPrices(input=10.0, cached=1.0, output=40.0)
PLAN = SummaryPlan(
    request=5_000, asked=100, answer=200, kept=1_000, saved=3_000, room=2_000, growth=50
)


@pytest.mark.parametrize(
    ("cached", "saves", "costs"),
    [
        # 5,000 + 100 read, 200 written.
        (0.0, 30_000, 51_000 + 8_000),
        # Half of a request is known: 5.5 a token. Of the 1,000 behind it 500 were known.
        (0.5, 16_500, 27_500 + 1_000 + 8_000 + 4_500),
        (1.0, 3_000, 5_000 + 1_000 + 8_000 + 9_000),
    ],
)
def test_the_figures_are_those_worked_out_by_hand(
    cached: float, saves: float, costs: float
) -> None:
    found = weigh_summary(PLAN, PRICES, cached, needed=False)
    assert found == Payback(3_000, saves, costs, lasts=40)
    assert found.calls == -(-costs // saves)
    assert found.worth_it


def test_one_that_pays_back_too_late_is_made_only_where_it_is_needed() -> None:
    late = Payback(10, saves=1.0, costs=41.0, lasts=40)
    assert not late.worth_it
    assert Payback(10, 1.0, 40.0, 40).worth_it
    assert Payback(10, 1.0, 41.0, 0, needed=True).worth_it
    never = Payback(0, saves=0.0, costs=1.0, lasts=10**9)
    assert (never.calls, never.worth_it) == (None, False)
    assert "never pays back" in never.explain()
    assert late.explain() == (
        "It saves 10 tokens a call ($1.00), costs about $41.00 and pays back after 41 "
        "calls; the budget needs one after 40 calls."
    )


def test_small_sums_have_two_digits() -> None:
    tiny = Payback(3_200, saves=0.000_016, costs=0.001_24, lasts=90)
    assert "($0.000016), costs about $0.0012 " in tiny.explain()


def talk(name: str, room: int, prices: TokenPrices | None = PRICES) -> Assembly:
    """Twenty exchanges of 98 characters each, in a budget of so many."""
    log = Log()
    for number in range(20):
        log.user(f"{number:2} " + "x" * 46)
        log.says(f"{number:2} " + "y" * 46)
    options: dict[str, float] = {"threshold": 1_000, "max_summary_tokens": 100}
    options |= {"hi": 0.1, "lo": 0.05} if name == "tiered" else {}
    return view(
        log,
        name,
        options=options,
        budget=Budget(room, 0),
        counter="chars",
        # Nothing is read anew: what a summary costs is what it asks and answers.
        compaction=Compaction(prices=prices),
    )


@pytest.mark.parametrize("name", ["summary", "tiered"])
def test_it_waits_where_the_budget_would_need_one_before_it_has_paid_back(
    name: str,
) -> None:
    # 1,960 characters, of 2,400 on it is needed: that is in four calls of 98.
    dear = TokenPrices(input=1.0, cached=0.1, output=100.0)
    waits = talk(name, 3_000, dear)
    assert (waits.status, waits.summary_wanted) == ("not_worth_it", None)
    assert "is not made before the budget needs it. It saves " in waits.reason
    assert "the budget needs one after 4 calls." in waits.reason
    # Nothing of the log is lost meanwhile.
    assert {line.disposition for line in waits.ledger} <= {"kept", "masked"}
    pays = talk(name, 30_000, dear)
    assert pays.summary_wanted is not None
    assert pays.summary_wanted.payback is not None
    assert pays.summary_wanted.payback.lasts > 200
    assert "pays back after" in pays.reason


@pytest.mark.parametrize("name", ["summary", "tiered"])
def test_context_validity_is_above_price(name: str) -> None:
    """What the budget needs is made whatever it costs."""
    dear = TokenPrices(input=1.0, cached=0.1, output=100_000.0)
    found = talk(name, 2_400, dear)
    assert found.summary_wanted is not None
    assert found.summary_wanted.payback is not None
    assert found.summary_wanted.payback.needed
    assert "the budget needs it now." in found.reason


def test_without_a_known_price_it_is_made_at_its_threshold() -> None:
    found = talk("summary", 3_000, None)
    assert found.summary_wanted is not None
    assert found.summary_wanted.payback is None
    assert "payback" not in build_result_document(found)["summary_wanted"]


def test_programs_are_told_the_figures() -> None:
    told = build_result_document(talk("summary", 30_000))["summary_wanted"]["payback"]
    assert told["tokens"] > 1_000
    assert told["calls"] == -(-told["costs"] // told["saves"])
    assert told["needed"] is False
