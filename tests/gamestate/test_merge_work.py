"""How much a merge works: in proportion to the events, not to their square."""

from __future__ import annotations

import pytest

from memory.gamestate.merge import arranged, known, merge
from memory.gamestate.notices import Notice
from tests.gamestate.builders import snapshot
from tests.gamestate.test_merge import CARGO, ME, notice, value


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
    assert len(arranged(events)) == count
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
    after = merge(own, [*yields, *both], known(ME, [own]))
    assert value(after, "used") == 12 + 15
    assert len(arranged([*yields, *both])) == 3
