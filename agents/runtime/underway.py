"""The jobs of turns that this process works on, against what the queue believes.

The queue's own end of a job is written once, after the turn. Where just that write
fails the job stays with a worker that lives, and under its lock no later turn of the
Mysis is ever taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

GRACE_SECONDS = 20.0
"""Between a turn and the queue's own end of its job lies one write, also on a bad day."""


@dataclass
class Underway:
    """``workers`` are the queue's numbers for this process: one, or one after another."""

    workers: set[int] = field(default_factory=set)
    _jobs: set[int] = field(default_factory=set)
    _missing: dict[int, float] = field(default_factory=dict)

    @contextmanager
    def job(self, job_id: int, worker_id: int | None) -> Iterator[None]:
        """A job is worked on in the block."""
        if worker_id is not None:
            self.workers.add(worker_id)
        self._jobs.add(job_id)
        try:
            yield
        finally:
            self._jobs.discard(job_id)

    def forgotten(self, doing: Collection[int], now: float) -> list[int]:
        """Of what the queue gives this process, the jobs that nobody works on.

        For `GRACE_SECONDS` at least; ``now`` is in seconds of any steady clock.
        """
        missing = [job for job in doing if job not in self._jobs]
        self._missing = {job: self._missing.get(job, now) for job in missing}
        return [job for job in missing if now - self._missing[job] >= GRACE_SECONDS]


underway = Underway()
