"""What the pages cost: bytes, server time and the web process's work.

180 Myses rest; 20 fly with the pilot in a local game of 10 s ticks, on one worker as
``up`` starts it, and they are among the first on the page. It runs in a process of its
own; see ``bench.processes``.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import psutil
from django.conf import settings
from websockets.exceptions import ConnectionClosed

from agents.models import Turn
from bench.figures import Aim, Figure, Step, Task, measure_medians, percentile
from bench.flying import start_myses
from bench.pages import browser, scenes
from bench.processes import (
    migrated_database,
    name_process,
    run_game,
    run_server,
    run_worker,
)
from bench.turns import TICK, TOGETHER
from bench.visitor import PATIENCE, Site, Viewer, weigh_page

RESTING, FLYING = 180, 20
WARM_TURNS, WARM_SECONDS = 2, 300.0
WATCHED_SECONDS, PAINTED_SECONDS = 20.0, 60.0
VIEWERS = (0, 1, 10)
SHORT, LONG = 100, 100_000
PAGES = {"the page": "", "the Context page": "context/"}
OPENED = 25
BYTES_TARGET = 300_000
ANSWER_TARGET, PAINTED_TARGET = 100.0, 400.0
GROWTH_TARGET = 1.5

Found = Mapping[str, Any]


def measure(step: Step) -> list[Figure]:
    """All figures of the pages; none of painting without a Chromium."""
    with migrated_database(step):
        step(f"Making {RESTING + FLYING} Myses")
        remembering = {n: scenes.make_remembering_mysis(n) for n in (SHORT, LONG)}
        scenes.make_resting_myses(RESTING)
        scenes.vacuum()
        session = scenes.sign_in_admin()
        quiet = run_server("--verbosity=0", PYTHONWARNINGS="ignore")
        with run_game(TICK), quiet as server:
            site = Site(server, session, settings.SESSION_COOKIE_NAME)
            with run_worker(TOGETHER):
                found = measure_flying(site, step)
            step("Opening a short and a long memory")
            found["lengths"] = {
                name: time_openings(site, remembering, page)
                for name, page in PAGES.items()
            }
    return page_figures(found)


def measure_flying(site: Site, step: Step) -> dict[str, Any]:
    """What is measured while twenty fly."""
    step(f"Letting {FLYING} Myses fly at {TICK:g} s a tick")
    wait_for_turns(start_myses(FLYING, "Busy"))
    step("Looking with nobody, one and ten")
    viewers = {n: measure_viewers(site, n, WATCHED_SECONDS) for n in VIEWERS}
    step("Loading the Fleet page")
    weight = weigh_page(site.visitor(), "/")
    found = {
        "viewers": viewers,
        "weight": {"sent": weight.sent, "requests": weight.requests},
        "frame": site.measure_first_frame(),
        "answers": site.time_answers("/", "/healthz"),
    }
    step("Painting rows")
    return found | {"painted": browser.measure_painting(site, PAINTED_SECONDS)}


def wait_for_turns(myses: list[int]) -> None:
    """Wait until all of them fly; raises RuntimeError where they do not."""
    until = time.monotonic() + WARM_SECONDS
    counts: Counter[int] = Counter()
    while time.monotonic() < until:
        done = Turn.objects.filter(mysis__in=myses, finished_at__isnull=False)
        counts = Counter(done.values_list("mysis", flat=True))
        if all(counts[mysis] >= WARM_TURNS for mysis in myses):
            return
        time.sleep(1)
    raise RuntimeError(
        f"{FLYING} Myses took {counts.total()} turns in {WARM_SECONDS:g} s."
    )


def time_openings(
    site: Site, remembering: Mapping[int, int], page: str
) -> dict[int, float]:
    """The median seconds of a page of each Mysis, by how much it remembers."""
    tasks: dict[str, Task] = {
        str(count): partial(site.get, f"/myses/{mysis}/{page}")
        for count, mysis in remembering.items()
    }
    return {
        int(count): found for count, found in measure_medians(tasks, OPENED).items()
    }


def measure_viewers(site: Site, count: int, seconds: float) -> dict[str, float]:
    """With so many viewers: milliseconds of processor time and bytes to each, a second.

    A viewer loads the page and opens its socket; the page asks for nothing more by
    itself. What opening costs is over before the measuring begins.
    """
    with ExitStack() as opened:
        viewers = [opened.enter_context(site.watch()) for _ in range(count)]
        readers = [threading.Thread(target=_read_all, args=[one]) for one in viewers]
        for viewer in viewers:
            viewer.recv(timeout=PATIENCE)
        for reader in readers:
            reader.start()
        sent = sum(viewer.received for viewer in viewers)
        busy = _processor_seconds()
        time.sleep(seconds)
        busy = _processor_seconds() - busy
        sent = sum(viewer.received for viewer in viewers) - sent
    for reader in readers:
        reader.join()
    return {"busy": 1000 * busy / seconds, "sent": sent / max(1, count) / seconds}


def _read_all(viewer: Viewer) -> None:
    try:
        while True:
            viewer.recv()
    except ConnectionClosed:
        return


def _processor_seconds() -> float:
    """Of the web servers that this process started."""
    webs = [
        child
        for child in psutil.Process(os.getpid()).children()
        if name_process(child.cmdline()) == "web"
    ]
    if not webs:
        raise RuntimeError("No web process runs.")
    times = [web.cpu_times() for web in webs]
    return float(sum(each.user + each.system for each in times))


# --- Figures


def page_figures(found: Found) -> list[Figure]:
    """The figures of what was measured."""
    return [
        *painting_figures(found.get("painted")),
        *opening_figures(found),
        *viewer_figures(found["viewers"]),
        *growth_figures(found["lengths"]),
    ]


def painting_figures(found: Found | None) -> list[Figure]:
    """How late words were painted, and how many never were."""
    if found is None:
        return []
    painted, read = sorted(found["painted"]), sorted(found["read"])
    if not painted or not read:
        raise RuntimeError("Nothing was said while the browser looked.")
    late = [
        Figure(
            f"event to painted row, {name}",
            percentile(painted, share),
            "ms",
            baseline=percentile(read, share),
            baseline_is="a bare reader of the event log, in Python",
            target=PAINTED_TARGET if name == "p95" else None,
            note=f"{len(painted)} words of 20 real Myses, in Chromium",
        )
        for name, share in (("median", 0.5), ("p95", 0.95))
    ]
    return [*late, Figure("words never painted", found["lost"], "", target=1.0)]


def opening_figures(found: Found) -> list[Figure]:
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
                percentile(page, share),
                "ms",
                baseline=percentile(probe, share),
                baseline_is="GET /healthz of the same server, between the others",
                target=ANSWER_TARGET if name == "p95" else None,
                note="while 20 fly",
            )
            for name, share in (("median", 0.5), ("p95", 0.95))
        ),
    ]


def viewer_figures(found: Mapping[int, Found]) -> list[Figure]:
    """What viewers of the Fleet page cost the web process."""
    counts = sorted(found)
    nobody, one, many = (found[count]["busy"] for count in counts)
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
            note=_sent(found[counts[1]]),
        ),
        Figure(
            f"each further viewer, of {counts[2]}",
            further,
            "ms",
            baseline=max(0.0, one - nobody),
            baseline_is="what the first one adds",
            note=_sent(found[counts[2]]),
        ),
    ]


def _sent(found: Found) -> str:
    return f"{found['sent'] / 1000:.1f} KB a second sent to each"


def growth_figures(lengths: Mapping[str, Mapping[int, float]]) -> list[Figure]:
    """Pages of a Mysis that remembers much beside one that remembers little."""
    figures = []
    for page, seconds in lengths.items():
        few, many = sorted(seconds)
        figures.append(
            Figure(
                f"{page} of a Mysis with {many:,} memories (median)",
                seconds[many] * 1000,
                "ms",
                baseline=seconds[few] * 1000,
                baseline_is=f"one with {few:,}",
                target=GROWTH_TARGET,
                aim=Aim.RATIO_BELOW,
            )
        )
    return figures
