"""The job of a kept replay, in a process of its own.

Once a second it stores what it has and says how far it is.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from django.conf import settings
from django.db import OperationalError, transaction
from django.utils import timezone

from agents.lab.kept_replays import announce_replay, end_replay, list_names
from agents.lab.policies import Policy
from agents.lab.replay import ReplayedCall
from agents.lab.report import ReportBuilder
from agents.lab.two_processes import (
    ReplayQuestion,
    SecondProcessError,
    replay_question,
)
from agents.models import Replay, ReplayCall

FAILED = "It failed, and the worker's log says why: ask for other calls or policies."
# Seconds between two steps of progress, and the most calls that one stores.
PULSE = 1.0
BATCH = 500
State = Replay.State
logger = logging.getLogger(__name__)


async def run_apart(replay_id: int, job_id: int) -> None:
    """`run_replay` in a process of its own, which ends where this is cancelled."""
    words = [sys.executable, "-m", "agents.lab", str(replay_id), str(job_id)]
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, cwd=settings.BASE_DIR
    )
    try:
        await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise


def run_replay(replay_id: int, job_id: int) -> None:
    """Replay the calls of a kept replay, unless it was deleted or has another job."""
    replay = _claim(replay_id, job_id)
    if replay is None:
        return
    try:
        _Run(replay).run()
    except (OperationalError, SecondProcessError):
        # The database is away, or half of the work was lost: another job takes it up.
        raise
    except Exception:
        logger.exception("Replay %s failed.", replay_id)
        with transaction.atomic():
            row = _lock(replay)
            if row is not None:
                end_replay(row, State.FAILED, error=FAILED)


@transaction.atomic
def _claim(replay_id: int, job_id: int) -> Replay | None:
    rows = Replay.objects.select_for_update(of=("self",))
    replay = rows.filter(
        pk=replay_id, job_id=job_id, state__in=Replay.UNDER_WAY
    ).first()
    if replay is None:
        return None
    # What a lost process of it has stored.
    replay.calls.all().delete()
    replay.state, replay.done = State.RUNNING, 0
    replay.started_at = timezone.now()
    replay.save()
    announce_replay(replay)
    return replay


def _lock(replay: Replay) -> Replay | None:
    """The row, if this job still has to work on it."""
    rows = Replay.objects.select_for_update(of=("self",))
    return rows.filter(pk=replay.pk, job_id=replay.job_id, state=State.RUNNING).first()


class _Run:
    """One run over the calls of a replay."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.report = ReportBuilder()
        self.waiting: list[ReplayCall] = []
        self.due = time.monotonic() + PULSE

    def run(self) -> None:
        for call in read_calls(self.replay):
            self.report.add(call.figures, call.differs, call.unknown)
            row = build_row(call, self.report.calls)
            row.replay = self.replay
            self.waiting.append(row)
            late = time.monotonic() >= self.due
            if (late or len(self.waiting) >= BATCH) and not self._store():
                return
        self._store(done=True)

    @transaction.atomic
    def _store(self, *, done: bool = False) -> bool:
        """Store what is there and say so; False where nobody wants it any more."""
        row = _lock(self.replay)
        if row is None:
            return False
        if done:
            self.report.note_missing(row.total)
        ReplayCall.objects.bulk_create(self.waiting)
        self.waiting = []
        self.due = time.monotonic() + PULSE
        row.done = self.report.calls
        row.report = self.report.describe(list_names(row))
        if done:
            row.total = row.done
            end_replay(row, State.DONE)
        else:
            row.save(update_fields=["done", "report"])
            announce_replay(row)
        return True


def build_row(call: ReplayedCall, place: int) -> ReplayCall:
    """A call as it is stored, or written into a file."""
    sent, turn = call.sent, call.sent.call.turn
    return ReplayCall(
        place=place,
        call_id=sent.call_id,
        mysis_id=sent.mysis_id,
        turn_id=turn.pk,
        turn_number=turn.number,
        call_number=sent.call.number,
        at=sent.created_at,
        figures={name: asdict(one) for name, one in call.figures.items()},
        differs=call.differs,
    )


def read_calls(replay: Replay) -> Iterator[ReplayedCall]:
    """The calls that a replay asks for, each under its policies."""
    question = ReplayQuestion(
        replay.mysis_id,
        replay.label,
        replay.since,
        replay.until,
        [Policy(**policy) for policy in replay.policies],
    )
    return replay_question(question, replay.total)
