"""Runs a program that gets SIGTERM when its parent dies, and yields to others.

Started by path, without site packages: ``python -I -S lifeline.py PARENT-PID NICENESS
PROGRAM ARGUMENT...``. It asks the kernel for the signal (Linux only), then becomes the program:
in a process of its own, no code has to run between fork and exec.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, niceness: int, argv: list[str]) -> None:
    """Become ``argv``, tied to the life of ``parent``."""
    yield_to_others(niceness)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the request was made
            return
    os.execv(argv[0], argv)  # noqa: S606 - the program that the parent named


def yield_to_others(niceness: int) -> None:
    """Leave the processor to processes that are less nice (0 to 19)."""
    if not niceness:
        return
    os.nice(niceness)
    # Linux may share time between sessions first, and this process leads its own.
    if os.getsid(0) == os.getpid():
        share = "/proc/self/autogroup"
        with contextlib.suppress(OSError), open(share, "w") as group:  # noqa: PTH123
            group.write(str(niceness))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
