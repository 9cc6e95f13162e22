"""``python -m agents.lab REPLAY JOB``: works on one kept replay, for a job of a worker.

In a process of its own, since it computes for long: turns would wait for its thread.
Without arguments it replays what standard input asks for (see ``agents.lab.two_processes``).
"""

from __future__ import annotations

import os
import sys

import django

# How far it leaves the processor to the worker's turns.
NICENESS = 10


def main() -> None:
    """Run it to its end."""
    given = sys.argv[1:3]
    if given:
        os.nice(NICENESS)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zoea.settings")
    django.setup()
    # What needs models can be loaded only now.
    from agents.lab import replay_job, two_processes

    if given:
        replay_job.run_replay(*map(int, given))
    else:
        two_processes.answer_question()


if __name__ == "__main__":
    main()
