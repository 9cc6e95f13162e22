"""The figures of the pages, with 200 Myses of which 20 fly."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Aim, Figure
from bench.growth import last_line

STEPS = 8
PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.pages.measuring"]
BYTES_TARGET = 300_000
ANSWER_TARGET, PAINTED_TARGET = 100.0, 400.0
GROWTH_TARGET = 1.5
PROBE = "GET /healthz of the same server, between the others"
READER = "a bare reader of the event log, in Python"

Found = Mapping[str, Any]


def measure(step: Callable[[str], None]) -> list[Figure]:
    """All of them. Raises RuntimeError where they cannot be had."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        found = json.loads(last_line(PROGRAM, Path(folder), step))
    return figures_of(found)


def figures_of(found: Found) -> list[Figure]:
    """The figures of what was measured; without a Chromium none of painting."""
    return [
        *painting(found.get("painted")),
        *opening(found),
        *watching(found["viewers"]),
        *growing(found["lengths"]),
    ]


def painting(found: Found | None) -> list[Figure]:
    """How late words were painted, and how many never were."""
    if found is None:
        return []
    painted, read = sorted(found["painted"]), sorted(found["read"])
    if not painted or not read:
        raise RuntimeError("Nothing was said while the browser looked.")
    late = [
        Figure(
            f"event to painted row, {name}",
            at(painted, share),
            "ms",
            baseline=at(read, share),
            baseline_is=READER,
            target=PAINTED_TARGET if name == "p95" else None,
            note=f"{len(painted)} words of 20 real Myses, in Chromium",
        )
        for name, share in (("median", 0.5), ("p95", 0.95))
    ]
    return [*late, Figure("words never painted", found["lost"], "", target=1.0)]


def opening(found: Found) -> list[Figure]:
    """What a cold visit to the Fleet page loads, and how long the server takes."""
    weight, frame = found["weight"], found["frame"]
    page, probe = (sorted(found["answers"][path]) for path in ("/", "/healthz"))
    return [
        Figure(
            "a cold visit to the Fleet page, bytes sent",
            weight["sent"] + frame,
            "bytes",
            target=BYTES_TARGET,
            note=f"{weight['requests']} requests {weight['sent'] / 1000:.1f} KB, "
            f"the socket's first frame {frame / 1000:.1f} KB",
        ),
        *(
            Figure(
                f"the Fleet page from the server, {name}",
                at(page, share),
                "ms",
                baseline=at(probe, share),
                baseline_is=PROBE,
                target=ANSWER_TARGET if name == "p95" else None,
                note="while 20 fly",
            )
            for name, share in (("median", 0.5), ("p95", 0.95))
        ),
    ]


def watching(found: Mapping[str, Found]) -> list[Figure]:
    """What viewers of the Fleet page cost the web process."""
    counts = sorted(int(count) for count in found)
    nobody, one, many = (found[str(count)]["busy"] for count in counts)
    further = max(0.0, many - one) / (counts[2] - counts[1])
    return [
        Figure(
            "web process, nobody looks at the Fleet page",
            nobody,
            "ms",
            note="of processor time in each second",
        ),
        Figure(
            "the same with one viewer",
            one,
            "ms",
            baseline=nobody,
            baseline_is="nobody looks",
            note=_sent(found[str(counts[1])]),
        ),
        Figure(
            f"each further viewer, of {counts[2]}",
            further,
            "ms",
            baseline=max(0.0, one - nobody),
            baseline_is="what the first one adds",
            note=_sent(found[str(counts[2])]),
        ),
    ]


def _sent(found: Found) -> str:
    return f"{found['sent'] / 1000:.1f} KB a second sent to each"


def growing(lengths: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """Pages of a Mysis that remembers much beside one that remembers little."""
    figures = []
    for page, seconds in lengths.items():
        few, many = sorted(seconds, key=int)
        figures.append(
            Figure(
                f"{page} of a Mysis with {int(many):,} memories (median)",
                seconds[many] * 1000,
                "ms",
                baseline=seconds[few] * 1000,
                baseline_is=f"one with {int(few):,}",
                target=GROWTH_TARGET,
                aim=Aim.RATIO_BELOW,
            )
        )
    return figures


def at(ordered: Sequence[float], share: float) -> float:
    """The value that such a share of them does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
