"""What a process of the program holds of the machine's memory: little that is not in use.

Without this a worker that 200 Myses keep busy grows for hours, by cyclic garbage that is
looked for too seldom and by the places that it left.
"""

from __future__ import annotations

import ctypes
import gc
import os

# A view of 2,000 messages is about 40,000 objects that live until it is sent. Under
# Python's own thresholds the search for cycles takes a third of the time of a view.
_YOUNG, _MIDDLE = 50_000, 20
# Of the whole process, after five million objects more: a busy worker every other minute.
_OLD = 5
# Each thread may have an arena of its own, of which it gives nothing back to others.
_ARENAS = 2
_M_ARENA_MAX = -8

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


def collect_large() -> None:
    """Collect garbage where some 50,000 objects came since it was last looked for.

    An answer's objects refer to each other, and live until a whole search, which Python
    puts off: 30 readers of 20,000 messages took 180 MB that way.
    """
    if any(gc.get_count()[1:]):
        gc.collect()


def trim() -> None:
    """Return freed memory to the system.

    glibc keeps freed texts for their thread: after three bodies of 60 MiB 180 MiB stay
    without the trim, 40 with it.
    """
    if _TRIM is not None:
        _TRIM(0)
