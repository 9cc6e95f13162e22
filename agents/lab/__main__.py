"""``python -m agents.lab REPLAY JOB``: works on one kept replay, for a job of a worker.

In a process of its own, since it computes for long: turns would wait for its thread.
"""

from __future__ import annotations

import os
import sys

import django

# How far it leaves the processor to the worker's turns.
NICENESS = 10


def main() -> None:
    """Run it to its end."""
    os.nice(NICENESS)
    django.setup()
    # What needs models can be loaded only now.
    from agents.lab.kept_replays import run_replay

    run_replay(*map(int, sys.argv[1:3]))


if __name__ == "__main__":
    main()
