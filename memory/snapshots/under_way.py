"""Recent actions of an account: which are still to take effect, and which just did.

Every action that may have changed something is stored for a while, even where no
snapshot was there to be marked: an answer that was asked for before the action ended,
or before it takes effect, still shows the old state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from memory.gamestate import effects, invalidation
from memory.gamestate.effects import FLIGHTS
from memory.gamestate.extract import Result
from memory.gamestate.types import Stale
from memory.models import ActionUnderWay, build_insert, fetch_rows, list_values
from memory.snapshots.rows import LockedAccount

# No action takes longer, by the wall clock.
KEPT_UNDER_WAY = timedelta(hours=6)
# No answer is on its way for longer than this.
LONGEST_CALL = timedelta(minutes=10)
LONGEST_TARGET = 200
NOT_OPEN = timedelta(seconds=1)
# The actions that no answer can be too old for any more make room.
_STORE = f"""
WITH old AS (
  DELETE FROM memory_actionunderway
  WHERE username = %s AND until < %s AND (done_at IS NULL OR done_at < %s)
)
{build_insert(ActionUnderWay)}
"""  # noqa: S608 (no input in the text)


def store_action(
    username: str, action: Stale, result: Result, args: Mapping[str, object]
) -> None:
    """Store an action that was answered; needs the account's lock."""
    now = timezone.now()
    asked = action.at or now
    queued = result.queued or result.is_unknown
    row = ActionUnderWay(
        username=username,
        tool=action.reason[:200],
        target=effects.find_target(args)[:LONGEST_TARGET],
        tick=action.tick if queued else None,
        asked_at=asked,
        done_at=action.done or now,
        until=now + _longest_duration(action.reason, result) if queued else asked,
    )
    late = now - LONGEST_CALL
    fetch_rows(_STORE, [username, late, late, *list_values(row)], prepare=True)


def _longest_duration(tool: str, result: Result) -> timedelta:
    if result.is_unknown and tool in FLIGHTS:
        return KEPT_UNDER_WAY
    ticks = (result.duration_ticks or 1) + invalidation.QUEUE_MARGIN_TICKS
    return min(_to_time(ticks), KEPT_UNDER_WAY)


def _to_time(ticks: int) -> timedelta:
    return timedelta(seconds=ticks * settings.ZOEA_SECONDS_PER_TICK)


def find_finished(
    usernames: Collection[str], now: datetime
) -> QuerySet[ActionUnderWay]:
    """The actions that no answer can be too old for any more."""
    late = now - LONGEST_CALL
    rows = ActionUnderWay.objects.filter(username__in=usernames, until__lt=late)
    return rows.exclude(done_at__gte=late)


def end_actions(account: LockedAccount, rows: Iterable[ActionUnderWay]) -> None:
    """Mark actions as over; answers that are on their way may not show them yet.

    `LockedAccount.save` stores it.
    """
    for row in rows:
        row.until, row.tick = row.asked_at, None
        account.ended.append(row.pk)


def to_mark(row: ActionUnderWay) -> Stale:
    """The mark that a stored action leaves on snapshots."""
    return Stale(row.tool, row.tick, (), row.asked_at, row.done_at)


# --- Reading


def select_waiting(account: LockedAccount) -> list[ActionUnderWay]:
    """The actions that are not known to be over, oldest first."""
    return [row for row in account.actions if row.until > row.asked_at]


def select_pending(
    account: LockedAccount, tick: int | None, now: datetime
) -> list[ActionUnderWay]:
    """The actions that have not taken effect yet, by the tick or else by the clock."""
    return [row for row in select_waiting(account) if _is_pending(row, tick, now)]


def select_unanswered(
    account: LockedAccount, asked_at: datetime
) -> list[ActionUnderWay]:
    """The actions that were not answered yet at a moment.

    One answered in the future was so before our clock went back: it does not count.
    """
    now = timezone.now()
    answered = [(row.done_at, row) for row in account.actions]
    return [row for at, row in answered if at is not None and asked_at <= at <= now]


def _is_pending(row: ActionUnderWay, tick: int | None, now: datetime) -> bool:
    if is_open(row) or row.tick is None or tick is None:
        return row.until > now
    return invalidation.carry_mark(Stale(row.tool, row.tick), tick) is not None


# --- Flights of unknown outcome


def is_open(row: ActionUnderWay) -> bool:
    """Whether a flight may take any time: only the game says when it is over."""
    return row.tool in FLIGHTS and row.until - row.asked_at >= KEPT_UNDER_WAY


def update_flights(
    account: LockedAccount,
    tool: str,
    result: Result,
    asked_at: datetime,
    *,
    tick: int | None,
    sure_tick: int | None,
) -> None:
    """Update the flights of unknown outcome by what an answer shows.

    Where the ship rests they are over or never began, once they would have begun: until
    then a ship that will fly rests too. In flight the answer may say how long it lasts.
    ``tick`` is the answer's by the clock, ``sure_tick`` the newest that surely has come.
    """
    content = result.content
    flying = effects.find_ticks_left(content)
    rests = effects.is_at_rest(tool, content)
    ended = []
    for row in filter(is_open, account.actions):
        if flying is not None and tick is not None:
            left = flying + invalidation.QUEUE_MARGIN_TICKS
            row.tick = tick + left
            # No longer open: how long it takes is known.
            longest = row.asked_at + KEPT_UNDER_WAY - NOT_OPEN
            row.until = min(asked_at + _to_time(left), longest)
            row.save(update_fields=["tick", "until"])
        elif rests or effects.is_arrival(tool, content, row.target):
            ended += [row] if _has_begun(row, sure_tick, asked_at) else []
    end_actions(account, ended)


def end_flights(
    account: LockedAccount, tool: str, tick: int | None, asked_at: datetime
) -> None:
    """End the flights of unknown outcome after an action that only a resting ship can do."""
    if tool in effects.NEED_REST:
        rows = filter(is_open, account.actions)
        begun = (row for row in rows if _has_begun(row, tick, asked_at))
        end_actions(account, begun)


def _has_begun(row: ActionUnderWay, tick: int | None, asked_at: datetime) -> bool:
    """Whether a flight would have begun by a call, if it ever has."""
    if row.tick is not None and tick is not None:
        return row.tick <= tick
    return row.asked_at + _to_time(invalidation.QUEUE_MARGIN_TICKS) <= asked_at
