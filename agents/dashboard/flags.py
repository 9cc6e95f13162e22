"""What may be the matter with Myses that run, as filters of the Fleet page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import partial

from django.db.models import Count, F, Q
from django.utils import timezone

from agents.dashboard import game_state
from agents.dashboard.accounts import USED_TOOLS, read_statuses
from agents.dashboard.shared_results import shared, time_bucket
from agents.models import Mysis
from memory.snapshots.reads import read_moments

FLAGS = ("held", "stuck", "stale")
# Every flown account is judged to count those that are stale: a part of the fleet at each
# of these moments, in seconds of ten, at which nothing else of the page is due.
MOMENTS = (1, 3, 6, 8)
_PART = F("pk") % len(MOMENTS)
EVERYBODY = Q()


def make_flag_condition(flag: str, among: Q = EVERYBODY) -> Q:
    """Which Myses have a flag; the accounts of no others than ``among`` are judged."""
    if flag != "stale":
        return ~Q(hold="") if flag == "held" else ~Q(stuck="")
    names = _find_doubtful_accounts(timezone.now(), among)
    return Q(account__username__in=names) if names else Q(pk__in=[])


def _find_doubtful_accounts(now: datetime, among: Q) -> list[str]:
    """The accounts flown by these Myses whose rows have a badge."""
    flown = Mysis.objects.exclude(account=None).alias(part=_PART).filter(among)
    usernames = list(flown.values_list("account__username", flat=True))
    present = read_moments(usernames, now)
    found = game_state.load_snapshots(usernames, *USED_TOOLS)
    standings = read_statuses(found, present)
    return [name for name, standing in standings.items() if standing.badges]


def count_flags(among: Q = EVERYBODY) -> Mapping[str, int]:
    """How many of these have each flag; as many queries for any number of them."""
    return (
        Mysis.objects.alias(part=_PART)
        .filter(among)
        .aggregate(
            **{
                flag: Count("pk", filter=make_flag_condition(flag, among))
                for flag in FLAGS
            }
        )
    )


def share_flags(now: datetime) -> Mapping[str, int]:
    """The same, each part of the fleet counted once in ten seconds for all who look."""
    found = Counter(dict.fromkeys(FLAGS, 0))
    for part, moment in enumerate(MOMENTS):
        key = ("flags", part, time_bucket(now, shift=moment))
        found.update(shared.get(key, partial(count_flags, Q(part=part))))
    return found
