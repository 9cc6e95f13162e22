"""Myses that make no call because a budget has no room for one.

They run on: at 00:00 UTC, or when a budget is raised, their next turn comes by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from agents import budgets, events, scheduling
from agents.actions import memory_line
from agents.actions.base import state_event
from agents.events import Kind
from agents.models import Account, Mysis, Turn
from agents.tools.snapshot import doubt
from memory.gamestate.values import clean_text
from memory.models import ContextPolicy, Memory

ACTIVITY = "held by a budget"


def pause_for_budget(mysis: Mysis, reason: str) -> None:
    """Let a locked, running Mysis wait for its budget; the event comes once."""
    first = not mysis.hold
    mysis.hold = reason
    mysis.activity = ACTIVITY
    # What failed before was the provider or the game; it may be well again by then.
    mysis.failures = 0
    mysis.save(update_fields=["hold", "activity", "failures"])
    scheduling.schedule(mysis, trigger="budget", at=budgets.next_look(mysis.pk))
    if first:
        data = {"code": "budget", "detail": reason}
        events.append(Kind.ERROR, mysis_id=mysis.pk, data=data)
        state_event(mysis, "runtime")


def resume_from_budget(mysis: Mysis) -> None:
    """A call is let through again: say so, if there was a hold."""
    if mysis.hold:
        mysis.hold = ""
        mysis.save(update_fields=["hold"])
        state_event(mysis, "runtime")


# SECTION The database side of a turn: each step one transaction, each under the row lock.
#
# A turn belongs to one epoch of its Mysis. After a stop the epoch is another, and
# every step that would go on raises :class:`VoidedError`; what has already
# happened in the game is recorded all the same.

INTERRUPTED = "Error: interrupted: outcome unknown. Check the state before repeating."

_ROW = """
SELECT mysis.*, account.username AS account_name, policy.name AS policy_name,
  policy.strategy AS policy_strategy, policy.options AS policy_options,
  policy.budget_tokens AS policy_tokens, policy.budget_reserve AS policy_reserve
FROM agents_mysis AS mysis
LEFT JOIN agents_account AS account ON account.id = mysis.account_id
LEFT JOIN memory_contextpolicy AS policy ON policy.id = mysis.policy_id
WHERE mysis.id = %s
"""
LOCKED = "FOR UPDATE OF mysis"
ROW = _ROW + LOCKED
GOING_ON = f"""{_ROW} AND mysis.epoch = %s AND mysis.state = 'running'
AND EXISTS (SELECT FROM agents_turn WHERE id = %s AND outcome IS NULL)
"""
OPEN_TURNS = "SELECT * FROM agents_turn WHERE mysis_id = %s AND outcome IS NULL"
OPEN_CALLS = "SELECT * FROM memory_memory WHERE mysis_id = %s AND pending ORDER BY id"
START = """
INSERT INTO agents_turn (
  mysis_id, number, epoch, job_id, trigger, iterations, input_tokens, output_tokens,
  cached_tokens, cost, latency_ms, error, started_at
) VALUES (%s, %s, %s, %s, %s, 0, 0, 0, 0, 0, 0, '', %s) RETURNING id
"""


class TurnSuperseded(Exception):
    """The Mysis was stopped, started anew or deleted: this turn must end."""


@dataclass(frozen=True, slots=True)
class TurnHandle:
    """A turn that has begun."""

    turn_id: int
    mysis_id: int
    epoch: int
    number: int
    trigger: str
    model: str
    model_settings: dict[str, Any]
    max_iterations: int


@transaction.atomic
def begin(mysis_id: int, *, job_id: int, trigger: str) -> TurnHandle | None:
    """Begin a turn; None where the job is void, or the Mysis rests or is held."""
    mysis = locked(mysis_id)
    if mysis is None or mysis.next_job != job_id:
        return None
    if mysis.state != Mysis.State.RUNNING:
        return None
    close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
    reason = budgets.refusal(mysis)
    if reason:
        # No turn for every message that comes while it is held.
        pause_for_budget(mysis, reason)
        return None
    mysis.turn_count += 1
    mysis.next_job = None
    mysis.wake_at = None
    mysis.activity = "thinking"
    mysis.save(update_fields=["turn_count", "next_job", "wake_at", "activity"])
    turn_id = _started(mysis, job_id, trigger)
    line = {"turn": turn_id, "number": mysis.turn_count, "trigger": trigger}
    events.append(Kind.TURN_STARTED, mysis_id=mysis.pk, data=line)
    return TurnHandle(
        turn_id=turn_id,
        mysis_id=mysis.pk,
        epoch=mysis.epoch,
        number=mysis.turn_count,
        trigger=trigger,
        model=mysis.model,
        model_settings=mysis.model_settings,
        max_iterations=mysis.max_iterations,
    )


def _started(mysis: Mysis, job_id: int, trigger: str) -> int:
    """The id of the Mysis's new turn."""
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(
            START,
            [mysis.pk, mysis.turn_count, mysis.epoch, job_id, trigger, now],
        )
        (turn_id,) = cursor.fetchone()
    return int(turn_id)


@transaction.atomic
def doing(begun: TurnHandle, words: str) -> None:
    """Say what the Mysis does now; raises VoidedError when it may not go on."""
    activity(current(begun), words)


def locked(mysis_id: int) -> Mysis | None:
    """The row of a Mysis, locked until the transaction ends."""
    for mysis in Mysis.objects.raw(ROW, [mysis_id]):
        return _joined(mysis)
    return None


def current(begun: TurnHandle) -> Mysis:
    """The locked row, if this turn may still go on. Raises VoidedError."""
    mysis = going_on(begun, lock=True)
    if mysis is None:
        raise TurnSuperseded
    return mysis


def going_on(begun: TurnHandle, *, lock: bool = False) -> Mysis | None:
    """The Mysis while this turn is its open one: not stopped, not taken up.

    Its account has no more than its name. Asked several times in each call, so the
    query is written out.
    """
    sql = GOING_ON + LOCKED if lock else GOING_ON
    values = [begun.mysis_id, begun.epoch, begun.turn_id]
    for mysis in Mysis.objects.raw(sql, values):
        return _joined(mysis)
    return None


def _joined(mysis: Any) -> Mysis:
    """With what the query found in other tables, so that nothing is read again."""
    if mysis.account_id is not None:
        fields = ["id", "username"]
        values = [mysis.account_id, mysis.account_name]
        mysis.account = Account.from_db(None, fields, values)
    if mysis.policy_id is not None:
        mysis.policy = ContextPolicy(
            id=mysis.policy_id,
            name=mysis.policy_name,
            strategy=mysis.policy_strategy,
            options=json.loads(mysis.policy_options),
            budget_tokens=mysis.policy_tokens,
            budget_reserve=mysis.policy_reserve,
        )
    found: Mysis = mysis
    return found


def close_open_turns(
    mysis: Mysis, *, outcome: Turn.Outcome, turn_id: int | None = None
) -> None:
    """End turns that nobody will end, and answer the calls they left open."""
    open_turns = Turn.objects.raw(OPEN_TURNS, [mysis.pk])
    for turn in open_turns:
        if turn_id is None or turn.pk == turn_id:
            finish_turn(turn, outcome=outcome)
    answer_open_calls(mysis)


def answer_open_calls(mysis: Mysis) -> None:
    """Give every pending call the result that its outcome is unknown.

    What such an action may have changed is in doubt from now on.
    """
    for row in Memory.objects.raw(OPEN_CALLS, [mysis.pk]):
        if mysis.account is not None:
            doubt(
                mysis_id=mysis.pk,
                username=mysis.account.username,
                tool=row.tool_name,
                args=row.args,
                memory_id=row.pk,
            )
        row.content = INTERRUPTED
        row.is_error = True
        row.pending = False
        row.save(update_fields=["content", "is_error", "pending"])
        events.append(Kind.MEMORY_ADDED, mysis_id=mysis.pk, data=memory_line(row))


def finish_turn(
    turn: Turn,
    *,
    outcome: Turn.Outcome,
    error: str = "",
    answered: Sequence[int] = (),
) -> None:
    """Write the outcome and say so; the caller holds the Mysis's row."""
    turn.outcome = outcome
    turn.error = clean_text(error)
    turn.finished_at = timezone.now()
    turn.save(update_fields=["outcome", "error", "finished_at"])
    data: dict[str, Any] = {
        "turn": turn.pk,
        "number": turn.number,
        "outcome": str(outcome),
        "iterations": turn.iterations,
        "error": error,
    }
    if answered:
        data["answered"] = list(answered)
    events.append(Kind.TURN_FINISHED, mysis_id=turn.mysis_id, data=data)


def activity(mysis: Mysis, words: str) -> None:
    """Show what a locked Mysis does."""
    mysis.activity = words[:200]
    mysis.save(update_fields=["activity"])
