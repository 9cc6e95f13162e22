"""What many want at the same time is made once, and what it was before is let go."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from agents.dashboard.shared_results import SharedResults


def test_many_viewers_draw_once_and_what_was_used_last_stays():
    shared, made = SharedResults(kept=2), list[str]()

    def get(key: str) -> None:
        def make() -> str:
            made.append(key)
            return key.upper()

        assert shared.get(key, make) == key.upper()

    for key in ("a", "a", "b", "a"):
        get(key)
    assert made == ["a", "b"]
    get("c")
    get("a")
    assert made == ["a", "b", "c"]
    assert shared.peek("b") is None
    assert shared.peek("a") == "A"


def test_those_who_ask_meanwhile_wait_for_the_first():
    shared, begun, go_on = SharedResults(), Event(), Event()
    made: list[Sequence[str]] = []

    def make(keys: Sequence[str]) -> dict[str, str]:
        made.append(keys)
        begun.set()
        assert go_on.wait(30)
        return {key: key.upper() for key in keys}

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(shared.get_many, ["a", "b"], make)
        assert begun.wait(30)
        second = threads.submit(shared.get_many, ["b", "c", "c"], make)
        assert shared.peek("a") is None
        go_on.set()
        assert first.result(30) == {"a": "A", "b": "B"}
        assert second.result(30) == {"b": "B", "c": "C"}
    assert made == [["a", "b"], ["c"]]


def test_a_failure_is_told_to_all_who_wait_and_is_not_shared_for_ever():
    shared, begun, go_on = SharedResults(), Event(), Event()

    def fail() -> int:
        begun.set()
        assert go_on.wait(30)
        return 1 // 0

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(shared.get, "a", fail)
        assert begun.wait(30)
        second = threads.submit(shared.get, "a", fail)
        go_on.set()
        for waiting in (first, second):
            with pytest.raises(ZeroDivisionError):
                waiting.result(30)
    assert shared.get("a", lambda: 1) == 1
