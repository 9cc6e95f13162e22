"""Replays as they are kept: asked for, queued, told, deleted.

A job of the queue works on one behind the turns (`replay_job`), one at a time in the whole
fleet. A replay whose process or worker was lost begins anew; one that is deleted ends, and
leaves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from agents import events
from agents.actions.base import ActionError
from agents.dashboard.time_axis import parse_moment
from agents.dashboard.yields import parse_span
from agents.events import Kind
from agents.lab.policies import OWN, Policy
from agents.lab.replay import select_calls, select_myses
from agents.lab.report import ReportBuilder
from agents.models import Mysis, Replay
from agents.scheduling import BEHIND_TURNS, LIVE
from memory import audit
from memory.gamestate.values import make_storable, repair_text

TASK = "agents.tasks.run_replay"
QUEUE = "replays"
MOST_CALLS = 20_000
# Finished ones; the oldest goes when one more is asked for.
MOST_KEPT = 50
MOST_UNDER_WAY = 10
# Jobs that may be lost before a replay is given up.
MOST_ATTEMPTS = 3
LOST = (
    f"{MOST_ATTEMPTS} processes in a row ended without a word: look into the worker's "
    "log, then ask for fewer calls."
)
# What of a row is told as it is.
AS_STORED = (
    *("label", "since", "until", "state", "done", "total", "error", "by"),
    *("created_at", "started_at", "finished_at"),
)
State = Replay.State
_jobs = JobManager(DjangoConnector())


@transaction.atomic
def start_replay(
    *,
    policies: Sequence[Policy],
    by: str,
    mysis: Mysis | None = None,
    label: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> Replay:
    """Ask for a replay of the calls of a Mysis, of a group or tag, or of all.

    Raises ActionError: 422 for a label that nobody has or too many calls, 409 where too
    many are under way.
    """
    now = timezone.now()
    replay = Replay(
        mysis=mysis,
        label=repair_text(label),
        since=since,
        until=min(until or now, now),
        policies=make_storable([asdict(policy) for policy in policies]),
        by=by,
    )
    _check_calls(replay)
    _make_room()
    replay.save()
    _queue(replay)
    told = {"of": replay.subject, "calls": replay.total, "policies": replay.policies}
    audit.record("replay.start", name_replay(replay), by=by, after=told)
    return replay


def _check_calls(replay: Replay) -> None:
    """Count the calls; raises ActionError 422 for a span without sense or with too much."""
    if replay.since is not None and replay.since >= replay.until:
        raise ActionError(
            "since: give a moment of the past, before until.",
            code="invalid",
            status=422,
        )
    myses = select_myses(replay.mysis_id, replay.label)
    if replay.label and not myses.exists():
        raise ActionError(
            f"label: no Mysis is in a group or has a tag {replay.label[:100]!r}.",
            code="invalid",
            status=422,
        )
    calls = select_calls(replay.since, replay.until)
    asked = calls.filter(mysis__in=myses.values("pk"))
    # Not all are counted where there are far too many.
    replay.total = asked[: MOST_CALLS + 1].count()
    if replay.total > MOST_CALLS:
        raise ActionError(
            f"since: these are more than {MOST_CALLS:,} calls, which is the most that is "
            "replayed at once: give a shorter span or fewer Myses.",
            code="too_many",
            status=422,
        )


def _make_room() -> None:
    """Delete the oldest finished ones beyond what is kept; raises ActionError 409."""
    if Replay.objects.filter(state__in=Replay.UNDER_WAY).count() >= MOST_UNDER_WAY:
        raise ActionError(
            f"{MOST_UNDER_WAY} replays are under way, which is the most: wait for one, "
            "or delete it.",
            code="too_many",
        )
    over = Replay.objects.exclude(state__in=Replay.UNDER_WAY).order_by("-pk")
    for old in over[MOST_KEPT - 1 :]:
        announce_replay(old, state="deleted")
        old.delete()


@transaction.atomic
def delete_replay(replay: Replay, *, by: str) -> None:
    """Delete a replay with all of its rows; one that is under way ends within a second.

    Raises ActionError 404 for one that is gone.
    """
    # Locked first: the process that works on it stores nothing after that.
    row = Replay.objects.select_for_update(of=("self",)).filter(pk=replay.pk).first()
    if row is None:
        raise ActionError(
            f"Replay {replay.pk} was deleted.", code="not_found", status=404
        )
    if row.state in Replay.UNDER_WAY and row.job_id is not None:
        _jobs.cancel_job_by_id(row.job_id, delete_job=True)
    told = {"of": row.subject, "state": row.state, "by": row.by}
    audit.record("replay.delete", name_replay(row), by=by, before=told)
    announce_replay(row, state="deleted")
    row.delete()


def read_moment(field: str, text: str | None) -> datetime | None:
    """When a span begins or ends: a moment, or so long ago (90m, 6h, 7d); None for no bound.

    Raises ActionError 422 that names the field.
    """
    if not text:
        return None
    length = parse_span(text)
    moment = timezone.now() - length if length else parse_moment(text)
    if moment is None:
        raise ActionError(
            f"{field}: give a moment such as 2026-11-25T05:00:00Z, or so long ago: 90m, "
            "6h or 7d, of 5m to 31d.",
            code="invalid",
            status=422,
        )
    return moment


def name_replay(replay: Replay) -> str:
    """A replay, as the audit log names it."""
    return f"replay:{replay.pk}"


def describe_replay(replay: Replay) -> dict[str, Any]:
    """A replay as JSON tells it, with the figures of each policy as far as it is."""
    found = replay.report or ReportBuilder().describe(list_names(replay))
    policies = [asdict(Policy(OWN)), *replay.policies]
    return {
        "id": replay.pk,
        "mysis": replay.mysis_id,
        **{name: getattr(replay, name) for name in AS_STORED},
        "equal": found["equal"],
        "differing": found["differing"],
        "unknown": found["unknown"],
        "policies": [
            _describe_policy(policy) | figures
            for policy, figures in zip(policies, found["policies"], strict=True)
        ],
    }


def _describe_policy(policy: dict[str, Any]) -> dict[str, Any]:
    tokens, reserve = policy["budget_tokens"], policy["budget_reserve"]
    return {
        "strategy": policy["strategy"],
        "options": policy["options"],
        "budget": None if tokens is None else {"tokens": tokens, "reserve": reserve},
    }


def list_names(replay: Replay) -> list[str]:
    """The names of its policies, that of the calls themselves first."""
    return [OWN, *(policy["name"] for policy in replay.policies)]


def _queue(replay: Replay) -> None:
    """Have a worker take it, one replay after another in the whole fleet."""
    # By its name: the app's own function would import what the task runs.
    task = configure_task(
        name=TASK,
        job_manager=_jobs,
        queue=QUEUE,
        lock=QUEUE,
        priority=BEHIND_TURNS,
    )
    replay.job_id = task.defer(replay_id=replay.pk)
    replay.state, replay.done = State.QUEUED, 0
    replay.attempts += 1
    replay.save(update_fields=["job_id", "state", "done", "attempts"])
    announce_replay(replay)


def announce_replay(replay: Replay, **more: Any) -> None:
    """Append the event that says how far a replay is."""
    data = {
        "replay": replay.pk,
        "state": replay.state,
        "done": replay.done,
        "total": replay.total,
        **({"error": replay.error} if replay.error else {}),
    }
    events.append(Kind.REPLAY_CHANGED, mysis_id=replay.mysis_id, data={**data, **more})


# --- Replays that were lost


def resume_lost() -> int:
    """Queue replays anew that no job works on any more; returns how many."""
    live = ProcrastinateJob.objects.filter(pk=OuterRef("job_id"), status__in=LIVE)
    lost = Replay.objects.filter(~Exists(live), state__in=Replay.UNDER_WAY)
    return sum(_resume(pk) for pk in lost.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _resume(replay_id: int) -> bool:
    rows = Replay.objects.select_for_update(of=("self",), skip_locked=True)
    replay = rows.filter(pk=replay_id, state__in=Replay.UNDER_WAY).first()
    if replay is None:
        return False
    jobs = ProcrastinateJob.objects.filter(pk=replay.job_id, status__in=LIVE)
    if jobs.exists():
        return False
    if replay.attempts >= MOST_ATTEMPTS:
        end_replay(replay, State.FAILED, error=LOST)
    else:
        _queue(replay)
    return True


def end_replay(replay: Replay, state: str, *, error: str = "") -> None:
    """End a locked replay; one that failed keeps no rows."""
    replay.state, replay.error = state, error
    replay.finished_at = timezone.now()
    if state == State.FAILED:
        replay.calls.all().delete()
    replay.save()
    announce_replay(replay)
