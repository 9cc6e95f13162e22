"""``make bench``: what a fleet costs, as shares of what it may cost.

Starts the demo fleet as ``make up`` does, on a new data folder, and prints how
long the first finished turn took, the memory of all processes (each shared page
counted once) and the weight of the fleet page on the wire.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path

import psutil
import psycopg

from tests.zoea.running import LINK, Up, eventually, rows

FIRST_TURN_SECONDS = 20.0
PAGE_BYTES = 300_000
FINISHED = "SELECT count(*) FROM agents_turn WHERE outcome = 'done'"


def main() -> int:
    """Measure and print; status 1 where something is over its bound."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--myses", type=int, default=6, help="size of the fleet")
    myses = parser.parse_args().myses
    with tempfile.TemporaryDirectory(prefix="zoea-bench-") as folder:
        up = Up(Path(folder) / "data", "--port=0", f"--myses={myses}")
        try:
            return _measure(up, myses)
        finally:
            up.end()


def _measure(up: Up, myses: int) -> int:
    began = time.monotonic()
    url, path = up.wait_for(LINK.pattern).groups()
    answered = time.monotonic() - began
    first = _time(lambda: _finished(up.data) >= 1, began)
    _time(lambda: _finished(up.data) >= 3 * myses, began)
    memory = _memory(up)
    page = _page_bytes(url, path)
    _print(f"the dashboard answers after {answered:.1f} s")
    for what, share, of in (
        ("first finished turn", first / FIRST_TURN_SECONDS, f"{first:.1f} s of 20 s"),
        ("page / compressed", page / PAGE_BYTES, f"{page / 1000:.0f} of 300 KB"),
    ):
        _print(f"{what:<20} {share:6.2f}  ({of})")
    total = sum(memory.values())
    parts = ", ".join(f"{name} {mib:.0f}" for name, mib in sorted(memory.items()))
    _print(f"memory of {myses} Myses    {total:.0f} MiB PSS ({parts})")
    return int(first > FIRST_TURN_SECONDS or page > PAGE_BYTES)


def _time(holds: Callable[[], bool], began: float) -> float:
    if not eventually(holds):
        raise SystemExit("make bench: the fleet takes no turns; see manage.py up")
    return time.monotonic() - began


def _finished(data: Path) -> int:
    try:
        ((count,),) = rows(data, FINISHED)
    except psycopg.Error:
        return 0
    return int(str(count))


def _memory(up: Up) -> dict[str, float]:
    """Return the proportional memory of each program, in MiB."""
    programs = {"up": psutil.Process(up.process.pid), **up.family()}
    found = {}
    for name, program in programs.items():
        family = [program]
        if name != "up":
            family += program.children(recursive=True)
        found[name] = sum(_pss(process) for process in family) / 2**20
    return found


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0


def _page_bytes(url: str, path: str) -> int:
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar())
    )
    opener.open(url + path, timeout=30).close()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{url}/", headers={"Accept-Encoding": "gzip"}
    )
    with opener.open(request, timeout=30) as answer:
        return len(answer.read())


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
