"""What is known of a game account, as the state block and the tables show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from . import under_way
from .gamestate.happenings import MOST, RECENT_TICKS
from .gamestate.recall import content_of, pick, read_handle
from .gamestate.rows import StateRow, rows
from .gamestate.types import AccountState, Happening
from .models import GameEvent, GameSnapshot
from .stored import names_of, sighting_of, snapshot_of, tick_now

# Read of one tool and account for a view; an argument to a call is another row.
READ_PER_TOOL = 4

# Asked in each call: written out, as the ORM would take three times as long for them.
KNOWN = """
SELECT * FROM (
  SELECT *, row_number() OVER (
    PARTITION BY tool_name ORDER BY captured_at DESC, id DESC
  ) AS place
  FROM memory_gamesnapshot WHERE username = %s AND logged_out_at IS NULL
) AS known
WHERE %s::int IS NULL OR place <= %s::int ORDER BY id
"""
NEWEST = """
SELECT * FROM memory_gameevent WHERE username = %s AND received_at >= %s
ORDER BY received_at DESC, id DESC LIMIT %s
"""


def account_state(
    username: str | None,
    *,
    now: datetime | None = None,
    last_shown: Mapping[str, str] | None = None,
    newest_only: bool = False,
    fetched: bool = False,
) -> AccountState:
    """All that is known of an account now; ``None``: nobody is logged in.

    With ``newest_only`` a tool that was called with many arguments counts with its
    newest calls alone, so that a view costs the same however many there are. With
    ``fetched`` the newest events are part of it: the program asks for them itself.
    """
    moment = now or timezone.now()
    found: Iterable[GameSnapshot] = ()
    seen = None
    names: Mapping[str, str] = {}
    if username is not None:
        most = READ_PER_TOOL if newest_only else None
        found = GameSnapshot.objects.raw(KNOWN, [username, most, most])
        seen, names = sighting_of(username), names_of(username)
    return AccountState(
        username=username,
        snapshots=tuple(snapshot_of(row) for row in found),
        current_tick=tick_now(seen, moment),
        now=moment,
        seconds_per_tick=settings.ZOEA_SECONDS_PER_TICK,
        last_shown=dict(last_shown or {}),
        thresholds=settings.ZOEA_STATE_AGES,
        names=names,
        events=newest_events(username, moment) if fetched and username else (),
        fetched=fetched,
        unsettled=under_way.open_flights(username, moment) if username else frozenset(),
    )


def fetches_events(options: Mapping[str, object]) -> bool:
    """Whether the program asks for the game's events in each turn, by a policy's options.

    Only where the view has a state block to tell them in: nothing read is lost.
    """
    return settings.ZOEA_FETCH_EVENTS and options.get("state_block", True) is not False


def newest_events(username: str, now: datetime) -> tuple[Happening, ...]:
    """What the game told an account of late, oldest first."""
    late = timedelta(seconds=RECENT_TICKS * settings.ZOEA_SECONDS_PER_TICK)
    newest = list(GameEvent.objects.raw(NEWEST, [username, now - late, MOST]))
    return tuple(Happening(e.kind, e.data, e.tick) for e in reversed(newest))


def recall(username: str | None, handle: str) -> str:
    """The full content of the snapshot that a ``state://`` handle names.

    Raises ValueError for a handle of another form, LookupError where nothing of
    the kind is kept; both say what to do.
    """
    wanted = read_handle(handle)
    found = account_state(username).snapshots if username else ()
    return content_of(pick(found, wanted), raw=wanted.raw)


def state_rows(username: str | None) -> tuple[StateRow, ...]:
    """The recency table of an account; empty where nobody is logged in."""
    return rows(account_state(username)) if username else ()
