"""The default of the contract: tiers with hysteresis (A16, A25, I19, I25, I26)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from memory.context.repair import repair_request
from memory.context.result_types import Assembly
from memory.context.strategies.tiered import TieredOptions, Tiers
from memory.context.strategy import CommonOptions
from memory.context.types import AssemblyRequest, Budget, Policy, Summary
from tests.context.histories import Log
from tests.context.views import fate, sent, view

WINDOW = Budget(21_000, 1_000)
SCAN = "x" * 600


def tiered(log: Log, **more: Any) -> Assembly:
    options = {"min_tokens": 100, "keep_results": 2, **more.pop("options", {})}
    more.setdefault("budget", WINDOW)
    more.setdefault("counter", "chars")
    return view(log, "tiered", options=options, **more)


def days(count: int, name: str = "scan", text: str = SCAN) -> Log:
    """Turns of one call each, with an answer; 4 rows a turn."""
    log = Log()
    for number in range(count):
        log.user(f"Order {number}.")
        log.turn(name, text)
        log.says("Done.")
    return log


def test_the_defaults_are_those_of_the_contract() -> None:
    options = TieredOptions()
    assert (options.hi, options.lo) == (0.70, 0.45)
    assert (options.keep_results, options.min_tokens) == (5, 400)
    assert (options.threshold, options.keep_recent) == (200_000, 3)


def test_below_the_upper_mark_nothing_is_cut() -> None:
    result = tiered(days(22))
    assert result.stats["tokens_out"] < 14_000
    assert result.status == "unchanged"


def test_first_snapshots_are_superseded() -> None:
    """Small ones, which a note would not shorten; nothing else is touched then."""
    log = days(22)
    for number in range(20):
        log.user("Look.")
        log.turn("get_ship", json.dumps({"hull": number, "shield": "low"}))
    result = tiered(log, options={"hi": 0.70, "lo": 0.69, "threshold": 0})
    assert result.stats["superseded"] > 5
    assert result.stats["masked"] == 0
    assert fate(result, 88 + 60) == "kept", "I19: the newest stays"


def test_then_results_are_masked_down_to_the_lower_mark() -> None:
    result = tiered(days(24))
    assert result.status == "reduced"
    assert result.stats["tokens_out"] < 0.45 * 20_000 + 800
    assert [fate(result, row) for row in (3, 91, 95)] == ["masked", "kept", "kept"]
    assert result.summary_wanted is None


def test_then_a_summary_is_wanted_down_to_the_lower_mark() -> None:
    log = Log()
    for number in range(30):
        log.user(f"Order {number} " + "y" * 480)
        log.says("Done.")
    result = tiered(log, options={"max_summary_tokens": 200})
    wanted = result.summary_wanted
    assert wanted is not None
    assert wanted.first_id == 1
    left = [m for m in log.done() if m.id > wanted.last_id]
    size = sum(len(message.content) for message in left)
    assert 8_000 < size <= 9_000 - 200
    done = tiered(log, summary=Summary(wanted.last_id, "Told.", 1))
    assert (done.status, done.summary_wanted) == ("compacted", None)
    assert sent(done) == [message.id for message in left]


def test_a_threshold_of_0_makes_no_summaries() -> None:
    log = Log()
    for number in range(30):
        log.user(f"Order {number} " + "y" * 480)
    assert tiered(log, options={"threshold": 0}).summary_wanted is None


def test_a16_the_turn_that_goes_on_stays_whole() -> None:
    log = days(2)
    log.user("Go on.")
    for _ in range(30):
        log.turn("scan", SCAN)
    result = tiered(log)
    kept = [row for row in result.ledger if row.id > 8]
    assert {row.disposition for row in kept} == {"kept"}
    assert fate(result, 3) == "kept", "too little for a batch"


def test_a25_snapshots_of_turns_that_are_over_are_notes() -> None:
    result = tiered(days(3, "get_ship"))
    assert [fate(result, row) for row in (3, 7, 11)] == ["masked"] * 3
    log = days(3, "get_ship")
    log.turn("get_ship", SCAN)
    assert fate(tiered(log), 14) == "kept"


def test_i26_a_view_grows_at_its_end_between_two_compactions() -> None:
    """Hysteresis: few boundaries are moved, and never without a compaction."""
    log = Log()
    moved = 0
    before: list[dict[str, Any]] = []
    for number in range(120):
        log.user(f"Order {number}.")
        log.turn("scan", "x" * (300 + 41 * (number % 7)))
        log.turn("get_cargo", json.dumps({"ore": number, "free": "y" * 80}))
        log.says("Done.")
        result = tiered(log, options={"threshold": 0}, nudge="Go.")
        assert result.status != "fallback_used"
        stable = before[:-1]
        moved += result.messages[: len(stable)] != stable
        before = result.messages
        if result.stats["over_budget"]:
            break
    assert number > 60
    assert 2 <= moved <= number // 6


def test_what_frees_nothing_is_not_tried_at_every_message() -> None:
    """No loop without progress: each attempt waits until the view grew by a share.

    An attempt asks for the policy of every call, so these are counted.
    """
    log = Log()
    for number in range(1_000):
        log.turn("find_route", f"Route {number}, which is too short to be masked.")
        log.says("I see.")
    request = AssemblyRequest(log.done(), counter="chars", budget=Budget(2_000, 0))
    asked = 0

    def policy_of(name: str, arguments: str = "", /) -> Policy:
        nonlocal asked
        asked += 1
        return "query"

    prepared = repair_request(request, CommonOptions())
    history = replace(prepared.build_history(), policy_of=policy_of)
    tiers = Tiers(history, TieredOptions(), around=0)
    tiers.grow(history.units)
    assert [unit.rows for unit in tiers.units] == [unit.rows for unit in history.units]
    assert tiers.size > 20 * history.window, "it was over the mark most of the time"
    assert asked < 16 * len(history.units)


def test_the_options_of_the_contracts_example_are_taken() -> None:
    log = days(10)
    options = {"window": 6, "prune": "prune"}
    assert sent(tiered(log, options=options)) == list(range(36, 41))
    stubbed = days(1)
    for number in range(12):
        stubbed.turn("get_ship", "s" * 90 + str(number))
    stubbed.says("Done.")
    stubbed.turn("mine", "ore")
    result = tiered(stubbed, options={"prune": "stub", "hi": 0.03, "lo": 0.0})
    assert len(sent(result)) == result.stats["messages_in"]


def loops(turns: int, of: int = 3, size: int = 600) -> Log:
    """Turns of calls alone, as the iteration limit ends them; nudges are not stored."""
    log = Log()
    log.user("Mine iron.")
    for turn in range(turns):
        for call in range(of):
            name = "get_ship" if call == 0 else "scan"
            log.calls((f"{turn}-{call}", name, "{}"), turn=turn)
            log.result(f"{turn}-{call}", f"{turn}.{call} " + "x" * size)
    return log


def test_a_turn_that_never_speaks_ends_all_the_same() -> None:
    """A16, A25: turns are told apart by the store, not by what was said."""
    options = {"hi": 0.5, "lo": 0.2, "min_tokens": 10, "keep_results": 2}
    options |= {"max_summary_tokens": 100, "batch_fraction": 0.0}
    result = tiered(loops(12), options=options, budget=Budget(12_000, 0))
    assert result.stats["masked"] > 10
    assert result.stats["units_dropped"] == 0
    newest = result.messages[-6:]
    assert sum("x" * 600 in str(m["content"]) for m in newest) == 3, "its turn is whole"
    told = " ".join(str(m["content"]) for m in result.messages[:-6])
    assert "get_ship result of" in told or result.stats["superseded"] > 0


def test_a_turn_that_never_speaks_can_be_folded() -> None:
    options = {"hi": 0.3, "lo": 0.1, "max_summary_tokens": 100}
    result = tiered(loops(12, size=100), options=options, budget=Budget(9_000, 0))
    assert result.summary_wanted is not None
    assert result.summary_wanted.first_id == 1
