"""The rows of a turn: begin it, check that it still counts, end it.

Each step is one transaction under the lock of the Mysis's row. A turn belongs to one
epoch of its Mysis: after a stop the epoch is another, and every step that would go on
raises `TurnSuperseded`. What has already happened in the game is recorded all the same.

A Mysis whose budget has no room is held: it runs on without a turn until 00:00 UTC, or
until the budget is raised.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents import budgets, db, events, scheduling, statements
from agents.actions.base import (
    append_state_event,
    describe_memory,
)
from agents.context_inputs import ContextInputs, name_inputs
from agents.events import Kind
from agents.llm.endpoints import list_provider_candidates
from agents.models import Account, Budget, Mysis, Provider, Turn
from agents.tool_catalogue import read_actions
from agents.tools.request import INTERRUPTED, NOT_EXECUTED
from agents.tools.snapshot import doubt_call
from memory.assembly.turn_reads import TurnReads
from memory.models import (
    ContextPolicy,
    Memory,
    Role,
    build_row,
    fetch_named,
    fetch_rows,
    read_row,
)
from memory.snapshots.reads import fetches_events

_JOINED = (("account_id", "account_found"), ("policy_wanted", "policy_found"))
# By name: the server keeps the statement, and a migration may add a column.
_COLUMNS = ", ".join(f'mysis."{field.column}"' for field in Mysis._meta.concrete_fields)


class TurnSuperseded(Exception):
    """The Mysis was stopped, started anew or deleted: this turn must end."""


@dataclass(frozen=True, slots=True)
class TurnHandle:
    """A turn that has begun, and what its steps have read so far.

    ``fetches`` tells whether it asks for the game's events, ``cut_off`` whether the
    turn before was cut off in that. ``providers`` are those that its model may be of,
    ``name`` is that of the Mysis.
    """

    turn_id: int
    mysis_id: int
    epoch: int
    number: int
    trigger: str
    model: str
    model_settings: dict[str, Any]
    max_iterations: int
    fetches: bool = False
    cut_off: bool = False
    providers: tuple[Provider, ...] = ()
    name: str = ""
    reads: TurnReads = field(default_factory=TurnReads, compare=False)


@transaction.atomic
def begin_turn(mysis_id: int, *, job_id: int, trigger: str) -> TurnHandle | None:
    """Begin a turn; None where its job is outdated, or the Mysis is at rest or held."""
    mysis = lock_mysis(mysis_id)
    if mysis is None or mysis.next_job != job_id or mysis.state != Mysis.State.RUNNING:
        return None
    providers = list_provider_candidates(mysis.model)
    values = {"mysis": mysis.pk, "providers": providers}
    left_open, cut_off, found, rows = db.fetch_row(
        statements.FIND_BEFORE_TURN, values, prepare=True
    )
    if left_open:
        close_open_turns(mysis, outcome=Turn.Outcome.INTERRUPTED)
        _, cut_off, *_ = db.fetch_row(statements.FIND_BEFORE_TURN, values, prepare=True)
    reason = budgets.explain_refusal(mysis, budgets.parse_budgets(found))
    if reason:
        # No turn for every message that comes while it is held.
        pause_for_budget(mysis, reason)
        return None
    mysis.turn_count += 1
    policy = mysis.effective_policy
    begun = {
        "policy": policy.name,
        "policy_hash": policy.hash_settings(),
        "model": mysis.model,
        "username": mysis.account.username if mysis.account else "",
        "prompt": mysis.prompt_id,
        "mysis": mysis.pk,
        "number": mysis.turn_count,
        "epoch": mysis.epoch,
        "job": job_id,
        "trigger": trigger,
        "now": timezone.now(),
    }
    (turn_id,) = db.fetch_row(statements.BEGIN_TURN, begun, prepare=True)
    events.send_hint()
    return TurnHandle(
        turn_id=turn_id,
        mysis_id=mysis.pk,
        epoch=mysis.epoch,
        number=mysis.turn_count,
        trigger=trigger,
        model=mysis.model,
        model_settings=mysis.model_settings,
        max_iterations=mysis.max_iterations,
        fetches=fetches_events(mysis.effective_policy.options),
        cut_off=cut_off,
        providers=tuple(build_row(Provider, one) for one in json.loads(rows)),
        name=mysis.name,
    )


@transaction.atomic
def report_activity(handle: TurnHandle, words: str) -> None:
    """Show what the Mysis does now; raises TurnSuperseded where the turn may not go on."""
    lock_for_turn(handle)
    show_activity(handle, words)


def show_activity(handle: TurnHandle, words: str) -> bool:
    """Show what the Mysis, whose row is locked, does now, if this turn may still go on."""
    values = _name_turn(handle) | {"activity": words[:200]}
    return db.fetch_row(statements.SHOW_ACTIVITY, values, prepare=True) is not None


def lock_mysis(mysis_id: int) -> Mysis | None:
    return _fetch_mysis(statements.LOCK_MYSIS, {"mysis": mysis_id})


def lock_for_turn(handle: TurnHandle) -> None:
    """Lock the row, if this turn may still go on; raises TurnSuperseded."""
    if db.fetch_row(statements.LOCK_FOR_TURN, _name_turn(handle), prepare=True) is None:
        raise TurnSuperseded


def lock_for_call(handle: TurnHandle) -> tuple[Mysis, list[Budget]]:
    """Lock the row as `lock_for_turn`, and read the budgets that its calls count in."""
    candidates = list_provider_candidates(handle.model)
    mysis: Any = _for_turn(statements.LOCK_FOR_CALL, handle, {"providers": candidates})
    return mysis, budgets.parse_budgets(mysis.budgets_found)


def load_inputs(handle: TurnHandle) -> tuple[Mysis, ContextInputs]:
    """The Mysis, and what else its next call depends on beside log and game.

    Raises TurnSuperseded.
    """
    values = name_inputs() | {"model": handle.model}
    mysis = _for_turn(statements.LOAD_INPUTS_FOR_TURN, handle, values)
    # Its endpoint was opened for this one; another counts from the next turn.
    mysis.model = handle.model
    return mysis, ContextInputs.read(vars(mysis))


def _for_turn(sql: str, handle: TurnHandle, more: Mapping[str, object]) -> Mysis:
    """The Mysis while this turn is its open one: not stopped, not taken up.

    Its account has no more than its name.
    """
    mysis = _fetch_mysis(sql, {**_name_turn(handle), **more})
    if mysis is None:
        raise TurnSuperseded
    return mysis


def _name_turn(handle: TurnHandle) -> dict[str, Any]:
    return {"mysis": handle.mysis_id, "epoch": handle.epoch, "turn": handle.turn_id}


def _fetch_mysis(sql: str, values: Mapping[str, object]) -> Mysis | None:
    """The Mysis that a statement finds, with its account's name, clock and policy."""
    found = fetch_named(sql.replace("mysis.*", _COLUMNS), values)
    if any(row[key] != row[name] for row in found for key, name in _JOINED):
        # Account or policy became others, or none, while the lock was waited for: PostgreSQL gives
        # the row as it is now, but what is joined to it only of the one before.
        found = fetch_named(sql.replace("mysis.*", _COLUMNS), values)
    if not found:
        return None
    [row] = found
    mysis = read_row(Mysis, row)
    vars(mysis).update((name, row[name]) for name in row.keys() - vars(mysis).keys())
    if mysis.account_id is not None:
        mysis.account = Account.from_db(
            None, ["id", "username"], [mysis.account_id, row["account_name"]]
        )
    stored = row["policy_row"]
    policy = build_row(ContextPolicy, json.loads(stored)) if stored else ContextPolicy()
    if mysis.policy_id is None:
        mysis.fleet_policy = policy
    else:
        mysis.policy = policy
    return mysis


def close_open_turns(mysis: Mysis, *, outcome: Turn.Outcome) -> None:
    """End turns that nobody will end, and answer the calls they left open."""
    for turn in mysis.turns.filter(outcome=None):
        close_turn(turn, outcome=outcome)
    answer_open_calls(mysis)


def answer_open_calls(mysis: Mysis) -> None:
    """Answer every pending call with "outcome unknown", and doubt what it may have changed."""
    for row in Memory.objects.raw(statements.OPEN_CALLS, {"mysis": mysis.pk}):
        if mysis.account is not None:
            doubt_call(
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
        events.append_all([describe_memory(row)])


def close_turn(turn: Turn, *, outcome: Turn.Outcome) -> None:
    """Write a turn's outcome and append the event; the caller holds the Mysis's row."""
    turn.outcome = outcome
    turn.finished_at = timezone.now()
    count_actions(turn)
    values = {
        "turn": turn.pk,
        "outcome": str(outcome),
        "error": turn.error,
        "now": turn.finished_at,
        "actions": turn.actions,
        "failed_actions": turn.failed_actions,
    }
    fetch_rows(statements.CLOSE_TURN, values)
    events.append_all([describe_end(turn, outcome)])


def count_actions(turn: Turn) -> None:
    """Set the actions of a turn that was cut short to those of the log.

    A call that is still open counts for nothing: nobody knows what came of it.
    """
    answered = Memory.objects.filter(turn=turn.pk, role=Role.TOOL, pending=False)
    # Such an answer was written in the place of making the call; a note may follow it.
    called = answered.exclude(content__startswith=NOT_EXECUTED, is_error=True)
    rows = called.values_list("tool_name", "is_error")
    is_action = read_actions()
    failed = [is_error for command, is_error in rows if is_action(command)]
    turn.actions, turn.failed_actions = len(failed), sum(failed)


def describe_end(
    turn: Turn, outcome: Turn.Outcome, error: str = "", answered: Sequence[int] = ()
) -> events.Line:
    """The event of a turn's end; ``answered`` are the messages that it answered."""
    data: dict[str, Any] = {
        "turn": turn.pk,
        "number": turn.number,
        "outcome": str(outcome),
        "iterations": turn.iterations,
        "error": error,
    }
    if answered:
        data["answered"] = list(answered)
    return Kind.TURN_FINISHED, turn.mysis_id, data


def pause_for_budget(mysis: Mysis, reason: str) -> None:
    """Hold a locked, running Mysis until its budget has room; the event comes once."""
    first = not mysis.hold
    mysis.hold = reason
    mysis.activity = "held by a budget"
    # What failed before was the provider or the game; it may be well again by then.
    mysis.failures = 0
    mysis.save(update_fields=["hold", "activity", "failures"])
    at = scheduling.read_clock() + budgets.find_pause(mysis.pk)
    scheduling.schedule(mysis, trigger="budget", at=at)
    if first:
        events.append_error(mysis.pk, reason, code="budget")
        append_state_event(mysis, "runtime", before=mysis.state)


def resume_from_budget(mysis: Mysis) -> None:
    """End the hold of a Mysis whose call was let through."""
    if mysis.hold:
        mysis.hold = ""
        mysis.save(update_fields=["hold"])
        append_state_event(mysis, "runtime", before=mysis.state)
