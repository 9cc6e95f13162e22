"""The figures of the surfaces: summaries over REST, events over the JSON socket."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.growth import last_line

STEPS = 2
PROGRAM = [sys.executable, "-W", "ignore", "-m", "bench.surfaces.measuring"]
SUMMARIES = {"whole": ("200", 30.0), "known": ("304", 10.0)}
SOCKETS = {"200 clients": 50.0, "1000 clients": 250.0}
PROBE = "GET /healthz of the same server"
BROADCAST = "a bare websockets broadcast"

Found = Mapping[str, Any]


def measure(step: Callable[[str], None]) -> list[Figure]:
    """All of them. Raises RuntimeError where they cannot be had."""
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        found = json.loads(last_line(PROGRAM, Path(folder), step))
    sockets = [
        figure for name in SOCKETS for figure in sending(name, found["sockets"][name])
    ]
    return [*summarizing(found["summaries"]), *sockets]


def summarizing(found: Mapping[str, Mapping[str, float]]) -> list[Figure]:
    """A figure for the whole answer, and for one that is known."""
    return [
        Figure(
            f"GET /myses/{{id}}/summary, {status}, p95",
            found[name]["p95"],
            "ms",
            baseline=found["nothing"]["p95"],
            baseline_is=PROBE,
            target=target,
            note=f"median {found[name]['median']:.1f} ms, "
            f"of the probe {found['nothing']['median']:.1f} ms",
        )
        for name, (status, target) in SUMMARIES.items()
    ]


def sending(name: str, found: Mapping[str, Found]) -> list[Figure]:
    """How late events came to so many clients, and how many did not come once."""
    ours, bare = found["ours"], found["bare"]
    late = [
        Figure(
            f"events to {name}, {what}",
            ours[what],
            "ms",
            baseline=bare[what],
            baseline_is=BROADCAST,
            target=SOCKETS[name] if what == "p95" else None,
        )
        for what in ("median", "p95")
    ]
    wrong = ours["lost"] + ours["twice"] + ours["disordered"]
    return [*late, Figure(f"events to {name}, lost or twice", wrong, "", target=1.0)]
