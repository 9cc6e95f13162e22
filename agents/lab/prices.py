"""Price before pay: what the last hour's calls would have cost under another setting.

A few of these calls, evenly spread, are assembled anew as they were but for that
setting; what that changes of their tokens is taken to change all of them. Answers are as
long as they were. Of the provider's cache it is assumed to know as much of what two
calls in a row share as it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from agents.dashboard.charts import find_first_turn_since
from agents.lab.retaken import ReassembledCall, Setting, find_endpoint, retake_calls
from agents.llm.endpoints import resolve
from agents.llm.model_types import Endpoint, ModelError, Usage, price_usage
from agents.models import ModelCall, Mysis
from memory.concurrency import ConcurrencyLimit
from memory.models import fetch_rows

# Settings of a Mysis whose calls cost more or less with them.
PRICED = ("model", "prompt", "policy")
HOUR = timedelta(hours=1)
# Calls that are assembled anew at most.
SAMPLE = 20
# Each assembles up to that many contexts, and every role may ask.
_places = ConcurrencyLimit(
    2, seconds=5, refusal="Others are asking what settings would cost: not predicted."
)

# Of the calls that were answered: how many, and what they used, by kind and model.
_SUMS = """
SELECT call.kind, call.model, count(*), sum(call.input_tokens)::bigint,
  sum(call.output_tokens)::bigint, sum(call.cached_tokens)::bigint, sum(call.cost)
FROM agents_turn AS turn JOIN agents_modelcall AS call ON call.turn_id = turn.id
WHERE turn.mysis_id = ANY(%(myses)s) AND turn.id >= %(floor)s AND call.input_tokens > 0
GROUP BY 1, 2
"""
# At most so many of them, evenly spread; those whose context is still kept.
_SAMPLE = """
SELECT id FROM (
  SELECT sent.id, row_number() OVER (ORDER BY turn.mysis_id, call.id) AS place,
    count(*) OVER () AS found
  FROM agents_turn AS turn JOIN agents_modelcall AS call ON call.turn_id = turn.id
  JOIN memory_sentcontext AS sent ON sent.call_id = call.id
  WHERE turn.mysis_id = ANY(%(myses)s) AND turn.id >= %(floor)s
    AND call.kind = 'turn' AND call.input_tokens > 0
) AS calls
WHERE place * %(most)s / greatest(found, %(most)s)
  > (place - 1) * %(most)s / greatest(found, %(most)s)
"""


@dataclass(frozen=True, slots=True)
class Spending:
    """What calls use in an hour; ``cost`` in US dollars, None where no price is known."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cost: Decimal | None = Decimal(0)

    @property
    def tokens(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Prediction:
    """The last hour as it was, and as it would have been.

    ``calls`` were made in it, and ``sampled`` of them assembled anew. ``notes`` say what
    the figures cannot tell, ``problem`` why there are none.
    """

    calls: int
    now: Spending
    then: Spending | None = None
    sampled: int = 0
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def basis(self) -> str:
        """What the figures rest on, in words."""
        few = f", {self.sampled} of them assembled anew"
        told = few if self.sampled < self.calls else ""
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        return f"From {calls} of the last hour{told}."

    @property
    def tokens_percent(self) -> int | None:
        """By how much the tokens change; None where there is nothing to compare."""
        return _find_percent(self.now.tokens, self.then.tokens) if self.then else None

    @property
    def cost_percent(self) -> int | None:
        if self.then is None or self.now.cost is None or self.then.cost is None:
            return None
        return _find_percent(self.now.cost, self.then.cost)


def _find_percent(before: int | Decimal, after: int | Decimal) -> int | None:
    return round(float((after - before) / before) * 100) if before else None


class Sums(NamedTuple):
    """What the answered calls of one kind and model used."""

    kind: str
    model: str
    calls: int
    input: int
    output: int
    cached: int
    cost: Decimal


def predict_price(
    myses: Sequence[Mysis], setting: Setting, now: datetime
) -> Prediction:
    """What the calls of the last hour of these Myses would have used.

    Raises a 503 Problem where too many ask at once.
    """
    floor = find_first_turn_since(now - HOUR)
    values = {"myses": [one.pk for one in myses], "floor": floor, "most": SAMPLE}
    rows = fetch_rows(_SUMS, values) if floor is not None else ()
    sums = [Sums(*row) for row in rows]
    turns = [one for one in sums if one.kind == ModelCall.Kind.TURN]
    calls = sum(one.calls for one in turns)
    present = _add_up(sums)
    if problem := _find_problem(myses, setting, calls):
        return Prediction(calls, present, problem=problem)
    with _places.taken():
        ids = [number for (number,) in fetch_rows(_SAMPLE, values)]
        retaken = list(retake_calls(myses, setting, ids, replays=bool(present.cached)))
    if not retaken:
        return Prediction(
            calls,
            present,
            problem="None of the calls of the last hour can be assembled anew: what they "
            "were sent is no longer kept, or their strategy is gone.",
        )
    folded = [one for one in sums if one not in turns]
    if not any(one.summarises for one in retaken):
        folded = []
    then = _scale(_add_up(turns), retaken, _add_up(folded))
    notes = _write_notes(setting, retaken, turns, summaries=bool(folded))
    return Prediction(calls, present, then, len(retaken), notes)


def describe_prediction(found: Prediction) -> dict[str, Any]:
    """A prediction, as JSON tells it over every door."""
    return {
        "calls": found.calls,
        "sampled": found.sampled,
        "now": _describe_spending(found.now),
        "then": found.then and _describe_spending(found.then),
        "basis": found.basis,
        "notes": [*found.notes],
        "problem": found.problem,
    }


def _describe_spending(one: Spending) -> dict[str, Any]:
    cost = None if one.cost is None else float(one.cost)
    return {"tokens": one.tokens, **asdict(one), "cost": cost}


def _find_problem(myses: Sequence[Mysis], setting: Setting, calls: int) -> str:
    """Why nothing can be predicted, empty where it can."""
    try:
        resolve(setting.model or "pilot")
    except ModelError as error:
        return str(error)
    if calls:
        return ""
    if not myses:
        return "No Mysis has it yet, so no call tells what it costs."
    who = "it" if len(myses) == 1 else "the Myses that have it"
    return (
        f"No call of {who} was answered in the last hour, so nothing tells what it "
        "costs an hour."
    )


def _add_up(sums: Sequence[Sums]) -> Spending:
    cost = sum((one.cost for one in sums), Decimal(0))
    unknown = any(not one.cost and not _has_price(one.model) for one in sums)
    return Spending(
        sum(one.input for one in sums),
        sum(one.output for one in sums),
        sum(one.cached for one in sums),
        None if unknown else cost,
    )


def _has_price(model: str) -> bool:
    endpoint = find_endpoint(model)
    return endpoint is not None and price_usage(endpoint, Usage()) is not None


# --- From a few calls to the hour


def _scale(
    turns: Spending, retaken: Sequence[ReassembledCall], summaries: Spending
) -> Spending:
    """What all calls would have used, with the summaries as they were."""
    scale = turns.input / sum(one.was.input for one in retaken)
    known = sum(one.was.cached for one in retaken)
    cacheable = sum(one.was_cacheable for one in retaken)
    # How much the provider's cache knew of what it could.
    luck = known / cacheable if cacheable else 0.0
    found = [min(one.input, one.cacheable * luck) for one in retaken]
    made = [
        Usage(round(one.input), one.was.output, min(cached, round(one.input)))
        for one, cached in zip(retaken, _round_together(found), strict=True)
    ]
    ends = [one.endpoint for one in retaken]
    cost = _price(zip(ends, made, strict=True))
    was = _price((one.was_endpoint, one.was) for one in retaken)
    if cost is not None and was and _is_same_model(retaken):
        # What lists do not tell of a price, such as of filling a cache, stays as it was.
        cost = (turns.cost or Decimal(0)) * cost / was
    elif cost is not None:
        cost *= Decimal(scale)
    if cost is not None and summaries.cost is not None:
        cost += summaries.cost
    else:
        cost = None
    return Spending(
        round(scale * sum(usage.input for usage in made)) + summaries.input,
        turns.output + summaries.output,
        round(scale * sum(usage.cached for usage in made)) + summaries.cached,
        cost,
    )


def _round_together(amounts: Iterable[float]) -> list[int]:
    """Whole numbers with the sum of the amounts, rounded: as before if nothing changed."""
    sums = [0, *map(round, accumulate(amounts))]
    return [after - before for before, after in pairwise(sums)]


def _is_same_model(retaken: Sequence[ReassembledCall]) -> bool:
    return all(one.endpoint == one.was_endpoint for one in retaken)


def _price(calls: Iterable[tuple[Endpoint | None, Usage]]) -> Decimal | None:
    """US dollars at list prices; None where one of them has no price."""
    total = Decimal(0)
    for endpoint, usage in calls:
        cost = price_usage(endpoint, usage) if endpoint else None
        if cost is None:
            return None
        total += cost
    return total


def _write_notes(
    setting: Setting,
    retaken: Sequence[ReassembledCall],
    turns: Sequence[Sums],
    *,
    summaries: bool,
) -> tuple[str, ...]:
    """What the figures cannot tell, in sentences."""
    count = len(retaken)
    notes = []
    if tight := sum(not one.fits for one in retaken):
        notes.append(
            f"{tight} of {count} calls would have had no room: their tokens are missing "
            "here, and such a turn fails."
        )
    models = {setting.model} if setting.model else {one.model for one in turns}
    if unknown := sorted(name for name in models if not _has_price(name)):
        notes.append(f"No price of {', '.join(unknown)} is known: tokens only.")
    if wants := sum(one.wants_summary for one in retaken):
        notes.append(
            f"{wants} of {count} calls would ask for a summary first: what it costs, and "
            "what it saves later, is not in this."
        )
    if summaries:
        notes.append("Summaries are counted as they were.")
    if not _is_same_model(retaken) and any(one.was.cached for one in retaken):
        notes.append("What its cache would save is not known.")
    if lacks := sum(one.lacks_state for one in retaken):
        notes.append(
            f"The game state of {lacks} of {count} calls is not kept, so it is missing "
            "in what is predicted."
        )
    return tuple(notes)
