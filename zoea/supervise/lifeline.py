"""Runs a program that gets SIGTERM when its parent dies.

Started by path, without site packages: ``python -I -S lifeline.py PARENT-PID PROGRAM
ARGUMENT...``. It asks the kernel for the signal (Linux only), then becomes the program:
in a process of its own, no code has to run between fork and exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, argv: list[str]) -> None:
    """Become ``argv``, tied to the life of ``parent``."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the request was made
            return
    os.execv(argv[0], argv)  # noqa: S606 - the program that the parent named


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
