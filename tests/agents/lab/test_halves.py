"""A replay by two processes gives what one gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.lab import halves
from agents.lab.halves import Asked, replay_asked
from agents.lab.policies import read_policies
from agents.lab.replay import ReplayedCall
from bench.processes import database_url
from tests.agents.lab.histories import make_pilot, record_turn

POLICIES = ("window", "mask", "coalesced")


@pytest.fixture
def asked(transactional_db: Any) -> Asked:
    """The three calls of a Mysis under three policies."""
    mysis = make_pilot(strategy="tiered")
    record_turn(mysis, calls=3)
    policies = read_policies([{"strategy": name} for name in POLICIES])
    return Asked(mysis.pk, "", None, None, policies)


def test_two_processes_find_what_one_does(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DATABASE_URL", database_url())
    alone = list(asked.replay())
    monkeypatch.setattr(halves, "WORTH_TWO", 1)
    begun: list[Asked] = []
    start = halves._start

    def note(there: Asked) -> Any:
        begun.append(there)
        return start(there)

    monkeypatch.setattr(halves, "_start", note)
    both = list(replay_asked(asked, 3))
    assert [[policy.name for policy in there.policies] for there in begun] == [["mask"]]
    assert both == alone
    assert [list(call.figures) for call in both] == [["own", *POLICIES]] * 3


def test_calls_that_one_of_two_did_not_find_are_left_out(asked: Asked):
    first, second, third = asked.replay()

    def write(*calls: ReplayedCall) -> Iterator[list[Any]]:
        yield from ([[call.sent.mysis_id, call.sent.pk], {}] for call in calls)
        yield ["end", {}]

    def join(here: list[ReplayedCall], *there: ReplayedCall) -> list[ReplayedCall]:
        return [call for call, _ in halves._join(here, write(*there))]

    assert join([first, third], first, second, third) == [first, third]
    assert join([first, second, third], first, third) == [first, third]
    assert join([first, second], first) == [first]
