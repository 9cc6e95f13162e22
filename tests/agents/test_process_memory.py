"""What a process holds of the machine's memory, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from agents.management.commands.procrastinate import NO_MEMORY, RUN_BEFORE_END
from tests.commands import ROOT
from zoea.supervise.children import BackOff

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


# Memory may run out in the first steps of a thread, before it says that it has begun.
NO_THREAD = """
import threading
from agents import process_memory
process_memory.end_where_no_thread_begins()
class Thread(threading.Thread):
    def _bootstrap_inner(self):
        raise MemoryError
Thread().start()
"""


def test_a_process_ends_where_a_thread_cannot_begin():
    done = _run(NO_THREAD, check=False)
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


# Its loop is stopped as the queue's is: by the first signal only.
REFUSED = """
import asyncio, errno, logging, signal
from agents.process_memory import refusals
import psycopg
from pydantic_ai.exceptions import ModelHTTPError
class OwnCauseError(Exception):
    def __init__(self):
        self.__cause__ = self
class WordlessError(psycopg.Error):
    def __str__(self):
        raise ValueError
async def work():
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    refusals.end_process(float(sys.argv[1]))
    try:
        raise {error}
    except Exception:
        logging.getLogger("of.a.library").exception("It failed.")
    print(refusals.noted, ended.is_set(), flush=True)
    if refusals.noted:
        await ended.wait()
        loop.remove_signal_handler(signal.SIGTERM)
        print("ends", flush=True)
        if sys.argv[2:]:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            signal.pause()
asyncio.run(work())
"""


@pytest.mark.parametrize(
    ("error", "noted"),
    [
        ("MemoryError", True),
        ("ExceptionGroup('', [ValueError(), MemoryError()])", True),
        ("KeyError from MemoryError()", True),
        ("SystemError('error return without exception set')", True),
        ('RuntimeError("can\'t start new thread")', True),
        ("OSError(errno.ENOMEM, 'no')", True),
        ("OSError(errno.ENOSPC, 'no')", False),
        ("psycopg.DatabaseError('out of memory for query result')", True),
        ("psycopg.errors.OutOfMemory('out of memory')", False),
        ("psycopg.OperationalError('connection failed: FATAL: out of memory')", False),
        ("ModelHTTPError(500, 'm', body=\"can't start new thread\")", False),
        ("OwnCauseError()", False),
        ("TypeError('takes 0 positional arguments')", False),
        ("WordlessError", False),
    ],
)
def test_a_process_that_was_refused_memory_ends_in_order(error: str, noted: bool):
    done = _run(REFUSED.replace("{error}", error), words=["0.3"])
    assert done.stdout.split("\n")[0] == f"{noted} False"
    assert ("ends" in done.stdout) == noted


def test_a_process_that_hangs_in_its_end_is_ended():
    done = _run(
        REFUSED.replace("{error}", "MemoryError"), check=False, words=["0", "hang"]
    )
    assert "ends" in done.stdout
    assert done.returncode == -signal.SIGTERM


# Its own end has begun by the time the alarm comes.
ENDING = """
import logging, signal, time
from agents.process_memory import refusals
refusals.end_process(0, float(sys.argv[1]))
logging.getLogger("of.a.library").warning("It failed: %s", MemoryError())
time.sleep(2)
print(refusals.noted, signal.getitimer(signal.ITIMER_REAL)[1])
"""


def test_a_process_that_ends_already_has_its_time_first():
    done = _run(ENDING, words=["50"])
    assert done.stdout.split() == ["True", "60.0"]


LOOP_FAILS = """
import asyncio
from django.core.management import CommandError, call_command
from agents.management.commands import procrastinate
async def open_async(self, pool=None):
    raise {error}
async def end_threads(self, *_):
    if {begins_none}:
        raise RuntimeError("can't start new thread")
procrastinate._enter_fence = lambda: None
procrastinate.PunctualConnector.open_async = open_async
asyncio.BaseEventLoop.shutdown_default_executor = end_threads
try:
    call_command("procrastinate", "worker")
except CommandError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("error", "begins_none", "said"),
    [
        ("MemoryError", False, NO_MEMORY),
        # To end its threads asyncio begins one more.
        ("ValueError('odd')", True, NO_MEMORY),
        ("ValueError('odd')", False, ""),
    ],
)
def test_a_worker_whose_own_loop_fails_for_want_of_memory_says_what_to_do(
    error: str, begins_none: bool, said: str
):
    text = LOOP_FAILS.replace("{error}", error)
    text = text.replace("{begins_none}", str(begins_none))
    done = _run(text, check=False, SPACEMOLT_MCP_URL="http://127.0.0.1:9/mcp")
    assert done.stdout.strip() == said, done.stderr
    assert bool(done.returncode) == (not said)


def test_a_worker_ends_later_than_a_start_that_failed():
    assert BackOff().quick < RUN_BEFORE_END
