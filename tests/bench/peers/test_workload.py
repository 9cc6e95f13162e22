"""One history for everybody, and how it is timed."""

from __future__ import annotations

import hashlib

from bench.peers import workload
from bench.peers.workload import Store, Turn, make_turns


class Listed(Store):
    """Turns in lists."""

    packages = ("psycopg",)

    def __init__(self, url: str, broken: str = "") -> None:
        self.broken = broken
        self.kept: dict[str, list[Turn]] = {}
        self.closed = False

    def fill(self, conversation, turns):
        self.kept[conversation] = list(turns)

    def open(self, conversation):
        self.turns = self.kept.setdefault(conversation, [])

    def append(self, turn):
        if self.broken:
            raise ValueError(f"{self.broken}\nand more")
        self.turns.append(turn)

    def fetch(self):
        return len(self.turns) * 2

    def close(self):
        self.closed = True


def test_a_history_is_the_same_each_time_and_at_each_length():
    short, long = list(make_turns(100)), list(make_turns(2_000))
    assert len(short) == 50
    assert long[:50] == short
    said = "\n".join(turn.result + turn.arguments for turn in short)
    digest = hashlib.sha256(said.encode()).hexdigest()
    assert digest.startswith("9cca4956a755082d")


def test_words_stand_in_as_many_results_as_they_are_to():
    results = [turn.result for turn in make_turns(10_000)]
    rare, medium = (
        [place for place, text in enumerate(results) if word in text]
        for word in workload.WORDS.values()
    )
    assert rare == [3, 30, 300, 3_000]
    assert medium == list(range(0, 5_000, 20))


def test_a_history_grows_by_a_tenth_at_most():
    assert [workload.count_copies(length) for length in (100, 1_000, 100_000)] == [
        8,
        1,
        1,
    ]
    store = Listed("")
    workload.fill(store, 100)
    cells = workload.measure(store, 100, seconds=60)
    assert {len(turns) for turns in store.kept.values()} == {56}
    assert cells["append"]["repeats"] == workload.REPEATS
    assert cells["context"]["messages"] == 110
    assert {*cells} == {"append", "context"}


def test_what_a_library_cannot_do_is_told_with_its_reason():
    result = workload.run(
        lambda url, *options: Listed(url, *options),
        ["measure", "", "100", "1", "No such column."],
    )
    cells = result["cells"]
    assert cells["append"] == {"error": "ValueError: No such column."}
    # What was read before it is told all the same.
    assert cells["context"]["messages"] == 0
    assert result["versions"]["psycopg"]
