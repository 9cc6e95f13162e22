"""What re-reads cost and what two calls share, on views that are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.core import views
from bench.core.views import (
    CASES,
    READS,
    SUMMARY,
    CallPair,
    GrowingLog,
    compare_calls,
    count_common_bytes,
    count_result_tokens,
    drop_tail,
    encode_messages,
    has_compacted,
    make_reading_log,
    mean_share,
    play_pairs,
    prefix_figure,
)
from bench.figures import Aim
from bench.logs import Player
from memory.context.result_types import LedgerLine


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        (b"", b"abc", 0),
        (b"abc", b"abc", 3),
        (b"abc", b"abcde", 3),
        (b"abXde", b"abYde", 2),
        (b"Xbc", b"Ybc", 0),
        (b"a" * 1000 + b"b", b"a" * 1000 + b"c", 1000),
    ],
)
def test_the_common_bytes_of_two_texts(one: bytes, other: bytes, length: int):
    assert count_common_bytes(one, other) == count_common_bytes(other, one) == length


def test_messages_are_counted_in_bytes():
    assert encode_messages([{"a": "ä"}, {}]) == '{"a":"ä"}{}'.encode()


def test_the_tail_is_the_nudge_and_the_state_at_the_end():
    play = GrowingLog("full")
    said = play.call((Player().say("Mining on."),), None)
    kinds = [entry.kind for entry in said.synthetic]
    assert kinds == ["prompt", "filler", "nudge", "state"]
    assert [m["role"] for m in drop_tail(said)] == ["system", "user", "assistant"]


def test_a_log_that_only_grows_shares_everything():
    found = list(play_pairs("full", units=12))
    assert len(found) == 11
    assert {pair.share for pair in found} == {100.0}
    assert not any(pair.compacted for pair in found)
    assert all(pair.counted == pair.stated for pair in found)
    # The state block changes with every call, so the tail is never shared.
    assert all(pair.counted < pair.stable + 100 for pair in found)


def test_a_window_that_slides_shares_little():
    found = list(play_pairs("window", units=30))
    assert any(pair.compacted for pair in found)
    assert min(pair.share for pair in found) < 20


def test_a_view_that_begins_otherwise_shares_nothing():
    play = GrowingLog("full")
    player = Player()
    before = play.call((player.begin_turn(),), None)
    now = play.call(player.call_tools("mine"), before)
    other = replace(now, messages=[{"role": "system", "content": "!"}])
    assert compare_calls(before, now).share == 100.0
    assert compare_calls(before, other).share < 35


def test_a_fate_that_changes_is_a_compaction():
    line = LedgerLine(1, "kept", None, "", 1, 1, None)
    masked, new = replace(line, disposition="masked"), replace(line, id=2)
    assert not has_compacted([line], [line, new])
    assert has_compacted([line], [masked, new])
    assert has_compacted([masked], [line])


def test_a_summary_that_is_wanted_is_made():
    play = GrowingLog("summary", options={"threshold": 3_000})
    player = Player()
    view = None
    for unit, _ in zip(player.units(), range(30), strict=False):
        view = play.call(unit, view)
    assert play.summary is not None and play.summary.generation > 1
    assert view is not None and SUMMARY.strip() in "".join(
        m["content"] or "" for m in view.messages
    )


def test_the_figure_leaves_compactions_out_and_tells_them():
    quiet = CallPair(98, 100, False, 98, 98)
    figure = prefix_figure("mask", [quiet, quiet, CallPair(2, 100, True, 2, 2)], 40.0)
    assert (figure.value, figure.baseline, figure.aim) == (98, 40, Aim.AT_LEAST)
    assert figure.note == "2 calls, nothing compacted before; all 3: 66.0 %"
    assert figure.met


def test_no_calls_share_nothing():
    assert mean_share([]) == 0
    assert CallPair(0, 0, False, 0, 0).share == 100


def test_the_ship_is_read_so_many_times():
    for turns in (1, READS):
        log = make_reading_log(turns)
        calls = [call.name for message in log for call in message.tool_calls]
        assert calls.count("get_ship") == READS
        assert sum(
            message.origin != "tool" for message in log if message.role == "user"
        )
    assert sum(message.role == "user" for message in make_reading_log(1)) == 1
    assert sum(message.role == "user" for message in make_reading_log()) == READS + 1


def test_the_whole_payload_is_the_baseline():
    log = make_reading_log()
    whole = count_result_tokens(log, "full", {})
    ships = sum(len(m.content) for m in log if m.role == "tool") / 4
    assert ships < whole
    assert all(count_result_tokens(log, c.strategy, c.options) < whole for c in CASES)


def test_a_saving_is_told_as_a_ratio():
    figure = views.reads_figure(CASES[1])
    assert figure.baseline is not None and figure.value < figure.baseline
    assert figure.met is (figure.value / figure.baseline < views.READS_TARGET)
