"""Alarms of the fleet: their thresholds, those that are open, and who is told outside."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from agents.encryption import SealedProperty, SecretUnreadableError
from agents.models.fleet import Mysis
from agents.validators import NAME


class Rule(models.TextChoices):
    """What an alert is raised for: first of the game, then of the fleet itself."""

    FUEL = "fuel", "Too little fuel to reach a base"
    HULL = "hull", "Hull badly damaged"
    ATTACKED = "attacked", "Under attack"
    HOLD_FULL = "hold_full", "Hold full for long"
    NO_INCOME = "no_income", "No credits gained for long"
    ONE_PLACE = "one_place", "In one place for long"
    LOOP = "loop", "The same call and result again and again"
    ERRORED = "errored", "Errored"
    FAILING = "failing", "Turns fail and are tried again"
    HELD = "held", "Held by a budget"
    SILENT = "silent", "Runs, but writes nothing"
    STUCK = "stuck", "Stuck"
    LOST_ORDER = "lost_order", "A standing order is not in its context"

    @classmethod
    def list_game(cls) -> list[Rule]:
        """The game alarms, in the order in which troubles are listed."""
        return list(cls)[: list(cls).index(cls.LOOP) + 1]


ALL_RULES = [str(rule) for rule in Rule]


def list_default_rules() -> list[str]:
    """What is on in a new installation: all game alarms, and what needs somebody."""
    return [*map(str, Rule.list_game()), str(Rule.ERRORED), str(Rule.HELD)]


def _rules_field(default: Callable[[], list[str]]) -> ArrayField[Any, list[str]]:
    each = models.CharField(max_length=20, choices=Rule.choices)
    return ArrayField(each, blank=True, size=len(ALL_RULES), default=default)


def _threshold(
    default: int, most: int, label: str, text: str, *, least: int = 1
) -> models.IntegerField[int, int]:
    return models.IntegerField(
        label,
        default=default,
        db_default=default,
        validators=[MinValueValidator(least), MaxValueValidator(most)],
        help_text=text,
    )


class AlertSettings(models.Model):
    """The thresholds of all alerts, in one row; ``rules`` are those that are judged.

    ``version`` counts how often somebody changed them.
    """

    rules = _rules_field(list_default_rules)
    fuel_per_jump = _threshold(
        3,
        10_000,
        "fuel of a jump",
        "Of ships of which find_route has told no fuel_per_jump.",
    )
    fuel_spare = _threshold(
        5,
        10_000,
        "fuel to spare",
        "On top of what the jumps to the nearest base take.",
        least=0,
    )
    hull_percent = _threshold(
        30, 100, "hull, percent", "Less than this share of the whole hull."
    )
    attack_minutes = _threshold(
        5, 1_440, "attack, minutes", "So long after the last hit it counts as over."
    )
    hold_ticks = _threshold(30, 100_000, "full hold, ticks", "So many ticks in a row.")
    income_minutes = _threshold(
        60, 10_080, "no credits gained, minutes", "While it runs."
    )
    place_minutes = _threshold(60, 10_080, "one place, minutes", "While it runs.")
    loop_results = _threshold(
        5,
        20,
        "loop, results",
        "So many equal results of one call with equal arguments.",
    )
    quiet_minutes = _threshold(
        10,
        1_440,
        "one alert per cause, minutes",
        "A cause that comes back sooner is told outside after this time, if it is still "
        "there.",
        least=0,
    )
    judged_at = models.DateTimeField(null=True, blank=True, editable=False)
    version = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    changed_by = models.CharField(max_length=200, blank=True, editable=False)
    changed_at = models.DateTimeField(null=True, blank=True, editable=False)

    THRESHOLDS: ClassVar = (
        *(
            "fuel_per_jump",
            "fuel_spare",
            "hull_percent",
            "attack_minutes",
            "hold_ticks",
        ),
        *("income_minutes", "place_minutes", "loop_results", "quiet_minutes"),
    )

    class Meta:
        verbose_name_plural = "alert settings"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="alert_settings_once")
        ]

    def __str__(self) -> str:
        return "alert settings"

    @classmethod
    def load(cls) -> AlertSettings:
        """The stored settings, else those of a new installation."""
        return cls.objects.filter(pk=1).first() or cls(pk=1)


class Alert(models.Model):
    """One time that something was wrong; open until ``cleared_at``.

    ``cause`` is what several have in common, such as the error of one provider.
    """

    rule = models.CharField(max_length=20, choices=Rule.choices)
    mysis = models.ForeignKey(
        Mysis,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    name = models.CharField(max_length=100)
    text = models.TextField()
    cause = models.CharField(max_length=100)
    raised_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["mysis", "rule"],
                condition=Q(cleared_at=None),
                name="alert_open_once",
            )
        ]
        indexes = [models.Index(fields=["mysis", "-id"], name="alert_of_mysis")]

    def __str__(self) -> str:
        return f"{self.rule} of {self.name}"


class AlarmEvidence(models.Model):
    """Since when what an alarm waits for has been so, of one Mysis.

    A moment is null while the thing is not so, or nobody knows. ``full_tick`` is the
    account's tick at which the hold was first seen full.
    """

    mysis = models.OneToOneField(
        Mysis, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    account = models.CharField(max_length=100, blank=True)
    credits = models.BigIntegerField(null=True, blank=True)
    earned_at = models.DateTimeField(null=True, blank=True)
    place = models.CharField(max_length=300, blank=True)
    moved_at = models.DateTimeField(null=True, blank=True)
    full_tick = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "alarm evidence"

    def __str__(self) -> str:
        return f"evidence of {self.mysis_id}"


class KnownBase(models.Model):
    """A system in which some account saw a base; maps do not tell where bases are."""

    system = models.CharField(max_length=200, primary_key=True)
    seen_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.system


class AlertTarget(models.Model):
    """Somebody outside who is told of alerts.

    ``sealed_url`` and ``sealed_secret`` are written, never shown: the address of a Slack
    webhook or the topic of ntfy is a password. ``cursor`` is the last event of the log
    that was looked at, with its transaction where that was kept. ``retry_at`` is when a
    target that failed is tried again. ``digest_at`` is when the next digest is due, or
    tried again while one is made, and ``digest_from`` is where it begins.
    ``version`` counts how often an admin changed it.
    """

    class Kind(models.TextChoices):
        """How an alert is written for it."""

        WEBHOOK = "webhook", "Webhook (signed JSON)"
        NTFY = "ntfy", "ntfy"
        SLACK = "slack", "Slack"

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    kind = models.CharField(max_length=10, choices=Kind.choices)
    sealed_url = models.TextField(editable=False)
    sealed_secret = models.TextField(blank=True, editable=False)
    rules = _rules_field(list)
    enabled = models.BooleanField(default=True)
    digest_hour = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(23)]
    )
    digest_at = models.DateTimeField(null=True, blank=True, editable=False)
    digest_from = models.DateTimeField(null=True, blank=True, editable=False)
    version = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    cursor = models.BigIntegerField(default=0, editable=False)
    cursor_xid = models.BigIntegerField(null=True, blank=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    failing_since = models.DateTimeField(null=True, blank=True, editable=False)
    retry_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    told_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    url = SealedProperty("sealed_url")
    secret = SealedProperty("sealed_secret")

    # Failures in a row after which it is shown as a trouble.
    DEAD_AFTER: ClassVar = 3

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["webhook", "ntfy", "slack"]),
                name="alert_target_kind_known",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def list_dead(cls) -> list[AlertTarget]:
        """Those that cannot be told, by name."""
        rows = cls.objects.filter(enabled=True, failures__gte=cls.DEAD_AFTER)
        return list(rows.order_by("name"))

    @property
    def destination(self) -> str:
        """The server of its address: the path can be a password."""
        try:
            parts = urlsplit(self.url)
        except SecretUnreadableError:
            return "unreadable: type the address again"
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def waiting(self) -> int:
        """How many deliveries it is still to get."""
        return self.deliveries.filter(state__in=AlertDelivery.OPEN).count()

    def find_digest_after(self, moment: datetime) -> datetime | None:
        """When the next digest is due, None without an hour (in UTC)."""
        if self.digest_hour is None:
            return None
        today = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        due = today.replace(hour=self.digest_hour)
        return due if due > moment else due + timedelta(days=1)

    @property
    def dead(self) -> bool:
        """Whether it has failed so often that somebody should look."""
        return self.enabled and self.failures >= self.DEAD_AFTER


class AlertDelivery(models.Model):
    """One event of the log for one target: that row is what is told exactly once.

    A digest is no event: it has the kind ``digest`` and no number. ``body`` is the event
    as it was, so that it can be told after the log was pruned. ``key`` goes with every
    attempt: who gets one twice knows it by that. ``at`` is when it counts as told,
    ``due_at`` when it may be tried; while an attempt is under way that lies behind its
    deadline. ``told_with`` is the row in whose message one of the same cause was told.
    """

    class State(models.TextChoices):
        """Quiet is a cause that came back too soon; left out is one never told.

        Summed is one that another message named.
        """

        WAITING = "waiting"
        QUIET = "quiet"
        SENT = "sent"
        SUMMED = "summed"
        LEFT_OUT = "left_out"

    OPEN: ClassVar = (State.WAITING, State.QUIET)
    # After so many it is left out: it would be refused for ever.
    MOST_REFUSALS: ClassVar = 20
    GIVEN_UP: ClassVar = "given_up"

    target = models.ForeignKey(
        AlertTarget, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    event = models.BigIntegerField(null=True)
    told_with = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=50)
    rule = models.CharField(max_length=20)
    mysis = models.BigIntegerField(null=True)
    cause = models.CharField(max_length=100)
    body = models.TextField()
    key = models.UUIDField(default=uuid.uuid4)
    state = models.CharField(
        max_length=10, choices=State.choices, default=State.WAITING
    )
    at = models.DateTimeField()
    due_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    refusals = models.PositiveIntegerField(default=0)
    status = models.PositiveIntegerField(null=True)
    answer = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "alert deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["target", "event"], name="alert_delivered_once"
            )
        ]
        indexes = [
            models.Index(
                fields=["target", "refusals", "event"],
                name="alert_delivery_open",
                condition=Q(state__in=["waiting", "quiet"]),
            ),
            models.Index(fields=["target", "cause", "-event"], name="alert_of_cause"),
        ]

    def __str__(self) -> str:
        return f"event {self.event} for {self.target_id}"

    @property
    def outcome(self) -> str:
        """Its state; ``given_up`` is one left out because the target refused it."""
        refused = self.refusals >= self.MOST_REFUSALS
        left_out = self.state == self.State.LEFT_OUT
        return self.GIVEN_UP if left_out and refused else str(self.state)
