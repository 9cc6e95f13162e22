"""Lanes: what each Mysis did over time, in the steps of one time axis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.http import urlencode

from agents.dashboard.fleet import FleetView, find_matching_ids
from agents.dashboard.lane_marks import Mark, read_marks
from agents.dashboard.lane_seconds import (
    ACTIVITIES,
    AT_REST,
    LONGEST_ACTION,
    StepSeconds,
    make_values,
    read_seconds,
)
from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.time_axis import Axis, TimeSpan
from agents.dashboard.yields import LONG_SHARE, LONG_SPAN
from agents.models import Mysis
from agents.models.fleet import find_page_key
from memory.problems import SlowSearchError
from memory.search.results import limit_time

# Lanes of a page, and the steps of all of them, so that a drawing of any fleet stays
# under 60 kB.
LANES = 50
ALL_STEPS, LEAST_STEPS, MOST_STEPS = 5_000, 100, 400
# A step shows what was done in the game, unless that took less than this part of it.
QUIET = frozenset({"thinking", "waiting", AT_REST})
LITTLE = 0.25
# So long may each statement for the lanes of a page take.
SECONDS = 4.0
# Of a span that is long over nothing changes any more: it is shared for so many times ten
# seconds.
PAST_SHARE = 60


class Step(NamedTuple):
    """So many steps of the axis from ``first`` on, of which one activity took most."""

    activity: str
    first: int
    length: int


@dataclass(frozen=True, slots=True)
class Lane:
    """What one Mysis did: ``seconds`` of each activity, exactly, and the steps drawn."""

    id: int
    name: str
    state: str
    seconds: Mapping[str, float]
    steps: Sequence[Step]
    marks: Sequence[Mark]

    @property
    def key(self) -> str:
        return find_page_key(self.id, self.name)

    @property
    def shares(self) -> list[tuple[str, float, float]]:
        """Each activity with its seconds and its part of the whole."""
        whole = sum(self.seconds.values()) or 1.0
        return [
            (name, self.seconds.get(name, 0.0), self.seconds.get(name, 0.0) / whole)
            for name in ACTIVITIES
        ]

    @property
    def summary(self) -> str:
        """Its activities in words, the longest first."""
        found = sorted(self.shares, key=lambda one: -one[1])
        told = (f"{name} {part:.0%}" for name, _, part in found if part >= 0.005)
        return ", ".join(told) or AT_REST


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a page, out of ``matching`` Myses on ``pages``.

    ``unseen`` is the part of the time in which something else was done than the steps
    show: too short, or thinking and waiting between. ``cut`` says whether there are more
    marks than are shown, ``slow`` that reading was given up.
    """

    axis: Axis
    lanes: Sequence[Lane]
    unseen: float
    cut: bool
    matching: int
    pages: Sequence[tuple[int, str, bool]] = ()
    slow: bool = False

    @property
    def marks(self) -> list[Mark]:
        """All marks, the newest first."""
        found = (mark for lane in self.lanes for mark in lane.marks)
        return sorted(found, key=lambda mark: mark.at, reverse=True)

    @property
    def names(self) -> dict[int, str]:
        return {lane.id: lane.name for lane in self.lanes}


@dataclass(frozen=True, slots=True)
class LanesView:
    """What an address asks for: whom, as on the fleet page, when, and which fifty."""

    fleet: FleetView
    span: TimeSpan
    page: int = 1
    table: bool = False

    @classmethod
    def read(cls, params: Any) -> LanesView:
        page = params.get("page", "")
        return cls(
            FleetView.read(params),
            TimeSpan.read(params),
            max(1, int(page)) if page.isdecimal() and len(page) < 5 else 1,
            params.get("view") == "table",
        )

    def write_query(self, **others: str) -> str:
        """Its address parameters, some of them others; ``span`` names another span."""
        own = {
            **{name: getattr(self.fleet, name) for name in ("state", "group", "tag")},
            "q": self.fleet.query,
            **self.span.params,
            "page": str(self.page) if self.page > 1 else "",
            "view": "table" if self.table else "",
        }
        if "since" in others:
            own.pop("until", None)
        return urlencode({key: word for key, word in (own | others).items() if word})

    def list_pages(self, matching: int) -> list[tuple[int, str, bool]]:
        """Number and address parameters of each page, and whether it is this one."""
        return [
            (number, self.write_query(page=str(number)), number == self.page)
            for number in range(1, -(-matching // LANES) + 1)
        ]


def share_lanes(view: LanesView, now: datetime) -> Lanes:
    """`load_lanes`, once for all who ask within ten seconds; longer for long spans."""
    key = ("lanes", view, find_version(view.span, now))
    return shared.get(key, lambda: load_lanes(view, now))


def find_version(span: TimeSpan, now: datetime) -> int:
    """The version of what is drawn of a span: what is long, and what is over so long
    that no action in it is still to be told, are shared for longer."""
    seen = time_bucket(now)
    if span.until is not None and span.until < now - LONGEST_ACTION:
        return seen // PAST_SHARE
    return seen // LONG_SHARE if span.length > LONG_SPAN else seen


def load_lanes(view: LanesView, now: datetime) -> Lanes:
    """The lanes of a page; as many statements for any number of Myses."""
    ids = find_matching_ids(view.fleet)
    view = replace(view, page=min(view.page, max(1, -(-len(ids) // LANES))))
    first = LANES * (view.page - 1)
    found = _load_chosen(ids[first : first + LANES], view.span, now)
    return replace(found, pages=view.list_pages(len(ids)), matching=len(ids))


def share_chosen_lanes(ids: Sequence[int], span: TimeSpan, now: datetime) -> Lanes:
    """The lanes of these Myses, at most `LANES`, shared as those of a page are."""
    key = ("lanes", tuple(ids), span, find_version(span, now))
    return shared.get(key, lambda: _load_chosen(ids, span, now))


def _load_chosen(ids: Sequence[int], span: TimeSpan, now: datetime) -> Lanes:
    most = min(MOST_STEPS, max(LEAST_STEPS, ALL_STEPS // max(1, len(ids))))
    return read_lanes(ids, span.make_axis(now, most))


def read_lanes(ids: Sequence[int], axis: Axis) -> Lanes:
    """The lanes of these Myses on an axis; none where that takes too long."""
    nothing = Lanes(axis, (), 0.0, cut=False, matching=0)
    if not ids:
        return nothing
    myses = Mysis.objects.in_bulk(ids)
    try:
        with limit_time(SECONDS):
            seconds = read_seconds(tuple(ids), axis, SECONDS)
            marks, cut = read_marks(make_values(ids, axis.since, axis.until))
    except SlowSearchError:
        return replace(nothing, slow=True)
    drawn, lanes = 0.0, []
    for mysis in (myses[number] for number in ids if number in myses):
        own = seconds[mysis.pk]
        steps, shown = _choose_steps(own, axis)
        drawn += shown
        lanes.append(
            Lane(
                *(mysis.pk, mysis.name, mysis.state, _add_up(own, axis)),
                *(steps, marks.get(mysis.pk, ())),
            )
        )
    whole = axis.seconds * len(lanes)
    unseen = max(0.0, 1 - drawn / whole) if whole else 0.0
    return Lanes(axis, lanes, unseen, cut, matching=len(lanes))


def _add_up(seconds: StepSeconds, axis: Axis) -> dict[str, float]:
    """The seconds of each activity; all that no row tells of is rest."""
    sums: dict[str, float] = defaultdict(float)
    for step in seconds.values():
        for activity, some in step.items():
            sums[activity] += some
    sums[AT_REST] = max(0.0, axis.seconds - sum(sums.values()))
    return dict(sums)


def _choose_steps(seconds: StepSeconds, axis: Axis) -> tuple[list[Step], float]:
    """For each step what took most of it, equal neighbours as one; and how long that
    was in all."""
    found: list[Step] = []
    shown = 0.0
    for place in range(axis.count):
        activity, most = _find_longest(seconds.get(place, {}), axis.measure_step(place))
        shown += most
        if found and found[-1].activity == activity:
            found[-1] = found[-1]._replace(length=found[-1].length + 1)
        else:
            found.append(Step(activity, place, 1))
    return found, shown


def _find_longest(step: Mapping[str, float], whole: float) -> tuple[str, float]:
    """What is drawn of a step, and how long it was: what it did in the game, if that
    was not little, before the thinking and waiting between."""
    rest = max(0.0, whole - sum(step.values()))
    found = {**step, AT_REST: rest}
    game = {name: found[name] for name in found if name not in QUIET}
    if sum(game.values()) >= LITTLE * whole:
        found = game
    order = list(ACTIVITIES)
    return max(found.items(), key=lambda one: (round(one[1], 6), -order.index(one[0])))
