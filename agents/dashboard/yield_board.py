"""The yield board: what is asked of it, and its lines in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Self

from django.utils.http import urlencode

from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yield_marks import Mark, share_marks
from agents.dashboard.yields import (
    GROUPINGS,
    Sums,
    YieldLine,
    add_up_lines,
    list_lines,
    list_myses,
    parse_span,
    share_yield,
)

HOUR = timedelta(hours=1)


class Figure(NamedTuple):
    """A column of the board; ``read`` gives what it is sorted by, None for unknown."""

    title: str
    read: Callable[[YieldLine], Any]
    # Whether the most comes first where nothing else is asked for.
    most_first: bool = True


FIGURES: Mapping[str, Figure] = {
    "name": Figure("Name", lambda line: line.label.casefold(), most_first=False),
    "per_hour": Figure("Credits an hour", lambda line: line.sums.per_hour),
    "per_1k_tokens": Figure("per 1,000 tokens", lambda line: line.sums.per_1k_tokens),
    "per_dollar": Figure("per dollar", lambda line: line.sums.per_dollar),
    "credits": Figure("Credits", lambda line: line.sums.credits),
    "failed": Figure("Failed actions", lambda line: line.sums.failed_share),
    "idle": Figure("Idle", lambda line: line.sums.idle_share),
    "orders": Figure("Orders done", lambda line: line.sums.orders_done),
    "turns": Figure("Turns", lambda line: line.sums.turns),
    "tokens": Figure("Tokens", lambda line: line.sums.tokens),
    "cost": Figure("Cost", lambda line: line.sums.cost),
}


def sort_lines(
    lines: Iterable[YieldLine], order: str, figures: Mapping[str, Figure] = FIGURES
) -> list[YieldLine]:
    """The lines by a figure, turned round with a ``-`` before it; unknown ones last."""
    figure = figures[order.removeprefix("-")]
    most_first = figure.most_first != order.startswith("-")
    by_name = sorted(lines, key=FIGURES["name"].read)
    known = [line for line in by_name if figure.read(line) is not None]
    unknown = [line for line in by_name if figure.read(line) is None]
    return [*sorted(known, key=figure.read, reverse=most_first), *unknown]


@dataclass(frozen=True, slots=True)
class YieldView:
    """What a viewer asked the board for; what is unknown falls back to the first."""

    by: str = "mysis"
    since: str = "1h"
    sort: str = "per_hour"
    # Its columns, which it can be sorted by.
    figures: ClassVar[Mapping[str, Figure]] = FIGURES

    @classmethod
    def read(cls, params: Any) -> Self:
        usual = cls()
        by, since = params.get("by", ""), params.get("since", "")
        sort = params.get("sort", "")
        return cls(
            by if by in GROUPINGS else usual.by,
            since if parse_span(since) else usual.since,
            sort if sort.removeprefix("-") in cls.figures else usual.sort,
        )

    @property
    def span(self) -> timedelta:
        return parse_span(self.since) or HOUR

    def write_query(self, **others: str) -> str:
        """Its address parameters, some of them others."""
        own = {"by": self.by, "since": self.since, "sort": self.sort}
        return urlencode(own | others)

    def list_headings(self) -> list[tuple[str, str, str]]:
        """Title, address parameters and direction of each column; a second click turns
        the order round."""
        found = []
        for name, figure in self.figures.items():
            here = self.sort.removeprefix("-") == name
            turned = f"-{name}" if self.sort == name else name
            down = figure.most_first != self.sort.startswith("-")
            direction = ("descending" if down else "ascending") if here else ""
            title = GROUPINGS[self.by] if name == "name" else figure.title
            found.append((title, self.write_query(sort=turned), direction))
        return found


@dataclass(frozen=True, slots=True)
class Board:
    """The lines in order, the whole fleet, and what changed."""

    view: YieldView
    lines: Sequence[YieldLine]
    total: Sums
    marks: Sequence[Mark]
    since: datetime


def order_ids(ids: Sequence[int], figure: str, now: datetime) -> list[int]:
    """Numbers of Myses by what their last hour yielded; those of unknown yield last."""
    found = share_yield(HOUR, now)
    lines = {line.mysis: line.sums for line in list_myses(found)}
    known = {
        number: value
        for number in ids
        if number in lines and (value := getattr(lines[number], figure)) is not None
    }
    best = sorted(known, key=lambda number: -known[number])
    return [*best, *(number for number in ids if number not in known)]


def load_board(view: YieldView, now: datetime) -> Board:
    """What the board shows of a view, made once in ten seconds for all who look."""
    key = ("board", view, time_bucket(now))
    return shared.get(key, lambda: _read_board(view, now))


def _read_board(view: YieldView, now: datetime) -> Board:
    found = share_yield(view.span, now)
    return Board(
        view,
        sort_lines(list_lines(found, view.by), view.sort),
        add_up_lines(found),
        share_marks(view.span, now),
        found.since,
    )


def describe_board(board: Board) -> dict[str, Any]:
    """The board as programs see it, without its lines."""
    return {
        "by": board.view.by,
        "since": board.since,
        "total": describe_sums(board.total),
        "marks": [
            {
                "what": mark.what,
                "title": mark.title,
                "at": mark.at,
                "myses": mark.myses,
                "compared": mark.compared,
                "over_seconds": mark.over.total_seconds() if mark.over else None,
                "before": mark.before if mark.over else None,
                "after": mark.after if mark.over else None,
                "percent": mark.percent,
                "text": mark.explain(),
            }
            for mark in board.marks
        ],
    }


def describe_line(line: YieldLine) -> dict[str, Any]:
    """One line as programs see it; with by=mysis, ``mysis`` is its number."""
    named = {"key": line.label, "mysis": line.mysis, "myses": line.myses}
    return named | describe_sums(line.sums)


def describe_sums(sums: Sums) -> dict[str, Any]:
    """Figures as programs see them; null is unknown."""
    return {
        "credits": sums.credits,
        "credits_per_hour": sums.per_hour,
        "credits_per_1k_tokens": sums.per_1k_tokens,
        "credits_per_dollar": sums.per_dollar,
        "hours": sums.hours,
        "known_hours": sums.known_hours,
        "turns": sums.turns,
        "unknown_turns": sums.unknown_turns,
        "tokens": sums.tokens,
        "cost": float(sums.cost),
        "actions": sums.actions,
        "failed_actions": sums.failed_actions,
        "failed_share": sums.failed_share,
        "idle_share": sums.idle_share,
        "orders_done": sums.orders_done,
    }
