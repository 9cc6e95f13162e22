"""What a process holds of the machine's memory, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.commands import ROOT

LOAD = """
import os, sys, django
os.environ["DJANGO_SETTINGS_MODULE"] = "zoea.settings"
django.setup()
"""
# Each thread holds what Python leaves to malloc, until all of them do.
THREADS = """
import ctypes, threading
held, barrier = [], threading.Barrier(8)
def work():
    held.append([bytes(5_000) for _ in range(100)])
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def _run(
    text: str, *, check: bool = True, words: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k != "MALLOC_ARENA_MAX"}
    return subprocess.run(
        [sys.executable, "-c", LOAD + text, *words],
        capture_output=True,
        text=True,
        check=check,
        timeout=60,
        cwd=ROOT,
        env=kept | more,
    )


def test_threads_share_two_arenas_unless_the_environment_says_otherwise():
    assert _run(THREADS).stderr.count("Arena ") == 2
    assert _run(THREADS, MALLOC_ARENA_MAX="4").stderr.count("Arena ") == 4


def test_what_the_web_server_loads_is_searched_once():
    text = """
import gc, zoea.asgi
print(gc.get_freeze_count(), len(gc.get_objects()))
"""
    frozen, searched = map(int, _run(text).stdout.split())
    assert frozen > 100_000 > searched
