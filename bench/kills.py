"""How soon the turn of a killed worker is taken up, in ``make bench ARGS=turns``.

Every turn hangs in a model that never answers, and the worker is killed in the middle of
it. It runs in a process of its own; see ``bench.processes``.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from django.utils import timezone

from agents import actions
from agents.models import Mysis, Provider, Turn
from agents.runtime.recovery import STALLED_SECONDS
from bench.figures import Figure, Step
from bench.processes import migrated_database, run_game, run_worker

KILLS = 20
TARGET = 6.0
TICK = 10.0
CONCURRENCY = 16
#: A spare worker has loaded by then; and the death comes at any moment between two looks.
READY_SECONDS, LATER_SECONDS = 6.0, 0.4

ANOTHER, SUCCESSOR = "another worker", "its successor"


def measure(step: Step) -> list[Figure]:
    """Both figures: with another worker that runs already, and without."""
    found = {}
    with migrated_database(step), run_game(TICK):
        for who in (ANOTHER, SUCCESSOR):
            step(f"Killing workers whose turn {who} takes up")
            found[who] = time_takeovers(KILLS, spare=who == ANOTHER)
    return takeover_figures(found)


def time_takeovers(kills: int, *, spare: bool) -> list[float]:
    """The sorted seconds from the death of a worker to the begin of the next turn.

    Without a spare worker a successor is started at once, as ``up`` does.
    """
    found = []
    with socket.create_server(("127.0.0.1", 0)) as deaf, ExitStack() as stack:
        mysis = _start_unanswered(deaf.getsockname()[1])
        worker = stack.enter_context(run_worker(CONCURRENCY))
        turn = _await_call(0)
        for number in range(kills):
            if spare:
                heir = stack.enter_context(run_worker(CONCURRENCY))
                time.sleep(READY_SECONDS + number % 5 * LATER_SECONDS)
            # So many in a row would be the fault of the turn.
            Mysis.objects.update(lost_turns=0)
            worker.kill()
            died = timezone.now()
            worker = heir if spare else stack.enter_context(run_worker(CONCURRENCY))
            turn = _await_call(turn.pk)
            found.append((turn.started_at - died).total_seconds())
        actions.delete_mysis(mysis=mysis, by="bench")
    return sorted(found)


def _start_unanswered(port: int) -> Mysis:
    url = f"http://127.0.0.1:{port}/v1"
    Provider.objects.update_or_create(
        name="deaf", defaults={"kind": "openai", "base_url": url, "window": 100_000}
    )
    mysis = actions.create_mysis(name="Unanswered", model="deaf:x", by="bench")
    return actions.start_mysis(mysis=mysis, by="bench")


def _await_call(former: int) -> Turn:
    """The next turn, once it waits for its model."""
    while True:
        turn = Turn.objects.filter(pk__gt=former, calls__isnull=False).first()
        if turn is not None:
            return turn
        time.sleep(0.05)


def takeover_figures(found: Mapping[str, Sequence[float]]) -> list[Figure]:
    """The figures of sorted times, by who takes up."""
    return [
        Figure(
            f"a killed worker's turn, until {who} takes it up (most of {len(times)})",
            times[-1],
            "s",
            baseline=STALLED_SECONDS,
            baseline_is="how long a missing heartbeat is waited for",
            target=TARGET,
            note=f"median {statistics.median(times):.1f} s",
        )
        for who, times in found.items()
    ]
