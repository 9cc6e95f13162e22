"""Where a prompt, a policy or a model changed, and what it did to the yield.

The same Myses are compared over equal spans before and after the change, as long a span
as half of them have to show: no other change of theirs may fall into it or into the same
turn, they must have flown most of it, and turns on both sides must have known their purse.
What no turn caused counts on neither side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agents.dashboard.charts import find_first_turn_since
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yields import BUILT_IN_PROMPT, YieldLine, name_prompt_versions
from memory.models import fetch_rows
from memory.models.contexts import BUILT_IN

# In the order of the columns that tell of each what it was and what it is.
SETTINGS = ("prompt", "policy", "model")
MOST_MARKS = 20
# Turns on each side whose purse was known.
LEAST_TURNS = 3
# The part of each span in which a turn ran or was put off: one that was stopped, or had
# nothing to do, earned less for another reason than the change.
LEAST_FLOWN = 0.75
SPANS = (
    timedelta(days=7),
    timedelta(days=1),
    timedelta(hours=6),
    timedelta(hours=1),
    timedelta(minutes=15),
)
TOO_LITTLE = "not enough to compare yet"
_CHANGES = """
SELECT turn.mysis_id, turn.started_at, turn.changed,
  old.prompt_version_id, turn.prompt_version_id,
  concat(old.policy_name, '/', old.policy_hash),
  concat(turn.policy_name, '/', turn.policy_hash), old.model, turn.model
FROM agents_turn AS turn JOIN agents_turn AS old
  ON old.mysis_id = turn.mysis_id AND old.number = turn.number - 1
WHERE turn.changed <> '' AND turn.started_at >= %(since)s
ORDER BY turn.started_at
"""
# Seconds of a turn and of what led to it, from a moment on up to another.
_FLOWN = """
extract(epoch FROM least(coalesce(turn.finished_at, {end}), {end})
  - greatest(coalesce(turn.previous_end, turn.started_at), {begin}))
  - greatest(0, least(turn.idle_seconds, extract(epoch FROM turn.started_at - {begin})))
"""
_FLOWN_BEFORE = _FLOWN.format(begin="(span.at - %(span)s::interval)", end="span.at")
_FLOWN_AFTER = _FLOWN.format(begin="span.at", end="span.at + %(span)s::interval")
_COMPARED = f"""
WITH earned AS (
  SELECT turn_id, sum(amount) AS credits FROM agents_creditchange
  WHERE at >= %(since)s GROUP BY turn_id
)
SELECT span.mark, span.mysis,
  coalesce(sum(earned.credits) FILTER (WHERE turn.started_at < span.at), 0)::bigint,
  coalesce(sum(earned.credits) FILTER (WHERE turn.started_at >= span.at), 0)::bigint,
  count(turn.credits_before) FILTER (WHERE turn.started_at < span.at),
  count(turn.credits_before) FILTER (WHERE turn.started_at >= span.at),
  min(coalesce(turn.previous_end, turn.started_at)) <= span.at - %(span)s::interval,
  coalesce(sum({_FLOWN_BEFORE}) FILTER (WHERE turn.started_at < span.at), 0)::float8,
  coalesce(sum({_FLOWN_AFTER}) FILTER (WHERE turn.started_at >= span.at), 0)::float8
FROM unnest(%(marks)s::int[], %(myses)s::bigint[], %(moments)s::timestamptz[])
  AS span(mark, mysis, at)
JOIN agents_turn AS turn ON turn.mysis_id = span.mysis AND turn.id >= %(floor)s
  AND turn.started_at >= span.at - %(span)s::interval
  AND turn.started_at < span.at + %(span)s::interval
LEFT JOIN earned ON earned.turn_id = turn.id
GROUP BY span.mark, span.mysis, span.at
"""  # noqa: S608 (no input in the text)


class Change(NamedTuple):
    """What is another than before: ``what`` is prompt, policy or model."""

    what: str
    before: int | str | None
    after: int | str | None


@dataclass(frozen=True, slots=True)
class Mark:
    """One change, of one Mysis or of several, and what they earned before and after.

    ``over`` is the span on each side, None where there is too little to compare;
    ``before`` and ``after`` are credits an hour of one of the ``compared`` Myses.
    ``beside`` are the settings that changed in the same turns: none claims what came.
    """

    what: str
    title: str
    at: datetime
    myses: int
    compared: int = 0
    over: timedelta | None = None
    before: float = 0.0
    after: float = 0.0
    beside: tuple[str, ...] = ()

    @property
    def percent(self) -> int | None:
        """By how many per cent it is more; None where nothing was earned before."""
        if self.over is None or self.before <= 0:
            return None
        return round(100 * (self.after - self.before) / self.before)

    def explain(self) -> str:
        """What it did, such as "+18 % over 6 h, 12 Myses"."""
        who = (
            f"{self.compared} Mysis" if self.compared == 1 else f"{self.compared} Myses"
        )
        if self.over is None and self.beside:
            others = " and ".join(self.beside)
            return f"changed in one turn with the {others}: not told apart"
        if self.over is None:
            return TOO_LITTLE
        if self.percent is None:
            told = f"{self.before:,.0f} to {self.after:,.0f} credits an hour"
        else:
            told = f"{self.percent:+d} %"
        return f"{told} over {format_span(self.over)}, {who}"


@dataclass(slots=True)
class _Group:
    """The Myses that made one change, each at its newest moment.

    ``beside`` are the other settings that a Mysis changed in that turn.
    """

    change: Change
    moments: dict[int, datetime]
    beside: dict[int, tuple[str, ...]]

    def list_beside(self) -> tuple[str, ...]:
        """What changed beside it where that leaves too few to compare; else nothing."""
        mixed = [others for others in self.beside.values() if others]
        named = {one for others in mixed for one in others}
        few = 2 * len(mixed) > len(self.moments)
        return tuple(one for one in SETTINGS if few and one in named)


def format_span(span: timedelta) -> str:
    """15 min, 6 h, 7 d."""
    minutes = round(span.total_seconds() / 60)
    if minutes % 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes <= 24 * 60 else f"{minutes // 1440} d"


def share_marks(span: timedelta, now: datetime) -> list[Mark]:
    """`find_marks`, once for all who ask within ten seconds."""
    key = ("marks", span, time_bucket(now))
    return shared.get(key, lambda: find_marks(span, now))


def find_marks(span: timedelta, now: datetime) -> list[Mark]:
    """The changes of a span, newest first; a fixed number of statements for any fleet."""
    # Those before the span stand in the way of comparisons all the same.
    changes = fetch_rows(_CHANGES, {"since": now - 2 * span})
    times: defaultdict[int, list[datetime]] = defaultdict(list)
    groups: dict[Change, _Group] = {}
    for mysis, at, changed, *sides in changes:
        times[mysis].append(at)
        if at < now - span:
            continue
        for what in (settings := changed.split()):
            place = 2 * SETTINGS.index(what)
            change = Change(what, *sides[place : place + 2])
            group = groups.setdefault(change, _Group(change, {}, {}))
            group.moments[mysis] = at
            group.beside[mysis] = tuple(one for one in settings if one != what)
    newest = sorted(groups.values(), key=lambda one: max(one.moments.values()))
    chosen = newest[: -MOST_MARKS - 1 : -1]
    titles = _name_changes(group.change for group in chosen)
    marks = [
        Mark(
            group.change.what,
            titles[group.change],
            max(group.moments.values()),
            len(group.moments),
            beside=group.list_beside(),
        )
        for group in chosen
    ]
    return _compare(marks, chosen, times, span, now) if marks else []


def _name_changes(changes: Iterable[Change]) -> dict[Change, str]:
    listed = list(changes)
    versions = name_prompt_versions(
        side
        for change in listed
        if change.what == "prompt"
        for side in change[1:]
        if isinstance(side, int)
    )
    return {change: _name_change(change, versions) for change in listed}


def _name_change(change: Change, versions: Mapping[Any, YieldLine]) -> str:
    what, *sides = change
    if what == "prompt":
        old, new = (versions[side].label for side in sides)
        name = old.rpartition(" ")[0]
        # Of one prompt the name is said once: captain v2 to v3.
        same = name and new.rpartition(" ")[0] == name and old != BUILT_IN_PROMPT
        return f"{old} to {new.rpartition(' ')[2] if same else new}"
    if what == "policy":
        # Behind the name stands the hash of what it says.
        sides = [str(side).rpartition("/")[0] for side in sides]
    old, new = (str(side) or BUILT_IN for side in sides)
    return f"{old}, edited" if old == new else f"{old} to {new}"


def _compare(
    marks: list[Mark],
    groups: Sequence[_Group],
    times: Mapping[int, Sequence[datetime]],
    span: timedelta,
    now: datetime,
) -> list[Mark]:
    """Each mark over the longest span that at least half of its Myses have to show."""
    since = now - 2 * span
    known = {"since": since, "floor": find_first_turn_since(since)}
    for length in (one for one in SPANS if one <= span):
        asked = [
            (place, mysis, at)
            for place, group in enumerate(groups)
            if marks[place].over is None
            for mysis, at in _find_quiet(group, times, length, now)
        ]
        if not asked:
            continue
        places, myses, moments = (list(each) for each in zip(*asked, strict=True))
        values = {"marks": places, "myses": myses, "moments": moments}
        rows = fetch_rows(_COMPARED, values | known | {"span": length})
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        least = LEAST_FLOWN * length.total_seconds()
        for place, _, before, after, *told, whole, flown_before, flown_after in rows:
            flew = whole and min(flown_before, flown_after) >= least
            if flew and min(told) >= LEAST_TURNS:
                found[place].append((before, after))
        for place, sums in found.items():
            if 2 * len(sums) >= marks[place].myses:
                marks[place] = _fill(marks[place], sums, length)
    return marks


def _find_quiet(
    group: _Group,
    times: Mapping[int, Sequence[datetime]],
    length: timedelta,
    now: datetime,
) -> list[tuple[int, datetime]]:
    """Its Myses without another change in the turn, nor within the span on either side;
    [] if too few."""
    quiet = [
        (mysis, at)
        for mysis, at in group.moments.items()
        if at + length <= now
        and not group.beside[mysis]
        and not any(abs(other - at) < length for other in times[mysis] if other != at)
    ]
    return quiet if 2 * len(quiet) >= len(group.moments) else []


def _fill(mark: Mark, sums: Sequence[tuple[int, int]], length: timedelta) -> Mark:
    hours = len(sums) * length.total_seconds() / 3600
    return replace(
        mark,
        compared=len(sums),
        over=length,
        before=sum(before for before, _ in sums) / hours,
        after=sum(after for _, after in sums) / hours,
    )
