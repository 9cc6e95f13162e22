"""`summary`: from a threshold on, a model's summary stands for what is old (L1-L6)."""

from __future__ import annotations

from memory.context.strategy import Strategy
from memory.context.summaries import (
    Shown,
    SummaryOptions,
    Verdict,
    decide,
    show_summary,
    tokens_now,
)
from memory.context.units import History, Plan


def summary(history: History, options: SummaryOptions) -> Plan:
    """The newest summary and what it does not cover; asks for the next when it is due."""
    shown = show_summary(history)
    verdict = _decide_summary(shown, history, options)
    status = verdict.status
    if shown.head and status in (None, "disabled"):
        status = "compacted"
    return Plan(
        (*shown.head, *shown.units),
        shown.fates,
        status=status,
        reason=verdict.reason,
        summary_wanted=verdict.wanted,
        covers_intent=shown.covers_intent,
        exempt_newest=shown.covers_newest and not options.keep_recent,
    )


def _decide_summary(shown: Shown, history: History, options: SummaryOptions) -> Verdict:
    threshold = options.threshold_in(history.request.budget)
    if not threshold:
        return Verdict("disabled", "A threshold of 0 makes no summaries.")
    if tokens_now((*shown.head, *shown.units), history) < threshold:
        return Verdict()
    return decide(shown, history, options)


STRATEGY = Strategy("summary", summary, SummaryOptions, reads="unsummarized")
