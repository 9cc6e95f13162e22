"""Run a Python program and write its greatest resident size into a file.

``python peak.py FILE PROGRAM ARGUMENT...``. The kernel's figure for an ended child
counts what its parent held when it was forked; the process's own does not.
"""

from __future__ import annotations

import atexit
import re
import runpy
import sys
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def peak_of(status: str) -> int:
    """The peak in bytes that a ``/proc/PID/status`` tells."""
    found = _PEAK.search(status)
    if found is None:
        raise ValueError("this status has no VmHWM line")
    return int(found[1]) * 1024


def _write(file: Path) -> None:
    file.write_text(str(peak_of(Path("/proc/self/status").read_text())))


if __name__ == "__main__":
    atexit.register(_write, Path(sys.argv[1]))
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
