"""The sliding window of seeds 000 and 001: W1 to W4, W9, P4, A2, A4, A5, A10."""

from __future__ import annotations

import pytest

from memory.context.types import FILLER_TEXT, NUDGE_TEXT
from tests.context.histories import Log
from tests.context.views import fate, kinds, line, sent, view

WINDOWS = ("window", "snapshot-window")
both = pytest.mark.parametrize("strategy", WINDOWS)


def chat(count: int) -> Log:
    """A prompt and then user and assistant in turn, the user last."""
    log = Log()
    log.prompt("You are Ada.")
    for number in range(count):
        if (count - number) % 2:
            log.user(f"order {number}")
        else:
            log.says(f"answer {number}")
    return log


@both
def test_w1_only_the_newest_twenty_and_the_prompt(strategy: str) -> None:
    result = view(chat(31), strategy)
    assert sent(result) == [1, *range(13, 33)]
    assert fate(result, 12) == "out_of_window"
    assert line(result, 12).handle == "ctx://self/12"
    assert result.status == "reduced"


@both
def test_w1_the_size_is_a_setting(strategy: str) -> None:
    assert sent(view(chat(31), strategy, window=3)) == [1, 30, 31, 32]


def test_w1_the_window_is_counted_before_compaction() -> None:
    log = Log()
    log.user("go")
    for hull in range(15):
        log.turn("get_ship", f'{{"hull": {hull}}}')
    result = view(log)
    assert sent(result) == [1, 30, 31]
    assert [fate(result, number) for number in (10, 11)] == ["out_of_window"] * 2
    assert [fate(result, number) for number in (12, 13)] == ["superseded"] * 2


@both
def test_w2_every_kind_of_message_counts_and_order_is_kept(strategy: str) -> None:
    log = Log()
    log.user("old")
    log.user("go")
    log.says("yes")
    log.turn("mine", "ore")
    result = view(log, strategy, window=4)
    assert sent(result) == [2, 3, 4, 5]


@both
def test_w3_the_prompt_is_added_when_outside_and_never_twice(strategy: str) -> None:
    outside = view(chat(25), strategy)
    assert sent(outside)[0] == 1
    assert len(sent(outside)) == 21
    inside = view(chat(5), strategy)
    assert sent(inside) == [1, 2, 3, 4, 5, 6]


@both
def test_w4_without_a_prompt_the_messages_go_alone(strategy: str) -> None:
    log = Log()
    log.user("go")
    result = view(log, strategy)
    assert [message["role"] for message in result.messages] == ["user"]
    assert result.status == "unchanged"


@both
def test_w9_the_log_is_left_as_it_was(strategy: str) -> None:
    log = chat(30)
    before = log.done()
    result = view(log, strategy)
    assert log.done() == before
    assert len(result.ledger) == len(before)


@both
def test_p4_a2_one_prompt_first_wherever_it_stands(strategy: str) -> None:
    log = Log()
    log.user("hello")
    log.prompt("You are Ada.")
    log.user("go")
    result = view(log, strategy)
    assert sent(result) == [2, 1, 3]


@both
def test_a10_only_the_current_prompt_is_sent(strategy: str) -> None:
    log = Log()
    log.prompt("You are Ada.")
    log.user("hello")
    log.prompt("You are Ada, a miner.")
    log.user("go")
    stored = view(log, strategy)
    assert sent(stored) == [3, 2, 4]
    assert (fate(stored, 1), line(stored, 1).by) == ("superseded", 3)
    given = view(log, strategy, system="You are Ada, a trader.")
    assert given.messages[0]["content"] == "You are Ada, a trader."
    assert [line(given, number).by for number in (1, 3)] == ["system", "system"]
    assert kinds(given) == ["prompt"]


@both
@pytest.mark.parametrize("blank", ["", " \n", "\x00"])
def test_a10_a_blank_prompt_is_none_and_replaces_none(
    strategy: str, blank: str
) -> None:
    result = view(chat(3), strategy, system=blank)
    assert result.messages[0] == {"role": "system", "content": "You are Ada."}
    assert fate(result, 1) == "kept"


@both
def test_a10_a_system_row_of_another_origin_is_a_notice(strategy: str) -> None:
    log = Log()
    log.add("system", "The server restarts.", "warning")
    log.user("go")
    result = view(log, strategy, system="You are Ada.")
    said = "The server restarts.\n\ngo"
    assert result.messages[1] == {"role": "user", "content": said}
    assert result.sources == [None, [1, 2]]


@both
def test_a4_the_cut_moves_to_the_next_unit(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.turn("mine", "ore")
    log.turn("mine", "ore")
    result = view(log, strategy, window=3)
    assert sent(result) == [1, 4, 5], "the order is anchored, the first block is whole"
    assert fate(result, 3) == "out_of_window"


@both
def test_a4_the_newest_unit_is_whole_and_says_that_it_exceeds(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.calls("mine", "mine", "mine")
    for index in range(3):
        log.result(f"c2.{index}", "ore")
    result = view(log, strategy, window=2)
    assert sent(result) == [1, 2, 3, 4, 5]
    assert result.stats["window_exceeded"] is True
    assert view(log, strategy, window=4).stats["window_exceeded"] is False


@both
@pytest.mark.parametrize("origin", ["human", "broadcast"])
def test_a4_the_newest_order_is_anchored_outside_the_window(
    strategy: str, origin: str
) -> None:
    log = Log()
    log.user("older order")
    log.user("mine iron", origin)  # type: ignore[arg-type]
    for _ in range(15):
        log.turn("mine", "ore")
    log.user("Continue.", "nudge")
    result = view(log, strategy)
    assert sent(result)[0] == 2
    assert fate(result, 2) == "kept"
    assert fate(result, 1) == "out_of_window"
    assert kinds(result) == ["filler"], "between the newest result and the nudge"


@both
def test_a5_without_backfill_freed_places_stay_free(strategy: str) -> None:
    log = Log()
    log.user("order")
    log.says("one")
    log.says("two")
    for _ in range(4):
        log.turn("get_ship", "{}")
    log.result("nobody", "stray")
    assert 3 not in sent(view(log, strategy, window=9))
    assert 3 in sent(view(log, strategy, window=9, backfill=True))


def test_a5_backfill_counts_what_is_left_after_compaction() -> None:
    log = Log()
    for number in range(6):
        log.user(f"order {number}")
    for _ in range(5):
        log.turn("get_ship", "{}")
    assert sent(view(log, window=4)) == [6, 15, 16]
    assert sent(view(log, window=4, backfill=True)) == [5, 6, 15, 16]


@both
def test_a_view_begins_with_the_user_and_ends_with_a_question(strategy: str) -> None:
    log = Log()
    log.says("I am here.")
    result = view(log, strategy)
    assert [message["content"] for message in result.messages] == [
        FILLER_TEXT,
        "I am here.",
        NUDGE_TEXT,
    ]
    assert kinds(result) == ["filler", "nudge"]
    assert result.stats["fillers"] == 1
    urged = view(log, strategy, nudge="You have been idle. Act.")
    assert urged.messages[-1]["content"] == "You have been idle. Act."


@both
def test_made_up_messages_do_not_count(strategy: str) -> None:
    log = Log()
    log.user("go")
    log.says("one")
    log.user(NUDGE_TEXT, "nudge")
    log.says("two")
    assert sent(view(log, strategy, window=2)) == [1, 2, 3, 4]
    assert sent(view(log, strategy, window=1)) == [1, 4]
