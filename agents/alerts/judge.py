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
from agents.alerts.facts import read_fleet_facts
from agents.alerts.outbox import fill_outbox
from agents.alerts.rules import Case, Evidence, Limits, Verdict, judge, update_evidence
from agents.events import Kind
from agents.models import AlarmEvidence, Alert, AlertSettings, Rule
from agents.models.fleet import find_page_key

# Seconds between two looks, whichever processes take them.
PAUSE = timedelta(seconds=4)
# What several Myses have for one and the same reason: their texts are equal then.
SHARED = frozenset({Rule.ERRORED, Rule.FAILING, Rule.HELD, Rule.SILENT})
# Names of others with the same cause that a text holds.
NAMED = 3
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
        digest = blake2b(self.verdict.text.encode(errors="replace"), digest_size=12)
        return f"{self.rule}:{digest.hexdigest()}"


def watch_fleet() -> None:
    """Raise, clear and hand on alerts; a fault of theirs is logged, and turns go on.

    What was raised before is handed on also where the look fails.
    """
    try:
        _run(judge_fleet, "Alerts were not judged.")
    finally:
        _run(fill_outbox, "Alerts were not handed on.")


def _run(step: Callable[[], object], fault: str) -> None:
    try:
        step()
    except DatabaseError:
        raise
    except Exception:
        logger.exception(fault)


@transaction.atomic
def judge_fleet(now: datetime | None = None) -> bool:
    """Raise and clear what is to be; False where another process has just done so."""
    moment = now or timezone.now()
    settings = _claim(moment)
    if settings is None:
        return False
    limits = make_limits(settings)
    known = {
        (one.mysis_id, one.rule): one for one in Alert.objects.filter(cleared_at=None)
    }
    found = list(_judge_each(limits, moment)) if limits.rules else []
    _write(known, {(one.mysis, one.rule): one for one in found}, moment)
    return True


def make_limits(settings: AlertSettings) -> Limits:
    """The thresholds as the rules take them."""
    names = set(Limits.__dataclass_fields__)
    return Limits(**{name: getattr(settings, name) for name in names})


def _claim(now: datetime) -> AlertSettings | None:
    """The settings, locked, where nobody looked lately; None if somebody did, or does."""
    row = AlertSettings.objects.filter(pk=1).first()
    if row is None:
        AlertSettings.objects.bulk_create([AlertSettings(pk=1)], ignore_conflicts=True)
    elif row.judged_at is not None and timedelta(0) <= now - row.judged_at < PAUSE:
        return None
    rows = AlertSettings.objects.select_for_update(skip_locked=True).filter(pk=1)
    locked = rows.first()
    if locked is None or (row is not None and locked.judged_at != row.judged_at):
        return None
    locked.judged_at = now
    locked.save(update_fields=["judged_at"])
    return locked


def _judge_each(limits: Limits, now: datetime) -> Iterator[Finding]:
    fleet = read_fleet_facts(now, limits.attack_minutes)
    stored = AlarmEvidence.objects.in_bulk()
    changed = []
    for pk, facts in fleet.facts.items():
        before = _read_evidence(stored.get(pk))
        after = update_evidence(before, facts, now)
        if after != before:
            changed.append(AlarmEvidence(mysis_id=pk, **asdict(after)))
        for rule, verdict in judge(Case(facts, after, limits, now)).items():
            yield Finding(pk, fleet.names[pk], rule, verdict)
    AlarmEvidence.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["mysis"],
        update_fields=list(EVIDENCE),
    )


def _read_evidence(row: AlarmEvidence | None) -> Evidence:
    if row is None:
        return Evidence()
    return Evidence(**{name: getattr(row, name) for name in EVIDENCE})


def _write(
    known: Mapping[Key, Alert], found: Mapping[Key, Finding], now: datetime
) -> None:
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
        text = f"{alert.text} {_name_others(others)}".strip()
        yield Kind.ALERT_RAISED, alert.mysis_id, describe_alert(alert, text)


def _name_others(names: Sequence[str]) -> str:
    if not names:
        return ""
    rest = len(names) - NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"Also {', '.join(names[:NAMED])}{more}."


def _tell_cleared(over: Iterable[tuple[Alert, str]]) -> Iterator[events.Line]:
    for alert, text in over:
        yield Kind.ALERT_CLEARED, alert.mysis_id, describe_alert(alert, text)


def describe_alert(alert: Alert, text: str) -> dict[str, object]:
    """The data of an alert's event; ``link`` is a path of these pages."""
    key = find_page_key(alert.mysis_id, alert.name)
    return {
        "rule": alert.rule,
        "mysis": alert.name,
        "text": text,
        "link": reverse("mysis", args=[key]),
        "alert": alert.pk,
        "cause": alert.cause,
    }
