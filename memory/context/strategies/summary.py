"""`summary`: from a threshold on, a model's summary stands for what is old (L1-L6)."""

from __future__ import annotations

from memory.context.strategy import Strategy
from memory.context.summaries import (
    Decision,
    SummarizedLog,
    SummaryOptions,
    apply_summary,
    decide_summary,
    estimate_next_call,
)
from memory.context.units import History, Plan


def plan_summary(history: History, options: SummaryOptions) -> Plan:
    """The newest summary and what it does not cover; asks for the next when it is due."""
    shown = apply_summary(history)
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


def _decide_summary(
    shown: SummarizedLog, history: History, options: SummaryOptions
) -> Decision:
    threshold = options.threshold_in(history.request.budget)
    if not threshold:
        return Decision("disabled", "A threshold of 0 makes no summaries.")
    if estimate_next_call((*shown.head, *shown.units), history) < threshold:
        return Decision()
    return decide_summary(shown, history, options)


STRATEGY = Strategy("summary", plan_summary, SummaryOptions, reads="unsummarized")
