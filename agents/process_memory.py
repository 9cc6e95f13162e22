"""What a process of the program holds of the machine's memory: little that is not in use.

Without this a worker that 200 Myses keep busy grows for hours, by cyclic garbage that is
looked for too seldom and by the places that it left.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import psycopg

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

# Seconds after which a process that was to end in order hangs.
_HANGING = 10.0

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


class Refusals(logging.Handler):
    """Knows whether the system refused memory to this process.

    What Python left half done then may stay broken: later work may fail for no reason.
    As a handler of logs it sees all errors that are logged, but those that are no more
    than a part of a text.
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted = False
        self._patience = _HANGING
        self._end_at: float | None = None
        self._asked = False

    def emit(self, record: logging.LogRecord) -> None:
        """Look at the errors that are logged: with their traceback, or as values."""
        values = record.args if isinstance(record.args, tuple) else ()
        try:
            for each in (record.exc_info and record.exc_info[1], record.msg, *values):
                if isinstance(each, BaseException):
                    self.note(each)
        except Exception:
            # Who logs is not to fail, as with every handler.
            self.handleError(record)

    def end_process(self, earliest: float, grace: float = 0.0) -> None:
        """Have this process end after a refusal, but not for so many seconds from now.

        It gets SIGTERM, and once more later, should it hang: ``grace`` are the seconds
        that it gives its work at its end. Call it in the main thread, in place of any
        other use of SIGALRM.
        """
        signal.signal(signal.SIGALRM, self._ask)
        self._patience = grace + _HANGING
        self._end_at = time.monotonic() + earliest
        logging.getLogger().addHandler(self)

    def note(self, error: BaseException | None) -> None:
        """Remember it where an error came of memory that the system refused."""
        waiting, seen = [error], set[int]()
        while waiting and not self.noted:
            one = waiting.pop()
            # An error may be its own cause.
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            if _tells_of_refusal(one):
                self.noted = True
                self._set_alarm()
            if isinstance(one, BaseExceptionGroup):
                waiting += one.exceptions
            waiting += [one.__cause__, one.__context__]

    def _ask(self, *_: object) -> None:
        # One that ends already, and listens to no signal any more, has its time first.
        is_ending = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._asked or not is_ending:
            os.kill(os.getpid(), signal.SIGTERM)
        self._asked = True

    def _set_alarm(self) -> None:
        if self._end_at is not None:
            # The kernel's clock: neither a thread nor the event loop has to be in order.
            wait = max(self._end_at - time.monotonic(), 0.1)
            signal.setitimer(signal.ITIMER_REAL, wait, self._patience)


def _tells_of_refusal(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # Other kinds quote what strangers wrote, as a provider's answer.
    if type(error) is RuntimeError:
        return str(error) == "can't start new thread"
    # Of the client's library; an error of the server has its state, or ended a connect.
    if isinstance(error, psycopg.Error):
        is_ours = not error.sqlstate and "FATAL" not in str(error)
        return is_ours and "out of memory" in str(error)
    return isinstance(error, MemoryError | SystemError)


refusals = Refusals()


def trim() -> None:
    """Return freed memory to the system.

    glibc keeps freed texts for their thread: after three bodies of 60 MiB 180 MiB stay
    without the trim, 40 with it.
    """
    if _TRIM is not None:
        _TRIM(0)
