"""The analytics board: what is asked of it, its lines in order, two of them compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, cast

from agents.dashboard.shared_results import shared, time_bucket
from agents.dashboard.yield_board import (
    Figure,
    YieldView,
    describe_line,
    describe_sums,
    sort_lines,
)
from agents.dashboard.yields import (
    LONG_SHARE,
    LONG_SPAN,
    YieldLine,
    add_up_lines,
    list_lines,
)
from agents.lab.analytics import HANDLES, Analytics, Outcome, add_up_outcomes
from agents.lab.table import write_lines
from agents.templatetags.zoea import money, rate, share
from memory.redaction import hide_secret_texts


def read_outcome(line: YieldLine) -> Outcome:
    """What a line of this board came to."""
    return cast("Outcome", line.sums)


def _read(name: str) -> Callable[[YieldLine], Any]:
    return lambda line: getattr(line.sums, name)


FIGURES: Mapping[str, Figure] = {
    "name": Figure("Name", lambda line: line.label.casefold(), most_first=False),
    "calls": Figure("Calls", _read("calls")),
    "calls_per_action": Figure("Calls an action", _read("calls_per_action")),
    "tokens_per_call": Figure("Tokens a call", _read("tokens_per_call")),
    "compactions": Figure("Compactions an hour", _read("compactions_per_hour")),
    "summaries": Figure("Summaries", _read("summaries")),
    "recalls": Figure("Recalls in 100 calls", _read("recall_rate")),
    "repeated": Figure("Repeated reads", _read("repeated_share")),
    "doubted": Figure("Facts doubted an hour", _read("doubted_per_hour")),
    "per_hour": Figure("Credits an hour", _read("per_hour")),
    "cost": Figure("Cost of 1,000 credits", _read("cost_per_1k_credits")),
}


class ComparedFigure(NamedTuple):
    """What two lines are compared by.

    ``less`` says whether less of it is better, None where neither is.
    """

    title: str
    name: str
    less: bool | None
    write: Callable[[float], str]


def _write_number(value: float) -> str:
    return f"{value:,.1f}" if value < 1_000 else f"{value:,.0f}"


def _write_cost(dollars: float) -> str:
    return money(Decimal(str(dollars)))


COMPARED = (
    ComparedFigure("Calls an action", "calls_per_action", True, _write_number),
    ComparedFigure("Tokens a call", "tokens_per_call", True, _write_number),
    ComparedFigure("Compactions an hour", "compactions_per_hour", True, _write_number),
    ComparedFigure("Recalls in 100 calls", "recall_rate", None, _write_number),
    ComparedFigure("Repeated reads", "repeated_share", True, share),
    ComparedFigure("Facts doubted an hour", "doubted_per_hour", True, _write_number),
    ComparedFigure("Failed actions", "failed_share", True, share),
    ComparedFigure("Credits an hour", "per_hour", False, rate),
    ComparedFigure("Cost of 1,000 credits", "cost_per_1k_credits", True, _write_cost),
)
UNKNOWN = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class AnalyticsView(YieldView):
    """What a viewer asked for; ``a`` and ``b`` are the labels of two lines to compare."""

    sort: str = "calls"
    a: str = ""
    b: str = ""
    figures: ClassVar[Mapping[str, Figure]] = FIGURES

    @classmethod
    def read(cls, params: Any) -> AnalyticsView:
        asked = {name: params.get(name, "").strip()[:400] for name in ("a", "b")}
        # With slots the class is made anew, and a bare super() would mean the first.
        return replace(super(AnalyticsView, cls).read(params), **asked)

    def write_query(self, **others: str) -> str:
        """Its address parameters; two lines stay chosen where the lines are the same."""
        chosen = {name: getattr(self, name) for name in ("a", "b")}
        kept = {} if "by" in others else {k: v for k, v in chosen.items() if v}
        return super(AnalyticsView, self).write_query(**kept | others)


class Difference(NamedTuple):
    """One figure of two lines in words, how it changes, and whether that is better."""

    title: str
    a: str
    b: str
    percent: int | None
    better: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two lines side by side."""

    a: YieldLine
    b: YieldLine
    differences: Sequence[Difference]


@dataclass(frozen=True, slots=True)
class OutcomeBoard:
    """The lines in order, the whole fleet, and two lines compared, if there are two.

    Without ``whole``, what is not read yet is still missing.
    """

    view: AnalyticsView
    lines: Sequence[YieldLine]
    total: Outcome
    since: datetime
    whole: bool
    comparison: Comparison | None


def load_outcomes(view: AnalyticsView, now: datetime) -> OutcomeBoard:
    """What the board shows; raises SlowSearchError where one hour takes too long."""
    found = _share_outcomes(view, now)
    lines = list_lines(found.found, view.by)
    flown = [line for line in lines if line.sums.turns]
    total = cast("Outcome", add_up_lines(found.found))
    return OutcomeBoard(
        view,
        sort_lines(lines, view.sort, FIGURES),
        total,
        found.found.since,
        found.whole,
        _compare(view, flown),
    )


def _share_outcomes(view: AnalyticsView, now: datetime) -> Analytics:
    """Made once in ten seconds for all who look, once a minute for many hours."""
    version = time_bucket(now)
    version = version // LONG_SHARE if view.span > LONG_SPAN else version
    key = ("outcomes", view.span, version)
    found: Analytics | None = shared.peek(key)
    if found is None or not found.whole:
        found = add_up_outcomes(now - view.span, now)
        if found.whole:
            shared.get(key, lambda: found)
    return found


def _compare(view: AnalyticsView, lines: Sequence[YieldLine]) -> Comparison | None:
    """The two that are asked for, else those of most turns, as versions follow."""
    if len(lines) < 2 or view.by == "mysis":
        return None
    by_label = {line.label: line for line in lines}
    most = sorted(lines, key=lambda line: -line.sums.turns)[:2]
    usual = sorted(most, key=lambda line: _split_numbers(line.label))
    a, b = by_label.get(view.a, usual[0]), by_label.get(view.b, usual[1])
    return Comparison(a, b, [_differ(a, b, figure) for figure in COMPARED])


def _split_numbers(label: str) -> list[tuple[int, str]]:
    """What sorts version 10 after version 9."""
    parts = re.split(r"(\d+)", label)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


def _differ(a: YieldLine, b: YieldLine, figure: ComparedFigure) -> Difference:
    before, after = (getattr(line.sums, figure.name) for line in (a, b))
    percent = None
    if before and after is not None:
        percent = round(100 * (after - before) / abs(before))
    better = (
        (percent < 0) == figure.less if percent and figure.less is not None else None
    )
    words = [UNKNOWN if one is None else figure.write(one) for one in (before, after)]
    return Difference(figure.title, words[0], words[1], percent, better)


# --- As programs see it


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Figures as programs see them; null is unknown."""
    whole = outcome.shares.total()
    return describe_sums(outcome) | {
        "calls": outcome.calls,
        "calls_per_action": outcome.calls_per_action,
        "contexts": outcome.contexts,
        "tokens_per_call": outcome.tokens_per_call,
        "token_shares": {
            name: tokens / whole for name, tokens in outcome.shares.items() if tokens
        },
        "compactions": outcome.compactions,
        "compactions_per_hour": outcome.compactions_per_hour,
        "summaries": outcome.summaries,
        "recalls": {name: outcome.recalls[name] for name in HANDLES},
        "recalls_per_100_calls": outcome.recall_rate,
        "gets": outcome.gets,
        "repeated_gets": outcome.repeated,
        "repeated_get_share": outcome.repeated_share,
        "facts_doubted": outcome.doubted,
        "facts_doubted_per_hour": outcome.doubted_per_hour,
        "cost_per_1k_credits": outcome.cost_per_1k_credits,
    }


def describe_outcome_line(line: YieldLine) -> dict[str, Any]:
    """One line as programs see it."""
    return describe_line(line) | describe_outcome(read_outcome(line))


def write_csv(lines: Iterable[YieldLine]) -> str:
    """The lines as a table, a column for each figure, with a head."""
    rows = [_flatten(describe_outcome_line(line)) for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return write_lines([names, *([row.get(name) for name in names] for row in rows)])


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}_{each}": one for each, one in value.items()}
        else:
            found[name] = value
    hidden: dict[str, Any] = hide_secret_texts(found)
    return hidden
