"""Zoea's own program, on few messages; nothing here judges time."""

from __future__ import annotations

import pytest

from bench.peers import workload
from bench.peers.workload import name_conversation
from bench.peers.zoea import Zoea
from memory.models import Memory, SentContext


@pytest.mark.django_db
@pytest.mark.parametrize("strategy", ["window", "tiered"])
def test_turns_are_stored_and_assembled(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "REPEATS", 3)
    monkeypatch.setattr(workload, "SEARCH_REPEATS", 1)
    monkeypatch.setattr(workload, "SEARCHED_FROM", 60)
    store = Zoea("", strategy)
    workload.fill(store, 60)
    cells = workload.measure(store, 60, seconds=60)
    assert {*cells} == {"append", "context", *workload.WORDS}
    assert all(cell["ms"] > 0 for cell in cells.values())
    # The first is to warm up; the last was fetched before the last append.
    assert cells["context"]["messages"] == 60 + 2 * 3
    assert (cells["rare"]["messages"], cells["medium"]["messages"]) == (2, 2)
    rows = Memory.objects.filter(mysis__name=name_conversation(60, 0))
    assert rows.count() == 60 + 2 * 4
    assert not rows.filter(pending=True).exists()
    assert SentContext.objects.filter(strategy=strategy).count() == 4
    # A second measurement takes the Mysis up where it stands.
    store.open(name_conversation(60, 0))
    assert store.fetch() == 68
