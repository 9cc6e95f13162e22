"""What is wrong with whom, the worst first, and where to mend it.

Errors lead to a form or a page by the code that is stored beside their text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter

from django.db.models import JSONField, OuterRef, Q, Subquery
from django.urls import reverse
from django.utils.text import capfirst

from agents.dashboard.conversation import clip_text
from agents.llm.endpoints import list_provider_candidates
from agents.models import (
    Alert,
    ErrorCode,
    Mysis,
    Provider,
    Rule,
)
from memory.context.types import STATE_LEFT_OUT
from memory.models import SentContext

# What only an admin may open is shown to admins only.
ADMINS, ALL = "admin-only", ""
SILENT = timedelta(minutes=5)
# Characters. The front page names the cause; the Mysis's own page has the whole text.
TEXT = 200
# Names that a line of equal troubles has.
NAMED = 8


@dataclass(frozen=True, slots=True)
class Fix:
    """Where to mend it; ``css`` names who may.

    ``each`` are names and links, where several Myses have each a place of its own.
    """

    label: str
    link: str
    css: str = ADMINS
    each: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """One Mysis that needs somebody, why, and where to mend it.

    ``more`` are the other ways out, ``others`` the Myses in the same trouble.
    """

    mysis: Mysis
    text: str
    remedy: str
    fix: Fix
    more: tuple[Fix, ...] = ()
    others: tuple[Mysis, ...] = ()

    @property
    def myses(self) -> tuple[Mysis, ...]:
        return (self.mysis, *self.others)

    @property
    def named(self) -> tuple[Mysis, ...]:
        return self.myses[:NAMED]

    @property
    def unnamed(self) -> int:
        return max(0, len(self.myses) - NAMED)

    @property
    def fixes(self) -> tuple[Fix, ...]:
        return (self.fix, *self.more)


def find_troubles(now: datetime) -> list[Trouble]:
    """Who needs somebody, the worst first; a Mysis stands in the list once."""
    long_ago = now - SILENT
    sent = SentContext.objects.filter(mysis=OuterRef("pk")).order_by("-id")
    warnings = Subquery(sent.values("stats__warnings")[:1], output_field=JSONField())
    troubled = ~Q(stuck="") | ~Q(last_error="") | Q(last_memory_at__lt=long_ago)
    troubled |= Q(warnings__contains=[STATE_LEFT_OUT])
    running = Q(state=Mysis.State.RUNNING)
    wrong = (
        Q(state=Mysis.State.ERRORED)
        | ~Q(hold="")
        | ~Q(lost_pins="")
        | running & troubled
    )
    alarms = _load_alarms()
    wrong |= Q(pk__in=alarms)
    seen = Mysis.objects.annotate(warnings=warnings)
    rows = list(seen.filter(wrong).select_related("policy").order_by("name"))
    Mysis.share_fleet_policy(row for row in rows if _leads_to_policy(row))
    known = load_provider_ids() if rows else {}
    found: list[tuple[int, Trouble]] = []
    for mysis in rows:
        ranked = list(_list_troubles(mysis, known, long_ago))
        ranked += _list_alarms(mysis, alarms.get(mysis.pk, ()))
        if ranked:
            ranked.sort(key=itemgetter(0))
            rank, worst = ranked[0]
            text = " ".join(clip_text(one.text, TEXT) for _, one in ranked)
            found.append((rank, replace(worst, text=text)))
    return [one for _, one in sorted(found, key=itemgetter(0))]


def join_equal(troubles: Sequence[Trouble]) -> list[Trouble]:
    """Make one of equal troubles, in the place of the first.

    A way out that is another for each of them leads to each by name.
    """
    equal: dict[tuple[object, ...], list[Trouble]] = {}
    for one in troubles:
        labels = tuple(fix.label for fix in one.fixes)
        equal.setdefault((one.text, one.remedy, labels), []).append(one)
    return [_join(found) if len(found) > 1 else found[0] for found in equal.values()]


def _join(found: Sequence[Trouble]) -> Trouble:
    others = tuple(other for one in found for other in one.myses)[1:]
    fixes = [_join_fixes(found, place) for place in range(len(found[0].fixes))]
    return replace(found[0], fix=fixes[0], more=tuple(fixes[1:]), others=others)


def _join_fixes(found: Sequence[Trouble], place: int) -> Fix:
    each = tuple((one.mysis.name, one.fixes[place].link) for one in found)
    first = found[0].fixes[place]
    same = len({link for _, link in each}) == 1
    return first if same else replace(first, each=each[:NAMED])


def _list_troubles(
    mysis: Mysis, known: Mapping[str, int], long_ago: datetime
) -> Iterator[tuple[int, Trouble]]:
    """What is wrong with one Mysis, the worst first, each with its rank among all."""
    running = mysis.state == Mysis.State.RUNNING
    if mysis.state == Mysis.State.ERRORED:
        text = mysis.last_error or "It stopped with an error that left no text."
        remedy = "Mend the cause, then start it again."
        yield 0, Trouble(mysis, text, remedy, *_find_ways(mysis, known))
    # Running for long without a line, though nothing is being waited for.
    wakes = mysis.wake_at is not None and mysis.wake_at > long_ago
    last = mysis.last_memory_at
    if running and last and last < long_ago and not wakes:
        text = "It runs, but has written nothing for more than five minutes."
        remedy = "See that workers run and keep up."
        yield 1, Trouble(mysis, text, remedy, Fix("Health", reverse("health"), ALL))
    # After a failed turn: the error stays until a turn goes well.
    if running and mysis.last_error:
        remedy = "It tries again by itself."
        ways = _find_ways(mysis, known)
        yield 2, Trouble(mysis, mysis.last_error, remedy, *ways)
    if mysis.hold:
        remedy = "Raise the budget, or wait until its period ends."
        fix = Fix("Budgets", reverse("admin:agents_budget_changelist"))
        more = (_model_form(mysis),)
        yield 3, Trouble(mysis, mysis.hold, remedy, fix, more)
    if mysis.lost_pins:
        remedy = "The model does not see it as it was pinned."
        yield 3, Trouble(mysis, mysis.lost_pins, remedy, _sent_context(mysis))
    if running and mysis.stuck:
        remedy = "Read its last turns and tell it what to do."
        fix = Fix("Message it", f"{mysis.get_absolute_url()}#composer", "operator-only")
        yield 4, Trouble(mysis, mysis.stuck, remedy, fix, (_sent_context(mysis),))
    if running and _lacks_state(mysis):
        text = "Its last view had no room for the state of the game."
        remedy = "Give it a larger budget, or one with fewer tools."
        yield 5, Trouble(mysis, text, remedy, _policy_form(mysis))


# Troubles of the game: those in which the ship may be lost come first.
ALARM_RANKS: Mapping[str, int] = {
    Rule.ATTACKED: 2,
    Rule.HULL: 2,
    Rule.FUEL: 2,
    Rule.HOLD_FULL: 5,
    Rule.NO_INCOME: 5,
    Rule.ONE_PLACE: 5,
    Rule.LOOP: 4,
}


def _load_alarms() -> Mapping[int, Sequence[Alert]]:
    """The open game alarms by Mysis."""
    found: defaultdict[int, list[Alert]] = defaultdict(list)
    rows = Alert.objects.filter(cleared_at=None, rule__in=ALARM_RANKS)
    for alert in rows.order_by("pk"):
        found[alert.mysis_id].append(alert)
    return found


def _list_alarms(
    mysis: Mysis, alarms: Sequence[Alert]
) -> Iterator[tuple[int, Trouble]]:
    fix = Fix("Message it", f"{mysis.get_absolute_url()}#composer", "operator-only")
    for alert in alarms:
        # A loop is what makes it stuck, and stands there already.
        if alert.rule != Rule.LOOP or not mysis.stuck:
            remedy = "Tell it what to do."
            yield ALARM_RANKS[alert.rule], Trouble(mysis, alert.text, remedy, fix)


# --- Where an error is mended


def load_provider_ids() -> Mapping[str, int]:
    """Numbers of the providers in the database, by name."""
    return dict(Provider.objects.values_list("name", "pk"))


def find_fix(mysis: Mysis, known: Mapping[str, int]) -> Fix:
    """The first of `find_fixes`."""
    return find_fixes(mysis, known)[0]


def find_fixes(mysis: Mysis, known: Mapping[str, int]) -> tuple[Fix, ...]:
    """The forms and pages that mend its last error, the likeliest first.

    ``known`` are the providers. An error without a code, or with one of a later version,
    is mended in its settings.
    """
    places = PLACES.get(mysis.last_error_code)
    return places(mysis, known) if places else (_own_form(mysis, "Its settings"),)


def _find_ways(mysis: Mysis, known: Mapping[str, int]) -> tuple[Fix, tuple[Fix, ...]]:
    first, *more = find_fixes(mysis, known)
    return first, tuple(more)


def _own_form(mysis: Mysis, label: str) -> Fix:
    return Fix(label, reverse("admin:agents_mysis_change", args=[mysis.pk]))


def _sent_context(mysis: Mysis) -> Fix:
    return Fix("What was sent", reverse("mysis-context", args=[mysis.page_key]), ALL)


def _leads_to_policy(mysis: Mysis) -> bool:
    return mysis.last_error_code == ErrorCode.CONTEXT or _lacks_state(mysis)


def _lacks_state(mysis: Mysis) -> bool:
    return STATE_LEFT_OUT in (getattr(mysis, "warnings", None) or ())


def _policy_form(mysis: Mysis) -> Fix:
    policy = mysis.effective_policy
    if policy.pk is None:
        return _own_form(mysis, "Give it a context policy")
    label = "Its context policy" if mysis.policy_id else capfirst(policy.default_label)
    link = reverse("admin:memory_contextpolicy_change", args=[policy.pk])
    return Fix(label, link)


def _model_form(mysis: Mysis) -> Fix:
    link = reverse("mysis-edit", args=[mysis.page_key, "model"])
    return Fix("Change its model", link)


def _new_provider() -> Fix:
    return Fix("Add its provider", reverse("admin:agents_provider_add"))


def _provider_form(mysis: Mysis, known: Mapping[str, int]) -> Fix | None:
    """The form of the provider that its model belongs to; None without a row."""
    found = next(
        (name for name in list_provider_candidates(mysis.model) if name in known), None
    )
    if found is None:
        return None
    link = reverse("admin:agents_provider_change", args=[known[found]])
    return Fix(f"Provider {found}", link)


# A provider without a row comes from the environment: of it only a key can be added
# here, else the name of the model changed.
PLACES: Mapping[str, Callable[[Mysis, Mapping[str, int]], tuple[Fix, ...]]] = {
    ErrorCode.MODEL: lambda mysis, known: (
        _model_form(mysis),
        _provider_form(mysis, known) or _new_provider(),
    ),
    ErrorCode.PROVIDER: lambda mysis, known: (
        (form, _model_form(mysis))
        if (form := _provider_form(mysis, known))
        else (_model_form(mysis), _new_provider())
    ),
    ErrorCode.KEY: lambda mysis, known: (
        _provider_form(mysis, known) or _new_provider(),
        _model_form(mysis),
    ),
    ErrorCode.REQUEST: lambda mysis, _: (
        _sent_context(mysis),
        _own_form(mysis, "Its settings"),
    ),
    ErrorCode.CONTEXT: lambda mysis, _: (_policy_form(mysis), _model_form(mysis)),
    ErrorCode.GAME: lambda *_: (Fix("Health", reverse("health"), ALL),),
}
