"""A database of very many memories beside a small one: search, pages, turns, prune, start.

Both are made once and kept; each run works on a copy, which is removed after it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from bench.figures import Step, describe_times
from bench.fleet import run_fleet
from bench.load.corpus import Size
from bench.processes import PYTHON, ROOT, clean_environment, run_function
from bench.visitor import sign_in
from zoea.postgres import acquire

KEPT = ROOT / ".zoea"
VERSION = 2
#: The memories of the small database, which is the baseline.
SMALL = 20_000
#: On the disk with its indexes, turns, calls and events; measured, and rounded up.
MEMORY_BYTES = 5_000
SPARE_BYTES = 5_000_000_000
STARTS = 3
PRUNE_SECONDS = 3_600.0
_REMOVED = re.compile(r"^(.+): (\d+) removed$")
OLDEST = "SELECT min(created_at) FROM memory_memory"


def find_folder(size: Size) -> Path:
    return KEPT / f"soak-{VERSION}-{size.rows}-{size.myses}"


def measure(rows: int, myses: int, step: Step) -> dict[str, Any]:
    """All figures of both sizes, as JSON; see ``run``."""
    large = fit_rows(Size(rows, myses), free_bytes(KEPT))
    sizes = {"small": Size(min(SMALL, large.rows), myses), "large": large}
    found = {name: measure_size(size, step) for name, size in sizes.items()}
    return {"asked": rows, "sizes": found}


def free_bytes(folder: Path) -> int:
    """What the disk has left; the folder is made where it is missing."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return shutil.disk_usage(folder).free


def fit_rows(size: Size, free: int) -> Size:
    """As many rows as the disk holds twice: those that are kept, and the copy."""
    copies = 1 if find_folder(size).exists() else 2
    most = max(0, free - SPARE_BYTES) // (copies * MEMORY_BYTES)
    if most >= size.rows:
        return size
    thousands = most // 1_000 * 1_000
    if thousands < SMALL:
        raise RuntimeError(f"The disk has no room for {SMALL:,} memories in {KEPT}.")
    return Size(thousands, size.myses)


def measure_size(size: Size, step: Step) -> dict[str, Any]:
    """Milliseconds by what was done, in a copy of the database of this size."""
    ensure_database(size, step)

    def say(what: str) -> None:
        step(f"{what}: {size.rows:,} memories")

    with copy_database(size, say) as data:
        inside = run_function("bench.load.corpus:measure_searches", data, say)
        times, mysis = inside["times"], inside["mysis"]
        times |= measure_up(data, mysis, say)
        times["turn beside model and game"] = run_function(
            "bench.load.corpus:measure_turns", data, say, str(mysis)
        )
        say("Pruning a day")
        pruned = prune_a_day(data)
    return asdict(size) | {"times": times, "bytes": inside["bytes"], "prune": pruned}


def ensure_database(size: Size, step: Step) -> None:
    """Make the database unless it is there; one that was not finished is removed."""
    folder = find_folder(size)
    if folder.exists():
        return
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        run_function(
            "bench.load.corpus:make_database",
            unfinished,
            step,
            str(size.rows),
            str(size.myses),
        )
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def copy_database(size: Size, step: Step) -> Iterator[Path]:
    """A copy of the kept database, removed after the block."""
    with tempfile.TemporaryDirectory(
        prefix="soak-copy-", dir=KEPT, ignore_cleanup_errors=True
    ) as folder:
        step("Copying the database")
        data = Path(folder) / "data"
        # It keeps owners: as root the server runs as a user of its own.
        subprocess.run(["cp", "-a", str(find_folder(size)), str(data)], check=True)
        yield data


def measure_up(data: Path, mysis: int, step: Step) -> dict[str, dict[str, float]]:
    """How long ``manage.py up`` takes until its pages answer, and the pages then."""
    starts: list[float] = []
    pages: dict[str, list[float]] = {}
    paths = {
        "Fleet page": "/",
        "Mysis page": f"/myses/{mysis}/",
        "Context page": f"/myses/{mysis}/context/",
    }
    for number in range(STARTS):
        step(f"Starting, {number + 1} of {STARTS}")
        with run_fleet(data) as fleet:
            begun = time.monotonic()
            link = fleet.start_up("--no-demo")
            starts.append((time.monotonic() - begun) * 1000)
            if number == STARTS - 1:
                step("Opening pages")
                site = sign_in(link)
                found = site.time_answers(*paths.values())
                pages = {name: found[path][1:] for name, path in paths.items()}
    return {
        name: describe_times(each)
        for name, each in {"start of up": starts, **pages}.items()
    }


def prune_a_day(data: Path) -> dict[str, Any]:
    """Remove the oldest day; how long it took, and what the command said."""
    with acquire(data) as server:
        with psycopg.connect(server.conninfo()) as database:
            row = database.execute(OLDEST).fetchone()
        assert row is not None
        kept = max(0, (datetime.now(UTC) - row[0]).days - 1)
        begun = time.monotonic()
        done = subprocess.run(
            [*PYTHON, "manage.py", "prune", f"--keep-days={kept}"],
            cwd=ROOT,
            env=clean_environment(data),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            text=True,
            timeout=PRUNE_SECONDS,
        )
        seconds = time.monotonic() - begun
    return {"seconds": seconds, "removed": read_removed(done.stdout)}


def read_removed(said: str) -> dict[str, int]:
    """How many rows of each kind the command says it removed."""
    found = (_REMOVED.match(line) for line in said.splitlines())
    return {each[1]: int(each[2]) for each in found if each}
