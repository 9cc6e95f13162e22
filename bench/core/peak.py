"""Runs a Python program and writes its greatest resident size, in bytes, into a file.

``python peak.py FILE PROGRAM ARGUMENT...``; the program ``json`` reads a document and
does no more, as a baseline. The kernel's figure for an ended child counts what its
parent held when it was forked; the process's own does not.
"""

from __future__ import annotations

import atexit
import json
import re
import runpy
import sys
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def parse_peak(status: str) -> int:
    """The peak in a ``/proc/PID/status``; raises ValueError where it has none."""
    found = _PEAK.search(status)
    if found is None:
        raise ValueError("this status has no VmHWM line")
    return int(found[1]) * 1024


def _write_peak(file: Path) -> None:
    file.write_text(str(parse_peak(Path("/proc/self/status").read_text())))


if __name__ == "__main__":
    atexit.register(_write_peak, Path(sys.argv[1]))
    sys.argv = sys.argv[2:]
    if sys.argv[0] == "json":
        json.loads(Path(sys.argv[1]).read_bytes())
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")
