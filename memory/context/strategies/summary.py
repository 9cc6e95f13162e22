"""`summary`: from a threshold on, a model's summary stands for what is old (L1-L6)."""

from __future__ import annotations

from memory.context.strategy import Strategy
from memory.context.summaries import (
    Decision,
    SummaryOptions,
    apply_summary,
    decide_summary,
    estimate_next_call,
    plan_view,
)
from memory.context.units import History, Plan


def plan_summary(history: History, options: SummaryOptions) -> Plan:
    """The newest summary and what it does not cover; asks for the next when it is due."""
    shown = apply_summary(history)
    threshold = options.threshold_in(history.request.budget)
    if not threshold:
        decision = Decision("disabled", "A threshold of 0 makes no summaries.")
    elif estimate_next_call((*shown.head, *shown.units), history) < threshold:
        decision = Decision()
    else:
        decision = decide_summary(shown, history, options)
    return plan_view(shown, decision, options)


STRATEGY = Strategy("summary", plan_summary, SummaryOptions, reads="unsummarized")
