"""What the calls of an arm come to."""

from __future__ import annotations

from bench.loop.arms import ArmResult, SentCall, p95, price_calls


def test_a_cached_beginning_costs_less():
    alone = SentCall(size=40_000, tokens=10_000, shared=0, output=100)
    shared = SentCall(size=40_000, tokens=10_000, shared=36_000, output=100)
    tiny = SentCall(size=4_000, tokens=1_000, shared=3_600, output=0)
    plain = SentCall(size=4_000, tokens=1_000, shared=0, output=0)
    assert 0 < price_calls([shared]) < price_calls([alone])
    assert price_calls([tiny]) == price_calls([plain])


def test_an_arm_is_added_up():
    calls = [
        SentCall(100 * n, 10 * n, 50, 1, state=n, good=2, wrong=1) for n in (1, 2, 3)
    ]
    found = ArmResult(calls=calls, turns=2, gets=3, actions=6).figures()
    assert (found["bytes_mean"], found["tokens_mean"]) == (200, 20)
    assert (found["gets_per_action"], found["calls_per_action"]) == (0.5, 0.5)
    assert (found["prefix_reuse"], found["state_bytes_most"]) == (0.25, 3)
    assert (found["wrong_beliefs"], found["good_facts"]) == (3, 6)
    assert found["good_facts_per_call"] == 2
    nothing = ArmResult().figures()
    assert nothing["gets_per_action"] is None
    assert p95([7]) == 7
