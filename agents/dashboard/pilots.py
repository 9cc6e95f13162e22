"""The game accounts: who flies them, how they stand, how old that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.models import Account
from memory.gamestate.confidence import Confidence, Moment
from memory.gamestate.names import known_names

from . import game
from .addresses import page_key
from .standing import Standing, standings_of

PAGE = 100
LEVELS = tuple(map(str, Confidence))


@dataclass(frozen=True, slots=True)
class Pilot:
    """One account as the page shows it; never its password."""

    username: str
    pk: int
    empire: str
    owner: str
    key: str
    state: str
    flies: bool
    standing: Standing
    newest: datetime | None
    levels: Sequence[tuple[str, int]]


def load(now: datetime, names: str = "", after: str = "") -> list[Pilot]:
    """A page of accounts by name and one more; those with ``names`` in theirs.

    ``after`` is the last name of the page before.
    """
    rows = Account.objects.select_related("assigned_to", "active_mysis")
    if after:
        rows = rows.filter(username__gt=after)
    if names:
        rows = rows.filter(username__icontains=names)
    accounts = list(rows.order_by("username")[: PAGE + 1])
    usernames = [account.username for account in accounts]
    cached, present = game.held(usernames), game.moments(usernames, now)
    stand = standings_of(cached, present)
    return [
        _pilot(
            one,
            stand[one.username],
            cached.get(one.username, []),
            present[one.username],
        )
        for one in accounts
    ]


def _pilot(
    account: Account,
    standing: Standing,
    cached: Sequence[game.Held],
    moment: Moment,
) -> Pilot:
    active = getattr(account, "active_mysis", None)
    owner = active or account.assigned_to
    return Pilot(
        username=account.username,
        pk=account.pk,
        empire=account.empire,
        owner=owner.name if owner else "",
        key=page_key(owner) if owner else "",
        state=owner.state if owner else "",
        flies=active is not None,
        standing=standing,
        newest=max((one.snapshot.captured_at for one in cached), default=None),
        levels=_levels(cached, moment),
    )


def _levels(cached: Sequence[game.Held], moment: Moment) -> Sequence[tuple[str, int]]:
    """How many snapshots are how far to be believed."""
    names = known_names(one.snapshot for one in cached)
    counts: Mapping[str, int] = Counter(
        str(game.level_of(one.snapshot, moment, names)) for one in cached
    )
    return tuple((level, counts[level]) for level in LEVELS if counts.get(level))
