"""The cheapest policy that lost nothing over the last recorded calls, and what it gives up.

It is read from a kept replay, so it says what was measured and never what might be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, Q

from agents.dashboard.shared_results import shared
from agents.lab.call_figures import CallFigures
from agents.lab.policies import OWN
from agents.lab.report import PolicyTotals
from agents.models import Mysis, Replay, ReplayCall
from memory.context.offered_tools import pick_tool_options
from memory.models import ContextPolicy

# So many of the newest calls of a Mysis are judged.
CALLS = 1_000
# Replays that are looked through for calls of a Mysis, newest first.
REPLAYS = 10
# Fewer calls than these say little.
FEW = 20
# What of a policy decides how calls are assembled.
SETTINGS = ("strategy", "options", "budget_tokens", "budget_reserve")
Figures = Mapping[str, Any]
# What a policy must not do, by the name of its figure: one, and several.
_BROKEN = {
    "unsent": ("call could not be sent", "calls could not be sent"),
    "invalid": ("call was not valid", "calls were not valid"),
    "over_budget": ("call missed the budget", "calls missed the budget"),
}
_LOST = {
    "pins": ("standing order was lost", "standing orders were lost"),
    "orders": ("open order was lost", "open orders were lost"),
    "notes": ("note was lost", "notes were lost"),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy with its figures; ``faults`` are why it is not taken.

    ``gives_up`` is what it has less of than each call's own policy. ``stored`` is the
    policy with these very settings that can be chosen, None where there is none. What was
    tried without a budget has in ``settings`` that of whom it is for.
    """

    name: str
    settings: Mapping[str, Any]
    figures: Figures
    price: float
    faults: tuple[str, ...]
    gives_up: tuple[str, ...]
    stored: ContextPolicy | None

    @property
    def is_own(self) -> bool:
        return self.name == OWN


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to choose for whom; ``best`` is None where every policy lost something.

    Prices are dollars with the provider's cache where every call has a price
    (``priced``), else tokens. The calls were made from ``since`` to ``until``.
    """

    replay: Replay
    calls: int
    since: datetime
    until: datetime
    priced: bool
    candidates: tuple[Candidate, ...]
    best: Candidate | None

    @property
    def own(self) -> Candidate:
        return next(each for each in self.candidates if each.is_own)

    @property
    def is_thin(self) -> bool:
        return self.calls < FEW

    @property
    def refused(self) -> list[Candidate]:
        """Those that cost less than the best, and why they are not taken."""
        most = self.best.price if self.best else float("inf")
        return [one for one in self.candidates if one.faults and one.price < most]

    @property
    def saved(self) -> float | None:
        """The part of what the own policy costs that is saved; below 0 it costs more."""
        if self.best is None or not self.own.price:
            return None
        return 1 - self.best.price / self.own.price


def recommend_for_mysis(mysis: Mysis) -> Recommendation | None:
    """By the newest finished replay that has calls of it; None where there is none."""
    labels = [*filter(None, [mysis.group]), *mysis.tags]
    named = Q(mysis=mysis) | Q(mysis=None, label__in=["", *labels])
    done = Replay.objects.filter(named, state=Replay.State.DONE).order_by("-pk")
    for replay in done.exclude(policies=[])[:REPLAYS]:
        if found := recommend_from_rows(replay, mysis):
            return found
    return None


def recommend_for_fleet() -> Recommendation | None:
    """By the newest finished replay of the whole fleet."""
    done = Replay.objects.filter(mysis=None, label="", state=Replay.State.DONE)
    replay = done.exclude(policies=[]).order_by("-pk").first()
    return recommend_from_report(replay) if replay else None


def recommend_from_report(replay: Replay) -> Recommendation | None:
    """Over all calls of a finished replay."""
    judged = _share(replay, None, lambda: _judge_report(replay))
    whom = replay.mysis
    usual = whom.effective_policy if whom else ContextPolicy.read_default()
    return _recommend(replay, judged, usual)


def recommend_from_rows(replay: Replay, mysis: Mysis) -> Recommendation | None:
    """Over the newest calls of one Mysis in a replay; None where it has none there."""
    judged = _share(replay, mysis, lambda: _judge_rows(replay, mysis))
    return _recommend(replay, judged, mysis.effective_policy)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Figures of each policy by its name, over calls of some span."""

    figures: Mapping[str, Figures]
    since: datetime
    until: datetime


def _share(
    replay: Replay, mysis: Mysis | None, judge: Callable[[], _Judged | None]
) -> _Judged | None:
    """What a finished replay comes to, read once for all who look at it."""
    key = ("advice", replay.pk, replay.finished_at, mysis and mysis.pk)
    return shared.get(key, judge)


def _judge_report(replay: Replay) -> _Judged | None:
    span = replay.calls.aggregate(since=Min("at"), until=Max("at"))
    if span["since"] is None:
        return None
    return _Judged({each["name"]: each for each in replay.report["policies"]}, **span)


def _judge_rows(replay: Replay, mysis: Mysis) -> _Judged | None:
    rows = ReplayCall.objects.filter(replay=replay, mysis_id=mysis.pk)
    found = list(rows.order_by("-place").values_list("figures", "at")[:CALLS])
    if not found:
        return None
    totals: dict[str, PolicyTotals] = {}
    for figures, _ in found:
        for name, values in figures.items():
            totals.setdefault(name, PolicyTotals()).add(CallFigures(**values))
    described = {name: one.describe() for name, one in totals.items()}
    moments = [at for _, at in found]
    return _Judged(described, min(moments), max(moments))


def _recommend(
    replay: Replay, judged: _Judged | None, usual: ContextPolicy
) -> Recommendation | None:
    """The judgement of each policy; ``usual`` has what others leave out."""
    if judged is None:
        return None
    figures = judged.figures
    own = figures[OWN]
    prices = [each["cached_cost"] for each in figures.values()]
    # A model that costs nothing, as the pilot, is as good as without a price.
    priced = not any(each["unpriced"] for each in figures.values()) and any(prices)
    stored = list(ContextPolicy.objects.order_by("name"))
    settings = {each["name"]: _fill_settings(each, usual) for each in replay.policies}
    candidates = []
    for name, each in figures.items():
        price = (each["cached_cost"] or 0) if priced else each["tokens"]["sum"]
        asked = settings.get(name, {})
        candidates.append(
            Candidate(
                name=name,
                settings=asked,
                figures=each,
                price=float(price),
                faults=tuple(_list_faults(each)),
                gives_up=tuple(_list_losses(each, own)),
                stored=_find_stored(asked, stored),
            )
        )
    sound = [each for each in candidates if not each.faults]
    # Of two that cost the same, the one that is in use.
    best = min(sound, key=lambda one: (one.price, not one.is_own), default=None)
    return Recommendation(
        replay=replay,
        calls=own["requests"] + own["unsent"],
        since=judged.since,
        until=judged.until,
        priced=priced,
        candidates=tuple(candidates),
        best=best,
    )


def _fill_settings(settings: Mapping[str, Any], usual: ContextPolicy) -> dict[str, Any]:
    """The settings with a budget and tools: each call's own are as a rule the usual ones."""
    found = {**settings}
    if found.pop("keeps_tools", False):
        found["options"] = pick_tool_options(usual.options)
    if found["budget_tokens"] is None:
        for name in ("budget_tokens", "budget_reserve"):
            found[name] = getattr(usual, name)
    return found


def _find_stored(
    settings: Mapping[str, Any], stored: Iterable[ContextPolicy]
) -> ContextPolicy | None:
    """The stored policy with just these settings, of several that of the same name."""
    same = [
        row
        for row in stored
        if all(getattr(row, name) == settings.get(name) for name in SETTINGS)
    ]
    return min(same, key=lambda row: row.name != settings.get("name"), default=None)


def _list_faults(figures: Figures) -> Iterable[str]:
    """Why a policy is not to be taken, in words."""
    counts = {name: figures[name] for name in _BROKEN}
    counts |= {name: _count_lost(figures, name) for name in _LOST}
    words = _BROKEN | _LOST
    for name, count in counts.items():
        if count:
            yield f"{count:,} {words[name][count > 1]}"


def _count_lost(figures: Figures, name: str) -> int:
    lost: int = figures[name]["of"] - figures[name]["kept"]
    return lost


def _list_losses(figures: Figures, own: Figures) -> Iterable[str]:
    """What a policy has less of than the own one, in sentences."""
    if figures["messages"] < own["messages"]:
        yield (
            f"A view has {figures['messages']:,g} messages on average; these calls had "
            f"{own['messages']:,g}."
        )
    lost = figures["facts_lost"] - own["facts_lost"]
    if lost > 0:
        handles = min(lost, figures["facts_with_handle"])
        ways = f"a handle leads back to {handles:,}" if handles else "no handle to any"
        yield f"{lost:,} results of tools that these calls had are missing; {ways}."
    values = _count_lost(figures, "state_values") - _count_lost(own, "state_values")
    if values > 0:
        yield f"{values:,} values of the game's state are not shown."
    if figures["shared"] < own["shared"] - 0.01:
        yield (
            f"The provider's cache can keep {figures['shared']:.0%} of a request, of "
            f"these calls {own['shared']:.0%}."
        )
    more = figures["compactions"] - own["compactions"]
    if more > 0:
        yield f"{more:,} more summaries are asked for, and a model has to make them."


def describe_recommendation(found: Recommendation | None) -> dict[str, Any]:
    """What is recommended, as JSON tells it over every door."""
    return {
        "replay": found and found.replay.pk,
        "calls": found.calls if found else 0,
        "since": found and found.since,
        "until": found and found.until,
        "unit": "dollars" if found and found.priced else "tokens",
        "best": found.best.name if found and found.best else None,
        "saved": found and found.saved,
        "candidates": [*map(_describe_candidate, found.candidates)] if found else [],
    }


def _describe_candidate(one: Candidate) -> dict[str, Any]:
    return {
        "name": one.name,
        "policy": one.stored.name if one.stored else None,
        "price": one.price,
        "faults": [*one.faults],
        "gives_up": [*one.gives_up],
        "figures": one.figures,
    }
