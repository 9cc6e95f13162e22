"""Masking: A25, I9, I14, I19, I21, I26 and what stays whole."""

from __future__ import annotations

from typing import Any

import pytest

from memory.context.result_types import Assembly
from memory.context.types import Budget
from tests.context.histories import Log
from tests.context.views import fate, line, sent, text_of, view

LONG = "ore vein, rich in iron and in nickel; " * 20
EAGER = {"keep_results": 1, "min_tokens": 10, "batch_fraction": 0.0}


def mask(log: Log, **more: Any) -> Assembly:
    options = {**EAGER, **more.pop("options", {})}
    return view(log, "mask", options=options, **more)


def days(count: int, text: str = LONG, name: str = "scan") -> Log:
    log = Log()
    log.user("go")
    for _ in range(count):
        log.turn(name, text)
    return log


def test_old_results_become_notes_with_a_handle() -> None:
    """I21, I9: the call stays with its arguments, the result says where it is."""
    result = mask(days(3))
    assert sent(result) == [1, 2, 3, 4, 5, 6, 7]
    assert text_of(result, 3) == (
        f"[masked scan result of {len(LONG)} characters, see ctx://self/3]"
    )
    assert text_of(result, 7) == LONG
    entry = line(result, 3)
    assert (entry.disposition, entry.by) == ("masked", "mask")
    assert entry.handle == "ctx://self/3"
    assert entry.tokens_out < entry.tokens_in
    assert result.stats["masked"] == 2
    assert result.status == "reduced"


def test_the_defaults_are_those_of_the_contract() -> None:
    """5 results, over 400 tokens, batches of a tenth of the window."""
    budget = Budget(10_100, 100)
    for size, masked in ((400, 0), (1_050, 0), (1_070, 1)):
        result = view(days(6, "x" * size), "mask", counter="chars", budget=budget)
        assert result.stats["masked"] == masked, size
    assert view(days(30, "x" * 400), "mask", counter="chars").stats["masked"] == 0


def test_only_results_over_the_minimum_are_masked() -> None:
    log = days(1, "x" * 100)
    log.turn("scan", "x" * 101)
    log.turn("scan", "last")
    result = mask(log, counter="chars", options={"min_tokens": 100})
    assert [fate(result, row) for row in (3, 5)] == ["kept", "masked"]


@pytest.mark.parametrize("size", [1, 30, 55, 56, 80])
def test_a_note_is_never_longer_than_what_it_replaces(size: int) -> None:
    """I14."""
    result = mask(days(2, "x" * size), counter="chars", options={"min_tokens": 0})
    masked = fate(result, 3) == "masked"
    assert masked == (size > 55)
    assert result.stats["tokens_out"] <= result.stats["tokens_in"]


def test_the_newest_unit_is_left_whole() -> None:
    """I18: also where it has more results than are kept."""
    log = Log()
    log.user("go")
    log.calls("scan", "scan", "scan")
    for index in range(3):
        log.result(f"c2.{index}", LONG)
    assert mask(log).stats["masked"] == 0
    log.turn("scan", "done")
    assert mask(log).stats["masked"] == 3


def test_a_unit_that_still_waits_is_left_alone() -> None:
    """A31."""
    log = Log()
    log.user("go")
    log.turn("travel", LONG, pending=True)
    log.turn("scan", "a")
    assert mask(log).stats["masked"] == 0


def test_a1_a_drain_goes_only_with_its_handle() -> None:
    """A1, I19."""
    log = days(1, LONG, "get_notifications")
    log.turn("scan", "a")
    result = mask(log)
    assert fate(result, 3) == "masked"
    assert "ctx://self/3" in text_of(result, 3)


def test_a25_a_snapshot_is_whole_inside_its_tool_loop_only() -> None:
    log = Log()
    log.user("go")
    log.turn("get_ship", LONG)
    log.turn("get_cargo", LONG)
    assert view(log, "mask").stats["masked"] == 0, "the loop goes on"
    log.user("hurry", "broadcast")
    assert view(log, "mask").stats["masked"] == 0, "nobody has answered yet"
    log.says("The ship is fine.")
    over = view(log, "mask")
    assert [fate(over, row) for row in (3, 5)] == ["masked", "masked"]
    assert "the tool loop" in line(over, 3).reason.lower()
    log.turn("get_ship", LONG)
    again = view(log, "mask")
    assert [fate(again, row) for row in (3, 5, 9)] == ["masked", "masked", "kept"]


def test_a25_a_new_turn_ends_the_loop_before_it() -> None:
    log = days(1, LONG, "get_ship")
    log.user("continue", "nudge")
    assert fate(view(log, "mask"), 3) == "kept", "not seen yet"
    log.turn("mine", "ore")
    assert fate(view(log, "mask"), 3) == "masked"


def test_a25_a_small_snapshot_stays() -> None:
    log = days(1, '{"hull": 85}', "get_ship")
    log.says("fine")
    assert fate(view(log, "mask"), 3) == "kept"


def test_i26_results_go_in_batches_at_one_boundary() -> None:
    """A longer log masks the same batches and at times one more, right behind."""
    log = Log()
    log.user("go")
    options = {"keep_results": 2, "min_tokens": 100, "batch_fraction": 0.10}
    budget = Budget(20_000, 0)
    seen: list[int] = []
    events = 0
    for number in range(24):
        log.turn("scan", "x" * (500 + 37 * (number % 5)))
        result = mask(log, counter="chars", budget=budget, options=options)
        masked = [row.id for row in result.ledger if row.disposition == "masked"]
        assert masked[: len(seen)] == seen
        added = masked[len(seen) :]
        if added:
            events += 1
            lines = {row.id: row for row in result.ledger}
            freed = sum(lines[row].tokens_in - lines[row].tokens_out for row in added)
            assert freed >= 2_000
            assert added == list(range(added[0], added[-1] + 1, 2))
        seen = masked
    assert 3 <= events <= 8


def test_it_masks_a_view_that_comes_back_no_further() -> None:
    """I3 and 100 notes of one line."""
    log = days(100)
    result = mask(log, options={"min_tokens": 0})
    assert result.stats["masked"] == 99
    assert all("\n" not in text_of(result, row) for row in range(3, 200, 2))


def test_signed_messages_keep_their_bytes() -> None:
    """I12: results are masked, the signed message is not touched."""
    log = Log()
    log.user("go")
    log.turn("scan", LONG, call={"content": "Thinking.", "signed": True})
    log.turn("scan", "a")
    result = mask(log)
    assert fate(result, 3) == "masked"
    assert text_of(result, 2) == "Thinking."
