"""What a process of the program holds of the machine's memory: little that is not in use.

Without this a worker that 200 Myses keep busy grows for hours, by cyclic garbage that is
looked for too seldom and by the places that it left.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

# A view of 2,000 messages is about 40,000 objects that live until it is sent. Under
# Python's own thresholds the search for cycles takes a third of the time of a view.
_YOUNG, _MIDDLE = 50_000, 20
# Of the whole process, after five million objects more: a busy worker every other minute.
_OLD = 5
# Each thread may have an arena of its own, of which it gives nothing back to others.
_ARENAS = 2
_M_ARENA_MAX = -8

_refused = threading.Event()

_LIBC = ctypes.CDLL(None)
# Only glibc has them.
_TRIM = getattr(_LIBC, "malloc_trim", None)
_SET_OPTION = getattr(_LIBC, "mallopt", None)


def set_limits() -> None:
    """Keep few arenas, and search for cyclic garbage less often than Python by itself.

    Call it before the first thread starts.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    if _SET_OPTION is not None and "MALLOC_ARENA_MAX" not in os.environ:
        _SET_OPTION(_M_ARENA_MAX, _ARENAS)


def freeze_loaded() -> None:
    """Exclude all that is loaded by now from garbage collection.

    Call it where a program that runs for long begins its work.
    """
    gc.collect()
    gc.freeze()


def end_where_no_thread_begins() -> None:
    """End this process, as if it were killed, where memory is too short for a new thread.

    Python waits for such a thread for ever, with every lock that its starter holds: a
    worker would send heartbeats and take no step of a turn.
    """
    report = sys.unraisablehook

    def end(unraisable: UnraisableHookArgs) -> None:
        try:
            report(unraisable)
        finally:
            words = unraisable.err_msg or ""
            if unraisable.exc_type is MemoryError and "thread started by" in words:
                os._exit(1)

    sys.unraisablehook = end


def note_refusal(error: BaseException | None) -> None:
    """Remember it where an error came of memory that the system refused."""
    while error is not None:
        if isinstance(error, MemoryError):
            _refused.set()
        for one in getattr(error, "exceptions", ()):
            note_refusal(one)
        error = error.__cause__ or error.__context__


def was_refused() -> bool:
    """Whether the system refused memory to work of this process.

    What Python left half done then may stay broken: later work may fail for no reason.
    """
    return _refused.is_set()


def trim() -> None:
    """Return freed memory to the system.

    glibc keeps freed texts for their thread: after three bodies of 60 MiB 180 MiB stay
    without the trim, 40 with it.
    """
    if _TRIM is not None:
        _TRIM(0)
