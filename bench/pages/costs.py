"""What the pages cost: bytes, server time, viewers, and painting in Chromium.

Most Myses rest; some fly with the pilot in a local game of 10 s ticks, on one worker as
``up`` starts it, and they are among the first on the page.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence

import psutil
from django.conf import settings

from bench.figures import (
    Figure,
    Found,
    Step,
    find_figures,
    percentile,
)
from bench.fleet import start_myses, wait_for_turns
from bench.pages import browser, scenes
from bench.processes import migrated_database, name_process, run_server
from bench.sockets import open_clients
from bench.turns import TICK, run_local_fleet
from bench.visitor import Site

MYSES, FLYING = 200, 20
WARM_TURNS = 2
SETTLE_SECONDS, WATCHED_SECONDS, PAINTED_SECONDS = 1.0, 20.0, 60.0
VIEWERS = (0, 1, 10)
BYTES_TARGET = 100_000
ANSWER_TARGET, PAINTED_TARGET = 60.0, 400.0
VIEWER_TARGET = 1.5
SHARES = {"median": 0.5, "p95": 0.95}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--myses", type=int, default=MYSES, help="of which some fly")
    parser.add_argument("--flying", type=int, default=FLYING)
    parser.add_argument(
        "--seconds", type=float, default=PAINTED_SECONDS, help="of painting"
    )


def measure(options: argparse.Namespace, step: Step) -> Found:
    """All figures of the pages; none of bytes and painting without a Chromium."""
    with migrated_database(step):
        step(f"Making {options.myses} Myses")
        scenes.make_resting_myses(options.myses - options.flying)
        scenes.vacuum()
        session = scenes.sign_in_admin()
        with run_server("--verbosity=0", PYTHONWARNINGS="ignore") as server:
            site = Site(server, session, settings.SESSION_COOKIE_NAME)
            with run_local_fleet(TICK, workers=1):
                figures = measure_flying(site, options, step)
    return find_figures("The pages", figures, "pages")


def measure_flying(site: Site, options: argparse.Namespace, step: Step) -> list[Figure]:
    """What is measured while some fly."""
    step(f"Letting {options.flying} Myses fly at {TICK:g} s a tick")
    wait_for_turns(start_myses(options.flying, "Busy"), WARM_TURNS)
    step("Looking with nobody, one and ten")
    busy = {n: measure_viewers(site, n) for n in VIEWERS}
    step("Loading the Fleet page")
    times = site.time_answers("/", "/healthz")
    figures = [
        *compare_times(
            "the Fleet page from the server",
            times["/"],
            times["/healthz"],
            "GET /healthz of the same server, between the others",
            ANSWER_TARGET,
        ),
        *viewer_figures(busy),
    ]
    if browser.CHROMIUM.exists():
        step("Painting rows")
        painted = browser.measure_painting(site, options.seconds)
        figures += [*painting_figures(painted), weigh(site)]
    return figures


def measure_viewers(site: Site, count: int) -> float:
    """With so many viewers: milliseconds of processor time a second.

    A viewer loads the page and opens its socket; the page asks for nothing more by
    itself. What opening costs is over before the measuring begins.
    """
    plan = site.plan_dashboards(*(site.find_socket("/") for _ in range(count)))
    with open_clients(plan):
        time.sleep(SETTLE_SECONDS)
        busy = _processor_seconds()
        time.sleep(WATCHED_SECONDS)
        return 1000 * (_processor_seconds() - busy) / WATCHED_SECONDS


def measure_first_frame(site: Site) -> int:
    """The bytes that a new socket gets at once."""
    with open_clients(site.plan_dashboards(site.find_socket("/"))) as clients:
        time.sleep(SETTLE_SECONDS)
        found: int = clients.end([])["pages"]["bytes"]
    return found


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


def compare_times(
    what: str,
    times: Sequence[float],
    baseline: Sequence[float],
    baseline_is: str,
    target: float,
) -> Iterator[Figure]:
    """Median and 95th percentile of milliseconds; the target is of the second."""
    for name, share in SHARES.items():
        yield Figure(
            f"{what}, {name}",
            percentile(sorted(times), share),
            "ms",
            baseline=percentile(sorted(baseline), share),
            baseline_is=baseline_is,
            target=target if name == "p95" else None,
            note=f"{len(times)} times",
        )


def painting_figures(found: browser.Painting) -> list[Figure]:
    """How late words were painted, and how many never were."""
    if not found.painted or not found.read:
        raise RuntimeError("Nothing was said while the browser looked.")
    late = compare_times(
        "an event until its row is painted",
        found.painted,
        found.read,
        "a bare reader of the event log, in Python",
        PAINTED_TARGET,
    )
    return [*late, Figure("words never painted", found.lost, "", target=1.0)]


def weigh(site: Site) -> Figure:
    """What a cold visit to the Fleet page loads."""
    (sent, requests), frame = browser.weigh_page(site), measure_first_frame(site)
    return Figure(
        "a cold visit to the Fleet page, all that is sent",
        sent + frame,
        "bytes",
        target=BYTES_TARGET,
        note=f"{requests} requests, and the socket's first frame",
    )


def viewer_figures(busy: Mapping[int, float]) -> list[Figure]:
    """What viewers of the Fleet page cost the web process, of processor time a second."""
    nobody, one, many = (busy[count] for count in VIEWERS)
    further = max(0.0, many - one) / (VIEWERS[2] - VIEWERS[1])
    return [
        Figure(
            "processor time of the web process a second, one viewer",
            one,
            "ms",
            baseline=nobody,
            baseline_is="nobody looks",
        ),
        Figure(
            f"each further viewer, of {VIEWERS[2]}",
            further,
            "ms",
            baseline=max(0.0, one - nobody),
            baseline_is="what the first one adds",
            target=VIEWER_TARGET,
        ),
    ]
