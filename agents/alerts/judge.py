"""One look at the whole fleet: raise and clear alerts, with their events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from django.db import DatabaseError, transaction
from django.urls import reverse
from django.utils import timezone

from agents import events
from agents.alerts.daily_digest import add_due_digests
from agents.alerts.facts import read_fleet_facts
from agents.alerts.outbox import fill_outbox, name_others
from agents.alerts.rules import Case, Evidence, Limits, Verdict, judge, update_evidence
from agents.events import Kind
from agents.models import AlarmEvidence, Alert, AlertSettings, Rule
from agents.models.fleet import find_page_key

# Seconds between two looks, whichever processes take them.
PAUSE = timedelta(seconds=4)
# What several Myses have for one and the same reason.
SHARED = frozenset({Rule.ERRORED, Rule.FAILING, Rule.HELD, Rule.SILENT})
EVIDENCE = tuple(Evidence.__dataclass_fields__)
Key = tuple[int, str]
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of a rule on a Mysis, at present."""

    mysis: int
    name: str
    rule: str
    verdict: Verdict

    @property
    def cause(self) -> str:
        """What it has in common with others, else what is its own."""
        if self.rule not in SHARED:
            return f"{self.rule}:{self.mysis}"
        common = self.verdict.cause or self.verdict.text
        digest = blake2b(common.encode(errors="replace"), digest_size=12)
        return f"{self.rule}:{digest.hexdigest()}"


def watch_fleet() -> None:
    """Raise, clear and hand on alerts; a fault of theirs is logged, and turns go on.

    What was raised before is handed on also where the look fails.
    """
    try:
        _run(judge_fleet, "Alerts were not judged.")
    finally:
        _run(fill_outbox, "Alerts were not handed on.")
        _run(add_due_digests, "A digest was not made.")


def _run(step: Callable[[], object], fault: str) -> None:
    try:
        step()
    except DatabaseError:
        raise
    except Exception:
        logger.exception(fault)


@dataclass(frozen=True, slots=True)
class Look:
    """What was read and found: nothing of it is stored yet."""

    known: Mapping[Key, Alert]
    found: Mapping[Key, Finding]
    evidence: Sequence[AlarmEvidence]


def judge_fleet(now: datetime | None = None) -> bool:
    """Raise and clear what is to be; False where another process has just done so.

    All is read and judged before the transaction begins, which holds back what others
    tell of. It stores nothing where somebody judged meanwhile, or changed the thresholds.
    """
    moment = now or timezone.now()
    settings = _read_settings()
    before = settings.judged_at
    if before is not None and timedelta(0) <= moment - before < PAUSE:
        return False
    look = _look(make_limits(settings), moment)
    with transaction.atomic():
        rows = AlertSettings.objects.select_for_update(skip_locked=True)
        locked = rows.filter(pk=1, judged_at=before, version=settings.version).first()
        if locked is None:
            return False
        locked.judged_at = moment
        locked.save(update_fields=["judged_at"])
        _write(look, moment)
    return True


def make_limits(settings: AlertSettings) -> Limits:
    """The thresholds as the rules take them."""
    names = set(Limits.__dataclass_fields__)
    return Limits(**{name: getattr(settings, name) for name in names})


def _read_settings() -> AlertSettings:
    row = AlertSettings.objects.filter(pk=1).first()
    if row is not None:
        return row
    AlertSettings.objects.bulk_create([AlertSettings(pk=1)], ignore_conflicts=True)
    return AlertSettings.objects.get(pk=1)


def _look(limits: Limits, now: datetime) -> Look:
    open_ones = Alert.objects.filter(cleared_at=None)
    known = {(one.mysis_id, one.rule): one for one in open_ones}
    if not limits.rules:
        return Look(known, {}, ())
    fleet = read_fleet_facts(now, limits.attack_minutes)
    stored = AlarmEvidence.objects.in_bulk()
    found, changed = {}, []
    for pk, facts in fleet.facts.items():
        before = _read_evidence(stored.get(pk))
        after = update_evidence(before, facts, now)
        if after != before:
            changed.append(AlarmEvidence(mysis_id=pk, **asdict(after)))
        for rule, verdict in judge(Case(facts, after, limits, now)).items():
            found[pk, rule] = Finding(pk, fleet.names[pk], rule, verdict)
    return Look(known, found, changed)


def _read_evidence(row: AlarmEvidence | None) -> Evidence:
    if row is None:
        return Evidence()
    return Evidence(**{name: getattr(row, name) for name in EVIDENCE})


def _write(look: Look, now: datetime) -> None:
    known, found = look.known, look.found
    AlarmEvidence.objects.bulk_create(
        look.evidence,
        update_conflicts=True,
        unique_fields=["mysis"],
        update_fields=list(EVIDENCE),
    )
    raised = [
        one for key, one in found.items() if one.verdict.raised and key not in known
    ]
    alerts = Alert.objects.bulk_create(
        Alert(
            mysis_id=one.mysis,
            name=one.name,
            rule=one.rule,
            text=one.verdict.text,
            cause=one.cause,
            raised_at=now,
        )
        for one in raised
    )
    over = list(_find_over(known, found))
    for alert, _ in over:
        alert.cleared_at = now
    Alert.objects.bulk_update([alert for alert, _ in over], ["cleared_at"])
    events.append_all([*_tell_raised(alerts), *_tell_cleared(over)])
    _renew_texts(known, found)


def _find_over(
    known: Mapping[Key, Alert], found: Mapping[Key, Finding]
) -> Iterator[tuple[Alert, str]]:
    """The alerts that are over, and why."""
    judged = {mysis for mysis, _ in found}
    for key, alert in known.items():
        one = found.get(key)
        if one is None:
            there = alert.mysis_id in judged
            yield alert, "It is judged no more." if there else "Nobody is judged by it."
        elif one.verdict.raised is False:
            yield alert, one.verdict.text


def _renew_texts(known: Mapping[Key, Alert], found: Mapping[Key, Finding]) -> None:
    """Let open alerts say how it is now; that is no event."""
    changed = []
    for key, alert in known.items():
        one = found.get(key)
        if one is not None and one.verdict.raised and alert.text != one.verdict.text:
            alert.text = one.verdict.text
            changed.append(alert)
    Alert.objects.bulk_update(changed, ["text"])


def _tell_raised(alerts: Sequence[Alert]) -> Iterator[events.Line]:
    for alert in alerts:
        others = [
            one.name for one in alerts if one.cause == alert.cause and one != alert
        ]
        told = describe_alert(alert, alert.text)
        more = {"also": name_others(others)} if others else {}
        yield Kind.ALERT_RAISED, alert.mysis_id, told | more


def _tell_cleared(over: Iterable[tuple[Alert, str]]) -> Iterator[events.Line]:
    for alert, text in over:
        yield Kind.ALERT_CLEARED, alert.mysis_id, describe_alert(alert, text)


def describe_alert(alert: Alert, text: str) -> dict[str, object]:
    """The data of an alert's event; ``link`` is a path of these pages."""
    key = find_page_key(alert.mysis_id, alert.name)
    # Of the pages alone: a worker would load the admin and the API too, 14 MB.
    link = reverse("mysis", urlconf="agents.urls", args=[key])
    return {
        "rule": alert.rule,
        "mysis": alert.name,
        "text": text,
        "link": link,
        "alert": alert.pk,
        "cause": alert.cause,
    }
