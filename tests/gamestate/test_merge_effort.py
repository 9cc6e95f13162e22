"""How much a merge works: in proportion to the events, not to their square."""

from __future__ import annotations

import pytest

from memory.gamestate import merge as rules
from memory.gamestate.confidence import Confidence
from memory.gamestate.merge import arrange_events, learn_account
from memory.gamestate.notices import Notice
from tests.gamestate.builders import snapshot
from tests.gamestate.merging import (
    CARGO,
    ME,
    STATUS,
    believed,
    merge_events,
    notice,
    value,
)


class Counted(dict[str, object]):
    """Data that counts how often it is looked at."""

    looks = 0

    def get(self, key, default=None):
        Counted.looks += 1
        return super().get(key, default)

    def __eq__(self, other):
        Counted.looks += 1
        return dict.__eq__(self, other)


def told(count, **data):
    """So many ores of a server that tells each twice, each in its own tick."""
    for n in range(count):
        mined = {"resource_id": "ore_iron", "quantity": 5, "remaining": 900 - n, **data}
        both = {"command": "mine", "result": mined}
        for kind, each in (("mining_yield", mined), ("action_result", both)):
            yield Notice(
                f"{kind}{n}", kind, Counted(each), tick=110 + 3 * n, exact=True
            )


def looks(count, **data):
    events = list(told(count, **data))
    Counted.looks = 0
    assert len(arrange_events(events)) == count
    return Counted.looks


@pytest.mark.parametrize("data", [{}, {"remaining": None}, {"remaining": [1]}])
def test_what_is_told_twice_is_found_by_looking_once(data):
    assert looks(80, **data) <= 4 * looks(20, **data) + 8


def test_equal_yields_lose_as_many_as_are_told_again():
    """Two of three are told twice, all three in one tick: fifteen ores, not ten."""
    mined = {"resource_id": "ore_iron", "quantity": 5, "remaining": 7}
    yields = [notice("mining_yield", n=n, **mined) for n in range(3)]
    both = [notice("action_result", n=n, command="mine", result=mined) for n in (1, 2)]
    own = snapshot("get_cargo", CARGO)
    after = merge_events(own, [*yields, *both], learn_account(ME, [own]))
    assert value(after, "used") == 12 + 15
    assert len(arrange_events([*yields, *both])) == 3


def test_of_very_many_events_the_older_ones_doubt_only_what_they_touch(monkeypatch):
    """Mined for long, then shot at: the hold is in doubt, the hull is told."""
    monkeypatch.setattr(rules, "MOST_WRITTEN", 3)
    own = snapshot("get_status", STATUS)
    mined = [mined_of(n) for n in range(3)]
    shot = [notice("pirate_combat", 110 + n, player_hull=70 - n, player_shield=0)
            for n in range(3)]  # fmt: skip
    around = learn_account(ME, [own])
    found = merge_events(own, [*mined, *shot], around, 120)
    for path in ("ship.cargo", "ship.cargo_used", "player.stats.ore_mined"):
        assert believed(found, path) is Confidence.INVALIDATED
        assert value(found, path) == value(own, path)
    assert value(found, "ship.hull") == 68
    assert believed(found, "ship.hull") is Confidence.MERGED
    assert believed(found, "player.credits") is Confidence.FRESH
    assert merge_events(own, [*shot, *mined[::-1]], around, 120) == found


def test_what_a_later_event_gives_as_it_is_lifts_the_doubt_of_the_older_ones(
    monkeypatch,
):
    monkeypatch.setattr(rules, "MOST_WRITTEN", 1)
    own = snapshot("get_status", STATUS)
    won = notice("pirate_destroyed", 106, pirate_id="x", credits_reward=4)
    traded = notice("trade_complete", 107, your_credits=77)
    found = merge_events(own, [won, traded], learn_account(ME, [own]), 108)
    assert value(found, "player.credits") == 77
    assert believed(found, "player.credits") is Confidence.MERGED


def test_who_comes_and_goes_is_no_event_for_the_hold(monkeypatch):
    monkeypatch.setattr(rules, "MOST_WRITTEN", 1)
    own = snapshot("get_cargo", CARGO)
    others = [notice("poi_arrival", n=n, username="Ben") for n in range(9)]
    found = merge_events(own, [mined_of(0), *others], learn_account(ME, [own]), 120)
    assert (value(found, "used"), found.stale) == (17, None)


def mined_of(n):
    return notice("mining_yield", 106 + n, resource_id="ore_iron", quantity=5, n=n)
