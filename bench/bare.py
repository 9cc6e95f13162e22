"""The baseline: the same machine, database and framework, and no fleet.

Makes an empty database, migrates it and loads Django, one after the other, as
everything that stands on them has to. What Zoea takes on top is the ratio.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.footprint import footprint
from bench.surroundings import ROOT, environment
from zoea.postgres import acquire

LOADED = "import sys, zoea.asgi; print('loaded', flush=True); sys.stdin.read()"


@dataclass(frozen=True)
class Bare:
    """``seconds`` until all was there, ``pss`` bytes of one Django and PostgreSQL."""

    seconds: float
    pss: int


def measure(data: Path) -> Bare:
    """Do it in an empty folder, and leave nothing running."""
    started = time.monotonic()
    with acquire(data) as server:
        manage = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity=0"]
        subprocess.run(manage, cwd=ROOT, env=environment(data), check=True, timeout=60)
        django = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", LOADED],
            cwd=ROOT,
            env=environment(data),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert django.stdout is not None
            if not django.stdout.readline():
                raise RuntimeError("Django could not be loaded for the baseline.")
            seconds = time.monotonic() - started
            processes = footprint([django.pid, server.pid or django.pid])
        finally:
            django.communicate(timeout=20)
    return Bare(seconds, sum(process.pss for process in processes))
