"""The last hour of a Mysis under the settings of the what-if form.

The rows are sent as they are made; nothing goes on when the page is left, or when another
setting is tried.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents import context_inputs
from agents.actions import ActionError
from agents.forms import WhatIfForm
from agents.lab.policies import OWN, Policy
from agents.lab.replay import (
    ReplayedCall,
    replay_calls,
    select_calls,
    select_myses,
)
from agents.models import Mysis
from agents.streamed import StreamedAnswer
from agents.views.access import PageRequest, find_mysis
from memory.context import registry
from memory.models import SentContext

HOUR = timedelta(hours=1)
# Of more calls the newest.
MOST = 1_000
# Seconds after which the rows that are made are sent, and after which a page without a
# script makes no more.
AT_ONCE, LONGEST = 0.15, 4.0
TRIED = "tried"


@dataclass(frozen=True, slots=True)
class HourSums:
    """The calls so far: their tokens and dollars as they were, and as tried.

    ``unfit`` are those that would not be valid, or over the budget.
    """

    calls: int = 0
    now: int = 0
    tried: int = 0
    cost: float = 0
    cost_tried: float = 0
    unfit: int = 0

    def add(self, call: ReplayedCall) -> HourSums:
        """Those with one more call."""
        own, tried = call.figures[OWN], call.figures[TRIED]
        return replace(
            self,
            calls=self.calls + 1,
            now=self.now + own.tokens,
            tried=self.tried + tried.tokens,
            cost=self.cost + (own.cached_cost or 0),
            cost_tried=self.cost_tried + (tried.cached_cost or 0),
            unfit=self.unfit + (tried.over_budget or not tried.valid),
        )

    @property
    def share(self) -> float | None:
        """What is tried, as a part of what was sent."""
        return self.tried / self.now if self.now else None


@require_safe
def last_hour(request: PageRequest, key: str) -> HttpResponseBase:
    """Its calls of the last hour as lines of JSON with rows and sums; else as a page."""
    mysis, form = find_mysis(key), WhatIfForm(request.GET)
    streams = request.GET.get("format") == "lines"
    rows = _select_hour(mysis)
    calls: Iterator[ReplayedCall] = iter(())
    try:
        if form.has_values() and request.method == "GET":
            calls = _replay(mysis, form, rows)
    except ActionError as error:
        form.add_refusal(error.detail)
    if not form.has_values() or not streams:
        values = {"mysis": mysis, "form": form, "tab": "context", "most": MOST}
        values |= _make_some(calls, rows)
        status = 200 if form.has_values() else 422
        page = "memory/what_if/hour_page.html"
        return render(request, page, values, status=status)
    lines = _write_lines(calls, mysis, form)
    # It holds views and what they are made of, and ends with the hour's calls.
    return StreamedAnswer(lines, "application/x-ndjson", keeps_much=True)


def _select_hour(mysis: Mysis) -> QuerySet[SentContext]:
    """Its calls of the last hour, of many the newest."""
    calls = select_calls(timezone.now() - HOUR, None).filter(mysis=mysis)
    newest = calls.order_by("-pk").values_list("pk", flat=True)
    first = newest[MOST - 1 : MOST].first()
    return calls if first is None else calls.filter(pk__gte=first)


def _replay(
    mysis: Mysis, form: WhatIfForm, calls: QuerySet[SentContext]
) -> Iterator[ReplayedCall]:
    """Raises ActionError for settings that cannot be."""
    now = context_inputs.build_subject(mysis)
    settings = form.read_settings(now)
    tried = context_inputs.vary_subject(now, **settings)
    budget = settings.get("budget")
    policy = Policy(
        TRIED,
        tried.strategy or registry.DEFAULT,
        tried.options,
        budget.tokens if budget else None,
        budget.reserve if budget else 0,
    )
    return replay_calls(select_myses(mysis.pk, ""), calls, [policy])


def _make_some(
    calls: Iterator[ReplayedCall], rows: QuerySet[SentContext]
) -> dict[str, Any]:
    """The first calls, as many as there is time for; ``total`` where that are not all."""
    made, sums = [], HourSums()
    until = time.monotonic() + LONGEST
    for call in calls:
        made.append(call)
        sums = sums.add(call)
        if time.monotonic() >= until:
            total = rows.count()
            return {"calls": made, "sums": sums, "total": max(total, len(made))}
    return {"calls": made, "sums": sums}


def _write_lines(
    calls: Iterator[ReplayedCall], mysis: Mysis, form: WhatIfForm
) -> Iterator[str]:
    """Rows and sums as HTML, with what was made since the line before."""
    made: list[ReplayedCall] = []
    sums, due = HourSums(), time.monotonic() + AT_ONCE
    draw = partial(_draw_line, mysis=mysis, form=form)
    for call in calls:
        sums, made = sums.add(call), [*made, call]
        if time.monotonic() >= due:
            yield draw(made, sums, ended=False)
            made, due = [], time.monotonic() + AT_ONCE
    yield draw(made, sums, ended=True)


def _draw_line(
    calls: list[ReplayedCall],
    sums: HourSums,
    *,
    ended: bool,
    mysis: Mysis,
    form: WhatIfForm,
) -> str:
    values = {"calls": calls, "sums": sums, "mysis": mysis, "form": form}
    rows = render_to_string("memory/what_if/hour_lines.html", values)
    told = render_to_string(
        "memory/what_if/hour_sums.html", {**values, "ended": ended, "most": MOST}
    )
    return json.dumps({"rows": rows, "sums": told}) + "\n"
