"""Counting what two calls share, on views that are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.figures import Aim
from bench.logs import Player
from bench.prefixes import (
    SUMMARY,
    Pair,
    Play,
    changed,
    common,
    encoded,
    figure_of,
    mean_share,
    pair_of,
    pairs,
    without_tail,
)
from memory.context.types import LedgerLine


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
    assert common(one, other) == common(other, one) == length


def test_messages_are_counted_in_bytes():
    assert encoded([{"a": "ä"}, {}]) == '{"a":"ä"}{}'.encode()


def test_the_tail_is_the_nudge_and_the_state_at_the_end():
    play = Play("full")
    said = play.call((Player().said("Mining on."),), None)
    kinds = [entry.kind for entry in said.synthetic]
    assert kinds == ["prompt", "filler", "nudge", "state"]
    assert [m["role"] for m in without_tail(said)] == ["system", "user", "assistant"]


def test_a_log_that_only_grows_shares_everything():
    found = list(pairs("full", units=12))
    assert len(found) == 11
    assert {pair.share for pair in found} == {100.0}
    assert not any(pair.compacted for pair in found)
    assert all(pair.counted == pair.stated for pair in found)
    # The state block changes with every call, so the tail is never shared.
    assert all(pair.counted < pair.stable + 100 for pair in found)


def test_a_window_that_slides_shares_little():
    found = list(pairs("window", units=30))
    assert any(pair.compacted for pair in found)
    assert min(pair.share for pair in found) < 20


def test_a_view_that_begins_otherwise_shares_nothing():
    play = Play("full")
    player = Player()
    before = play.call((player.asked(),), None)
    now = play.call(player.called("mine"), before)
    other = replace(now, messages=[{"role": "system", "content": "!"}])
    assert pair_of(before, now).share == 100.0
    assert pair_of(before, other).share < 35


def test_a_fate_that_changes_is_a_compaction():
    line = LedgerLine(1, "kept", None, "", 1, 1, None)
    masked, new = replace(line, disposition="masked"), replace(line, id=2)
    assert not changed([line], [line, new])
    assert changed([line], [masked, new])
    assert changed([masked], [line])


def test_a_summary_that_is_wanted_is_made():
    play = Play("summary", options={"threshold": 3_000})
    player = Player()
    view = None
    for unit, _ in zip(player.units(), range(30), strict=False):
        view = play.call(unit, view)
    assert play.summary is not None and play.summary.generation > 1
    assert view is not None and SUMMARY.strip() in "".join(
        m["content"] or "" for m in view.messages
    )


def test_the_figure_leaves_compactions_out_and_tells_them():
    quiet = Pair(98, 100, False, 98, 98)
    figure = figure_of("mask", [quiet, quiet, Pair(2, 100, True, 2, 2)], 40.0)
    assert (figure.value, figure.baseline, figure.aim) == (98, 40, Aim.AT_LEAST)
    assert figure.note == "2 calls, nothing compacted before; all 3: 66.0 %"
    assert figure.met


def test_no_calls_share_nothing():
    assert mean_share([]) == 0
    assert Pair(0, 0, False, 0, 0).share == 100
