"""Where the time of a run went: by the kind of the tests, and the slowest of them."""

from __future__ import annotations

from collections import defaultdict

import pytest

SLOWEST = 20
# Folders of tests that start a whole fleet.
FLEETS = ("tests/bench/", "tests/upgrade/")
# What a test asks for tells its kind; the first that fits counts.
KINDS = {
    "browser": {"chromium"},
    "programs": {"commands", "server", "site", "up", "workers", "collector"},
    "game or provider": {"grouped", "provider", "sandbox"},
    "committed database": {"transactional_db"},
    "rolled-back database": {"db"},
}
# Of a test, on a busy machine.
USUAL_SECONDS = {
    "fleet": 10.0,
    "browser": 3.0,
    "programs": 2.0,
    "game or provider": 1.0,
    "committed database": 0.2,
    "rolled-back database": 0.1,
    "pure": 0.02,
}


def find_kind(item: pytest.Item) -> str:
    """The kind of a test, by its folder, fixtures and marks."""
    if item.nodeid.startswith(FLEETS):
        return "fleet"
    asked = set(getattr(item, "fixturenames", ()))
    for mark in item.iter_markers("django_db"):
        asked.add("transactional_db" if mark.kwargs.get("transaction") else "db")
    return next((kind for kind, names in KINDS.items() if asked & names), "pure")


def write_times(terminal: pytest.TerminalReporter) -> None:
    """Seconds by kind and the slowest tests, with their set-up and end."""
    counts: dict[str, int] = defaultdict(int)
    kinds: dict[str, float] = defaultdict(float)
    tests: dict[str, float] = defaultdict(float)
    told = ("", "passed", "failed")
    for report in (one for name in told for one in terminal.getreports(name)):
        kind = str(dict(report.user_properties)["kind"])
        counts[kind] += report.when == "call"
        kinds[kind] += report.duration
        tests[report.nodeid] += report.duration
    terminal.section("where the time went")
    for kind, seconds in sorted(kinds.items(), key=lambda one: -one[1]):
        terminal.line(f"{seconds:8.1f} s  {counts[kind]:6,} tests  {kind}")
    for name, seconds in sorted(tests.items(), key=lambda one: -one[1])[:SLOWEST]:
        terminal.line(f"{seconds:8.1f} s  {name}")
