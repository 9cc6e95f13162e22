"""One time axis for drawings: from when until when, in which steps, with which ticks.

A page's address says it with ``since`` and ``until``, and its links make it narrower,
wider, earlier or later, so that no script is needed to move along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.utils import timezone

from agents.dashboard.shared_results import RECHECK_SHARED
from agents.dashboard.yields import LONG_SHARE, LONG_SPAN, parse_span

DEFAULT = "6h"
SPANS = ("1h", "6h", "24h")
SHORTEST, LONGEST = timedelta(minutes=5), timedelta(days=2)
# Seconds of a step that people can read; a drawing takes the first that is long enough.
STEPS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900),
    *(1_800, 3_600, 7_200, 14_400),
)
# Seconds between two ticks, and how many ticks there are at most.
BETWEEN_TICKS = (
    *(60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800),
    *(14_400, 21_600, 43_200, 86_400),
)
TICKS = 8
# A tick so near the end would be cut; a part of the whole.
LAST_TICK = 0.94
DAY = timedelta(days=1)


class Tick(NamedTuple):
    """A moment with its place, from 0 at the beginning to 1 at the end."""

    at: datetime
    place: float

    @property
    def percent(self) -> str:
        return f"{100 * self.place:.2f}%"


class Link(NamedTuple):
    """Another span: its name and its address parameters; none where there is none."""

    name: str
    params: dict[str, str]


@dataclass(frozen=True, slots=True)
class Axis:
    """``count`` steps of ``step`` seconds from ``since``; ``until`` ends the last one."""

    since: datetime
    until: datetime
    step: int
    count: int

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    @property
    def ticks(self) -> list[Tick]:
        """Round moments, as many as are well apart."""
        whole = self.step * self.count
        apart = next((one for one in BETWEEN_TICKS if whole / one <= TICKS), 86_400)
        first = -(-int(self.since.timestamp()) // apart) * apart
        found = []
        for at in range(first, int(self.since.timestamp()) + whole, apart):
            place = (at - self.since.timestamp()) / whole
            if place <= LAST_TICK:
                found.append(Tick(datetime.fromtimestamp(at, UTC), place))
        return found

    def find_place(self, moment: datetime) -> int:
        """The step that a moment falls into."""
        place = int((moment - self.since).total_seconds() // self.step)
        return min(max(0, place), self.count - 1)

    def measure_step(self, place: int) -> float:
        """The seconds of a step: the last one may still go on."""
        return min(float(self.step), max(0.0, self.seconds - place * self.step))

    @property
    def step_words(self) -> str:
        """How long a step is: 30 s, 15 min, 2 h."""
        return format_length(timedelta(seconds=self.step))


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """What an address asks for: ``length`` before ``until``, None for until now."""

    length: timedelta
    until: datetime | None = None

    @classmethod
    def read(cls, params: Any) -> TimeSpan:
        """``since`` is a length such as 6h or a moment, ``until`` a moment or empty.

        What is neither falls back to the last six hours, what is too long is cut.
        """
        until, now = parse_moment(params.get("until", "")), timezone.now()
        found = cls.parse(params.get("since", ""), until, now)
        found = found or cls.parse(DEFAULT, until, now) or cls(LONGEST)
        return replace(found, length=min(max(found.length, SHORTEST), LONGEST))

    @classmethod
    def parse(
        cls, since: str, until: datetime | None, now: datetime
    ) -> TimeSpan | None:
        """The span since a length or a moment; None for anything else.

        What is to come is cut off: such a span goes on.
        """
        until = None if until is None or until >= now else until
        length, begin = parse_span(since), parse_moment(since)
        if length is not None or begin is None:
            return None if length is None else cls(length, until)
        if begin >= (until or now):
            return None
        return cls((until or _find_shared_end(begin, now)) - begin, until)

    def find_end(self, now: datetime) -> datetime:
        """Where it ends: nothing is known of what is to come."""
        return min(self.until or now, now)

    def make_axis(self, now: datetime, most: int) -> Axis:
        """Its axis with at most ``most`` steps, which begin at round moments."""
        until = self.find_end(now)
        since = until - self.length
        seconds = self.length.total_seconds()
        step = next((one for one in STEPS if seconds / one <= most), STEPS[-1])
        begin = int(since.timestamp()) // step * step
        count = max(1, -(-int(until.timestamp() - begin) // step))
        return Axis(datetime.fromtimestamp(begin, UTC), until, step, count)

    @property
    def params(self) -> dict[str, str]:
        """Its address parameters."""
        if self.until is None:
            return {"since": format_span(self.length)}
        return {
            "since": format_moment(self.until - self.length),
            "until": format_moment(self.until),
        }

    def list_links(self, now: datetime) -> Iterator[Link]:
        """The neighbouring spans; one that there is not has no parameters."""
        middle = self.find_end(now) - self.length / 2
        half, double = self.length / 2, self.length * 2
        yield Link("Narrower", self._resize(half, middle, now))
        yield Link("Wider", self._resize(double, middle, now))
        yield Link("Earlier", TimeSpan(self.length, middle).params)
        later = middle + self.length
        if self.until is None:
            yield Link("Later", {})
        else:
            end = None if later >= now else later
            yield Link("Later", TimeSpan(self.length, end).params)

    def _resize(
        self, length: timedelta, middle: datetime, now: datetime
    ) -> dict[str, str]:
        length = min(max(length, SHORTEST), LONGEST)
        if length == self.length:
            return {}
        if self.until is None:
            return TimeSpan(length).params
        end = middle + length / 2
        return TimeSpan(length, None if end >= now else end).params


def _find_shared_end(begin: datetime, now: datetime) -> datetime:
    """Where a span that goes on ends for all who ask for it in the same seconds.

    A little after now, so that what is shared always begins early enough.
    """
    if now - begin >= LONGEST:
        return now
    share = LONG_SHARE if now - begin > LONG_SPAN else 1
    seconds = RECHECK_SHARED * share
    end = datetime.fromtimestamp((int(now.timestamp()) // seconds + 1) * seconds, UTC)
    return min(end, begin + LONGEST)


def parse_moment(text: str) -> datetime | None:
    """A moment of ISO 8601, in UTC unless it says otherwise; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip()[:40])
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        # One from the edge of the calendar could not be reckoned with.
        inside = 1971 <= moment.year <= 9000
    except (ValueError, OverflowError):
        return None
    return moment.astimezone(UTC) if inside else None


def format_moment(moment: datetime) -> str:
    """A moment as an address has it, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_span(length: timedelta) -> str:
    """A length as an address has it: 90m, 6h."""
    minutes = max(1, round(length.total_seconds() / 60))
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def format_length(length: timedelta) -> str:
    """A length in words: 30 s, 15 min, 1 h 30 min, 2 d."""
    seconds = round(length.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes >= 2_880 and minutes % 1_440 == 0:
        return f"{minutes // 1_440} d"
    rest = f" {minutes % 60} min" if minutes % 60 else ""
    return f"{minutes // 60} h{rest}"
