"""What the fleet used: written with each call, read without looking at calls.

``agents_usage`` has a row for each Mysis, day (UTC), policy and model, so a page or a
route adds up days and not calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum
from django.utils import timezone

from agents import db, statements
from agents.models import Usage
from memory.models import fetch_rows

Clock = tuple[int | None, datetime | None]
USED = ("input_tokens", "output_tokens", "cached_tokens", "cost", "latency_ms")
FIELDS = ("calls", "summaries", "errors", *USED)


def _name_parameters(names: Iterable[str]) -> str:
    return ", ".join(f"%({name})s" for name in names)


def _add(names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {name} + %({name})s" for name in names)


# After the locks of ``after``, of which PostgreSQL would else run this before the first.
_ADD_UP = f"""
INSERT INTO agents_usage AS kept (day, mysis_id, policy, model, {", ".join(FIELDS)})
SELECT %(day)s::date, %(mysis_id)s, %(policy)s, %(model)s, {_name_parameters(FIELDS)}
FROM (SELECT count(*) FROM {{after}}) AS locked
ON CONFLICT (mysis_id, day, policy, model) DO UPDATE SET
  {", ".join(f"{name} = kept.{name} + EXCLUDED.{name}" for name in FIELDS)}
"""  # noqa: S608 (no input in the text)
# Of a call that no turn made.
RECORD_APART = f"""
WITH owner AS (SELECT id FROM agents_mysis WHERE id = %(mysis_id)s)
{_ADD_UP.format(after="owner")}
"""  # noqa: S608 (no input in the text)
# With the account's clock where the turn of the call may go on. The row of the Mysis
# first, as in every other step of a turn: else two could wait for each other. Then that
# of the turn, which may have been ended while this waited; only then what changes them.
RECORD = f"""
WITH owner AS (
  SELECT id FROM agents_mysis WHERE id = %(mysis_id)s FOR UPDATE
), going AS MATERIALIZED (
  SELECT clock.tick, clock.seen_at, account.username FROM agents_modelcall AS call
  JOIN agents_turn AS turn ON turn.id = call.turn_id AND turn.outcome IS NULL
  JOIN agents_mysis AS mysis ON mysis.id = turn.mysis_id
    AND mysis.epoch = turn.epoch AND mysis.state = 'running'
  LEFT JOIN agents_account AS account ON account.id = mysis.account_id
  LEFT JOIN memory_accountclock AS clock ON clock.username = account.username
  WHERE call.id = %(call_id)s AND (SELECT count(*) FROM owner) >= 0
  FOR UPDATE OF mysis FOR NO KEY UPDATE OF turn
), call AS (
  UPDATE agents_modelcall SET ({", ".join(USED)}, finish_reason, error)
    = ({_name_parameters(USED)}, %(finish_reason)s, %(error)s)
  WHERE id = %(call_id)s AND (SELECT count(*) FROM going) >= 0 RETURNING turn_id
), turn AS (
  UPDATE agents_turn SET {_add(USED)}, {statements.NOTE_CREDITS},
    -- One that began without an account has the one that it took meanwhile.
    username = coalesce(nullif(username, ''), (SELECT username FROM going), '')
  WHERE id = (SELECT turn_id FROM call)
), mysis AS (
  UPDATE agents_mysis SET {_add(("input_tokens", "output_tokens", "cost"))}
  WHERE id = %(mysis_id)s AND (SELECT count(*) FROM going) >= 0
)
{_ADD_UP.format(after="going")}
RETURNING EXISTS (SELECT FROM going), (SELECT tick FROM going), (SELECT seen_at FROM going)
"""  # noqa: S608 (no input in the text)


@dataclass(frozen=True)
class CallPlace:
    """Where a call is counted: its row, its Mysis, and what it was made under."""

    call_id: int
    mysis_id: int
    day: date
    policy: str
    model: str
    summary: bool = False


@dataclass(frozen=True)
class CallCost:
    """What a call cost. ``error`` is why it brought no answer, empty for one."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal = Decimal(0)
    latency_ms: int = 0
    finish_reason: str = ""
    error: str = ""


def record_cost(place: CallPlace, spent: CallCost) -> Clock | None:
    """Write what a call cost wherever it is added up, in one statement.

    What was paid is counted even where the turn, or the Mysis, is gone meanwhile: then
    it returns None, else the last tick of the account and when that was seen. The rows
    of the Mysis and of the turn are locked.
    """
    goes_on, *clock = db.fetch_row(RECORD, _to_values(place, spent), prepare=True)
    return (clock[0], clock[1]) if goes_on else None


def record_apart(place: CallPlace, spent: CallCost) -> None:
    """Count a call that no turn made in the usage alone, not with the Mysis's own."""
    fetch_rows(RECORD_APART, _to_values(place, spent))


def _to_values(place: CallPlace, spent: CallCost) -> dict[str, Any]:
    counts = {
        "calls": int(not place.summary),
        "summaries": int(place.summary),
        "errors": int(bool(spent.error)),
    }
    return vars(place) | vars(spent) | counts


def today() -> date:
    """The day that calls are counted on now, in UTC."""
    return get_day(timezone.now())


def get_day(moment: datetime) -> date:
    return moment.astimezone(timezone.get_default_timezone()).date()


def add_up(rows: QuerySet[Usage]) -> dict[str, Any]:
    """Rows added up; zeros where there are none."""
    sums = rows.aggregate(**{name: Sum(name) for name in FIELDS})
    return {name: sums[name] or 0 for name in FIELDS}


def add_up_by(rows: QuerySet[Usage], by: str) -> QuerySet[Usage, dict[str, Any]]:
    """Rows added up by a column, in its order."""
    sums = {name: Sum(name) for name in FIELDS}
    found: QuerySet[Usage, dict[str, Any]]
    found = rows.order_by(by).values(by).annotate(**sums)
    return found
