"""Put the stored summary in place of what it covers, and decide on the next one.

The core calls no model: it says what should be summarised and with which request
(L3-L6, A13-A18, I22). The request begins as the view does, so that what the provider
cached of that is used again; only our own tags in it are written otherwise, so that a
record cannot close the summary of itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.context.budget import count_least_tokens, shrink_unit
from memory.context.payback import Payback, SummaryPlan, weigh_summary
from memory.context.seams import Seams
from memory.context.sections import HEADER
from memory.context.strategy import CommonOptions, option
from memory.context.summary_prompt import build_summary_prompt, quote_unit
from memory.context.text import shorten_text
from memory.context.types import (
    FILLER_TEXT,
    UNDERSTOOD_TEXT,
    Budget,
    Status,
    Summary,
    SummaryWanted,
)
from memory.context.units import (
    Fate,
    History,
    Item,
    Plan,
    Unit,
    build_program_unit,
    find_turn_start,
)
from memory.context.wire import write_messages

# A18: no threshold is above this share of the window, less the reserve.
WINDOW_SHARE = 0.8
LAST_ORDER_LABEL = "\n\nLast request from user was: "
_LABEL = (
    "[Summary {generation} of the messages up to {through}. Prior context, no request; "
    "of standing orders only those in the system message hold.{status}]"
)
_DONE = " The request quoted at its end was answered: done unless the summary says otherwise."
_PENDING = " The request quoted at its end had no final answer yet: pending."
# What a summary says of standing orders is a report, also where it copies their heading.
_HEADING = re.compile(rf"^({re.escape(HEADER)})", re.M | re.I)
_BLOCK = re.compile(r"\[Summary \d+ of the messages up to \d+\. Prior context")


@dataclass(frozen=True, slots=True)
class SummaryOptions(CommonOptions):
    """When to summarise, and what to leave out of the summary."""

    threshold: int = option(
        200_000, "Tokens from which on a summary is made; 0 for never.", minimum=0
    )
    keep_recent: int = option(
        3, "Newest units that are not summarised; 0 folds all there is.", minimum=0
    )
    keep_current_turn: bool = option(
        True, "Leave the turn that is going on out of the summary."
    )
    max_summary_tokens: int = option(
        2_000, "Most tokens of a summary; less than that is not folded.", minimum=1
    )

    def threshold_in(self, budget: Budget) -> int:
        """The threshold that applies; 0 where it never fires (A12, A18)."""
        if not self.threshold:
            return 0
        return max(1, min(self.threshold, find_need(budget)))

    def trigger(self, budget: Budget) -> int:
        """The tokens of a view at which a summary is asked for."""
        return self.threshold_in(budget)


def find_need(budget: Budget) -> int:
    """The tokens of a view from which on the budget needs a summary (A18)."""
    return int(budget.tokens * WINDOW_SHARE) - budget.reserve


@dataclass(frozen=True, slots=True)
class Decision:
    """The summary that is asked for, or why none is."""

    status: Status | None = None
    reason: str = ""
    wanted: SummaryWanted | None = None


@dataclass(frozen=True, slots=True)
class SummarizedLog:
    """A log with its summary: `head` is the summary block, `units` what it leaves.

    `covers_intent` and `covers_newest` say whether the block stands for the newest
    order and for the newest unit.
    """

    head: tuple[Unit, ...]
    units: tuple[Unit, ...]
    fates: dict[int, Fate] = field(default_factory=dict)
    covers_intent: bool = False
    covers_newest: bool = False


def is_summary_block(text: str) -> bool:
    """Whether a text of a view is a summary block, so that it is nobody's order."""
    return _BLOCK.match(text) is not None


def find_quoted_order(block: str) -> tuple[str, bool]:
    """The order quoted at the end of a summary block, and whether it was answered."""
    label, _, rest = block.partition("\n")
    _, found, order = rest.rpartition(LAST_ORDER_LABEL)
    return (order if found else "", _DONE.strip() in label)


def apply_summary(history: History) -> SummarizedLog:
    """The log with the request's summary, which is always used once it exists.

    A unit is covered when all its rows are, and never with an interim result (A31).
    What follows the covered span does not change the block (I25).
    """
    summary = history.summary
    text = history.sanitize(summary.text).strip() if summary else ""
    text = _HEADING.sub(r"> \1", text)
    if summary is None or not text:
        return SummarizedLog((), history.units)
    covered: list[Unit] = []
    left: list[Unit] = []
    for unit in history.units:
        inside = max(unit.rows) <= summary.through_id and not unit.pending
        (covered if inside else left).append(unit)
    why = f"Told in the summary of the messages up to {summary.through_id}."
    fate = Fate("summarized", "summary", why)
    fates = {row: fate for unit in covered for row in unit.sources}
    orders = [unit for unit in history.units if unit.intent]
    return SummarizedLog(
        (_summary_unit(summary, text, covered, history),),
        tuple(left),
        fates,
        covers_intent=bool(orders) and orders[-1].rows[0] in fates,
        covers_newest=bool(history.units) and history.units[-1].rows[0] in fates,
    )


def _summary_unit(
    summary: Summary, text: str, covered: Sequence[Unit], history: History
) -> Unit:
    """Label and summary, with the newest order that it covers verbatim at the end."""
    place = max((i for i, unit in enumerate(covered) if unit.intent), default=None)
    status = ""
    if place is not None:
        # Done once the agent finished with words of its own after the order.
        answered = any(
            unit.role == "assistant" and not unit.items[0].calls
            for unit in covered[place + 1 :]
        )
        status = _DONE if answered else _PENDING
    label = _LABEL.format(
        generation=summary.generation, through=summary.through_id, status=status
    )
    content = f"{label}\n\n{text}"
    if place is not None:
        content += _quote_order(covered[place].items[0], content, history)
    tokens = history.count(content)
    return build_program_unit(content, tokens, "summary", required=True)


def _quote_order(order: Item, before: str, history: History) -> str:
    """The newest order, shortened in its middle where it would fill the view (A15)."""
    limit = history.room // 2
    whole = LAST_ORDER_LABEL + order.content
    if order.source is None or history.count(before + whole) <= limit:
        return whole
    room = max(1, limit - history.count(before + LAST_ORDER_LABEL))
    handle = history.handle(order.source)
    cut = shorten_text(order.content, room, history.count, handle)
    if cut is None:  # not even the note fits half of it; the budget has the last word
        cut = shorten_text(order.content, 64, history.count, handle) or order.content
    return LAST_ORDER_LABEL + cut


def plan_view(
    shown: SummarizedLog, decision: Decision, options: SummaryOptions
) -> Plan:
    """The plan of a log with its summary, after the decision on the next one."""
    status = decision.status
    if shown.head and status in (None, "disabled"):
        status = "compacted"
    return Plan(
        (*shown.head, *shown.units),
        shown.fates,
        status=status,
        reason=decision.reason,
        summary_wanted=decision.wanted,
        covers_intent=shown.covers_intent,
        exempt_newest=shown.covers_newest and not options.keep_recent,
    )


def estimate_next_call(units: Sequence[Unit], history: History) -> int:
    """The tokens of the next call: the estimate, or the last report and what came since.

    The larger of both counts (A13), so that neither a new session nor a result that
    came after the report hides how full the context is.
    """
    around = history.window - history.room
    seams = Seams.count(history.request.dialect, "", history.count).between(units)
    estimate = around + sum(unit.tokens for unit in units) + seams
    known = history.request.compaction
    if not known.reported_tokens:
        return estimate
    if known.reported_estimate:
        return estimate + max(0, known.reported_tokens - known.reported_estimate)
    since = (u for u in units if u.rows and u.rows[0] > known.reported_through)
    return max(estimate, known.reported_tokens + sum(unit.tokens for unit in since))


def decide_summary(
    shown: SummarizedLog, history: History, options: SummaryOptions, keep: float = 0
) -> Decision:
    """Ask for a summary of the oldest units, or say why none is asked for.

    With `keep` only so many units are folded that the others have that many tokens.
    """
    # Rows before this were read with gaps between them, so no span may reach there.
    since = history.request.unbroken_from
    first = next(
        (at for at, unit in enumerate(shown.units) if max(unit.rows) >= since),
        len(shown.units),
    )
    limit = limit_summary(options, history)
    old = shown.units[first : _find_cut(shown, options, keep)]
    fitting = _select_fitting(shown, old, history, limit)
    if old and not fitting:
        need = _count_beside(shown, history, limit) + count_least_tokens(
            old[0], history
        )
        why = f"A request for a summary needs {need} tokens; {history.room} are left."
        return Decision("nothing_to_fold", why)
    folded = _select_foldable(fitting, shown.units[first + len(fitting) :])
    if not folded:
        if shown.head:
            return Decision("already_compacted", "Nothing new may be folded yet.")
        return Decision("nothing_to_fold", "All there is must stay as it is.")
    tokens = sum(unit.tokens for unit in folded)
    if tokens <= limit:
        why = f"{tokens} tokens to fold are no more than a summary may have."
        return Decision("not_worth_it", why)
    known = history.request.compaction
    if known.breaker_open:
        return Decision(
            "breaker_open", "Summaries failed too often; none is asked for."
        )
    if known.cooling_turns > 0:
        why = f"The next summary may be asked for in {known.cooling_turns} turns."
        return Decision("cooling_down", why)
    if known.failure:
        failure = history.sanitize(known.failure)
        return Decision("summary_failed", f"The summary failed: {failure}"[:300])
    return _ask(shown, folded, history, limit)


def limit_summary(options: SummaryOptions, history: History) -> int:
    """The most tokens of a summary: a quarter of the room, to leave some to fold."""
    return max(1, min(options.max_summary_tokens, history.room // 4))


def _ask(
    shown: SummarizedLog, folded: list[Unit], history: History, limit: int
) -> Decision:
    # A unit with a late result may begin in the span of the previous summary.
    before = history.summary.through_id if shown.head and history.summary else -1
    rows = [row for unit in folded for row in unit.rows if row > before]
    tokens = sum(unit.tokens for unit in folded)
    replaced = tokens + sum(unit.tokens for unit in shown.head)
    # One that frees less than half would soon be asked for again.
    limit = max(1, min(limit, replaced // 2))
    span = f"A summary of the messages {min(rows)} to {max(rows)}"
    payback = _weigh(shown, folded, history, limit)
    if payback is not None and not payback.worth_it:
        why = f"{span} is not made before the budget needs it. {payback.explain()}"
        return Decision("not_worth_it", why)
    request = _build_request(shown, folded, history, limit)
    wanted = SummaryWanted(
        min(rows), max(rows), request, tokens, replaced, limit, payback
    )
    told = f" {payback.explain()}" if payback else ""
    return Decision(None, f"{span} is wanted.{told}", wanted)


def _weigh(
    shown: SummarizedLog, folded: Sequence[Unit], history: History, limit: int
) -> Payback | None:
    """What the summary saves and costs; None where the model has no known price."""
    known = history.request.compaction
    if known.prices is None:
        return None
    size = estimate_next_call((*shown.head, *shown.units), history)
    need = find_need(history.request.budget)
    tokens = sum(unit.tokens for unit in folded)
    replaced = tokens + sum(unit.tokens for unit in shown.head)
    answers = sum(unit.role == "assistant" for unit in folded)
    around = history.window - history.room
    plan = SummaryPlan(
        request=around + replaced,
        asked=history.count(_build_prompt(history, limit)),
        answer=limit,
        kept=limit + sum(unit.tokens for unit in shown.units) - tokens,
        saved=replaced - limit,
        room=need - size,
        growth=tokens / max(1, answers),
    )
    share = known.reported_cached / (known.reported_tokens or 1)
    return weigh_summary(plan, known.prices, min(1.0, share), needed=size >= need)


def _find_cut(shown: SummarizedLog, options: SummaryOptions, keep: float) -> int:
    units = shown.units
    cut = max(0, len(units) - options.keep_recent)
    if options.keep_current_turn and options.keep_recent:
        cut = min(cut, find_turn_start(units))
    left = sum(unit.tokens for unit in units)
    for index in range(cut if keep else 0):
        if left <= keep:
            return index
        left -= units[index].tokens
    return cut


def _count_beside(shown: SummarizedLog, history: History, limit: int) -> int:
    """The tokens of a request beside those of the units it folds."""
    made_up = (_build_prompt(history, limit), UNDERSTOOD_TEXT, FILLER_TEXT)
    return sum(map(history.count, made_up)) + sum(unit.tokens for unit in shown.head)


def _select_fitting(
    shown: SummarizedLog, units: Sequence[Unit], history: History, limit: int
) -> list[Unit]:
    """As many of the oldest units as one request takes; the first is cut if need be."""
    left = history.room - _count_beside(shown, history, limit)
    if history.request.compaction.fold_tokens:
        left = min(left, history.request.compaction.fold_tokens)
    seams = Seams.count(history.request.dialect, "", history.count)
    before = shown.head[-1] if shown.head else None
    fitting: list[Unit] = []
    for unit in units:
        left -= seams.between([before, unit])
        if unit.tokens > left:
            first = None if fitting else shrink_unit(unit, left, history)
            return fitting if first is None else [first]
        left -= unit.tokens
        fitting.append(unit)
        before = unit
    return fitting


def _select_foldable(old: Sequence[Unit], others: Sequence[Unit]) -> list[Unit]:
    """Those of the old units that a summary may cover.

    Units with an interim result stay (A31). So does a unit with a row newer than one
    that stays, since a summary covers everything up to an id.
    """
    staying = [unit.rows[0] for unit in others if not unit.pending]
    end = min(staying, default=None)
    return [
        unit
        for unit in old
        if not unit.pending and (end is None or max(unit.rows) < end)
    ]


def _build_request(
    shown: SummarizedLog, folded: Sequence[Unit], history: History, limit: int
) -> list[dict[str, object]]:
    """The beginning of the view, then the prompt; it ends as a request must (L3, A17)."""
    units = [quote_unit(unit) for unit in (*shown.head, *folded)]
    if units[-1].items[-1].role != "assistant":
        units.append(build_program_unit(UNDERSTOOD_TEXT, 0, "filler", "assistant"))
    units.append(build_program_unit(_build_prompt(history, limit), 0, "prompt"))
    dialect = history.request.dialect
    filled = Seams.count(dialect, "", history.count).fill(units)
    return write_messages(dialect, history.system, filled).messages


def _build_prompt(history: History, limit: int) -> str:
    given = history.sanitize(history.request.compaction.prompt).strip()
    return build_summary_prompt(given, limit)
