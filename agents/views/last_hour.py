"""The last hour of a Mysis under the settings of the what-if form.

The rows are sent as they are made; nothing goes on when the page is left, or when another
setting is tried.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents import context_inputs
from agents.actions import ActionError
from agents.db import run_long_in_db
from agents.forms import WhatIfForm
from agents.lab.policies import OWN, Policy
from agents.lab.replay import (
    ReplayedCall,
    replay_calls,
    select_calls,
    select_myses,
)
from agents.models import Mysis
from agents.views.access import PageRequest, find_mysis
from memory.context import registry

HOUR = timedelta(hours=1)
# Of more calls the newest.
MOST = 1_000
# Seconds after which the rows that are made are sent.
AT_ONCE = 0.15
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
    calls: Iterator[ReplayedCall] = iter(())
    try:
        if form.has_values():
            calls = _replay_hour(mysis, form)
    except ActionError as error:
        form.add_refusal(error.detail)
    if not form.has_values():
        return _render(request, mysis, form, [], 422)
    if not streams:
        return _render(request, mysis, form, list(calls), 200)
    return StreamingHttpResponse(
        _stream(_write_lines(calls, mysis, form)), content_type="application/x-ndjson"
    )


def _replay_hour(mysis: Mysis, form: WhatIfForm) -> Iterator[ReplayedCall]:
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
    calls = select_calls(timezone.now() - HOUR, None)
    newest = calls.filter(mysis=mysis).order_by("-pk")
    first = newest.values_list("pk", flat=True)[MOST - 1 : MOST].first()
    if first is not None:
        calls = calls.filter(pk__gte=first)
    return replay_calls(select_myses(mysis.pk, ""), calls, [policy])


def _render(
    request: PageRequest,
    mysis: Mysis,
    form: WhatIfForm,
    calls: list[ReplayedCall],
    status: int,
) -> HttpResponse:
    sums = HourSums()
    for call in calls:
        sums = sums.add(call)
    values = {"mysis": mysis, "form": form, "calls": calls, "sums": sums}
    values |= {"tab": "context", "most": MOST}
    return render(request, "memory/what_if/hour_page.html", values, status=status)


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


async def _stream(lines: Iterator[str]) -> AsyncIterator[str]:
    while line := await run_long_in_db(next, lines, ""):
        yield line
