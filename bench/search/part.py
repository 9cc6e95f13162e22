"""The figures of a long memory: searching it, and adding to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bench.figures import Aim, Figure
from bench.growth import last_line
from bench.search.corpus import Size
from bench.surroundings import ROOT

SIZES = (Size(100_000, 5, 20_000), Size(1_000_000, 50, 100_000))
PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.search.measuring"]
#: Kept between runs: making the larger one takes minutes.
KEPT = ROOT / ".zoea"
STEPS = 3 * len(SIZES)
#: Milliseconds, by question: of the median, or else of the 95th percentile.
MEDIANS = {"one Mysis: rare": 2.0, "one Mysis: medium": 2.0}
P95 = {
    "one Mysis: common": 50.0,
    "longest Mysis: common": 50.0,
    "longest Mysis: only elsewhere": 50.0,
    "longest Mysis: exact, never": 300.0,
    "longest Mysis: exact, common": 300.0,
    "fleet: common": 50.0,
    "fleet: medium": 50.0,
    "fleet: rare": 50.0,
}
SCANNED = "an ILIKE scan of the same rows"
BARE = "the same rows into a table without any index"

Found = Mapping[str, Mapping[str, Any]]


def measure(step: Callable[[str], None]) -> list[Figure]:
    """Both sizes. Raises RuntimeError where one cannot be had."""
    few, many = (measured(size, step) for size in SIZES)
    flat = flatness(few["searches"], many["searches"])
    return [*searching(many["searches"]), *flat, *storing(many["inserts"])]


def measured(size: Size, step: Callable[[str], None]) -> dict[str, Any]:
    """What the program found in a corpus of this size."""
    words = [str(each) for each in (size.rows, size.myses, size.longest)]
    result: dict[str, Any] = json.loads(
        last_line([*PROGRAM, *words], KEPT / size.folder, step)
    )
    return result


def searching(found: Found) -> list[Figure]:
    """A figure for each question."""
    figures = []
    for name, by in found.items():
        what = "median" if name in MEDIANS else "p95"
        plain = by.get("plain SQL")
        figures.append(
            Figure(
                f"search, {what}: {name}",
                by["ours"][what],
                "ms",
                baseline=by["ILIKE"][what],
                baseline_is=SCANNED,
                target=MEDIANS.get(name, P95.get(name)),
                note=f"the same words in plain SQL: {plain[what]:.1f} ms"
                if plain
                else "",
            )
        )
    return figures


def flatness(few: Found, many: Found) -> list[Figure]:
    """Whether a search in one Mysis costs more where there are more Myses."""
    return [
        Figure(
            f"search, of 50 Myses, median: {name}",
            many[name]["ours"]["median"],
            "ms",
            baseline=few[name]["ours"]["median"],
            baseline_is="the same in a fleet of 5 Myses",
            target=2.0,
            aim=Aim.RATIO_BELOW,
        )
        for name in ("one Mysis: rare", "one Mysis: medium", "one Mysis: common")
    ]


def storing(found: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """What a message costs to store, and the slowest of a thousand."""
    ours, bare = found["ours"], found["bare"]
    worst = f"worst {ours['worst']:.0f} ms, without an index {bare['worst']:.0f} ms"
    mean = Figure("insert, mean", ours["mean"], "ms", bare["mean"], BARE, 5.0)
    late = Figure("insert, slowest", ours["p999"], "ms", bare["p999"], BARE, 20.0)
    return [replace(mean, aim=Aim.RATIO_BELOW), replace(late, note=worst)]
