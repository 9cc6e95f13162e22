"""How contexts are made, what was sent, and what stands for old parts of a log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from decimal import Decimal
from hashlib import sha256
from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MinValueValidator
from django.db import connection, models, transaction
from django.db.models import Q

from memory.context.types import DEFAULT_STRATEGY
from memory.models.vectors import build_plain_vector

# The id of the policy that a row ``mysis`` has: its own, else the fleet's default.
EFFECTIVE_POLICY = """
coalesce(mysis.policy_id, (SELECT id FROM memory_contextpolicy WHERE is_default))
"""

BUILT_IN = "the built-in policy"
# Until the transaction ends: two who mark a default at once come one after the other.
_LOCK_DEFAULT = "SELECT pg_advisory_xact_lock(hashtext('default policy'))"


class HistorySummary(models.Model):
    """A summary that stands for one span of a Mysis's log."""

    class Status(models.TextChoices):
        """Whether views may use it."""

        ACTIVE = "active"
        REPLACED = "replaced"
        REVERTED = "reverted"
        FAILED = "failed"
        CLEARED = "cleared"

    mysis = models.ForeignKey(
        "agents.Mysis", on_delete=models.CASCADE, related_name="summaries"
    )
    first_id = models.BigIntegerField()
    through_id = models.BigIntegerField()
    generation = models.PositiveIntegerField()
    text = models.TextField()
    tokens_before = models.PositiveIntegerField(default=0)
    tokens_after = models.PositiveIntegerField(default=0)
    status = models.CharField(
        max_length=10, choices=Status.choices, default=Status.ACTIVE
    )
    history_hash = models.CharField(max_length=64)
    # The newest order that it covers, and the answer that ended that, if one did.
    order_id = models.BigIntegerField(null=True, blank=True)
    answer_id = models.BigIntegerField(null=True, blank=True)
    # The Mysis's turn that made it: breaker and cool-down count turns.
    turn_number = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=1)
    # Why it failed, or what an accepted one left out.
    error = models.TextField(blank=True)
    model = models.CharField(max_length=300, blank=True)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=Decimal(0))
    latency_ms = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "history summaries"
        constraints = [
            models.UniqueConstraint(
                fields=["mysis", "generation"],
                condition=Q(status__in=["active", "replaced"]),
                name="summary_generation_once",
            ),
            models.UniqueConstraint(
                fields=["mysis"],
                condition=Q(status="active"),
                name="summary_one_in_use",
            ),
            models.CheckConstraint(
                condition=Q(first_id__lte=models.F("through_id")),
                name="summary_span_forward",
            ),
        ]
        indexes = [
            models.Index(fields=["mysis", "-through_id"], name="summary_newest"),
            models.Index(fields=["mysis", "-id"], name="summary_last_tried"),
            GinIndex(build_plain_vector("text"), name="summary_fts", fastupdate=False),
        ]

    def __str__(self) -> str:
        return f"summary {self.generation} of {self.mysis}"


class ContextPolicy(models.Model):
    """A named way of assembling contexts: strategy, options and budget."""

    name = models.CharField(max_length=100, unique=True)
    strategy = models.CharField(max_length=100, default=DEFAULT_STRATEGY)
    options = models.JSONField(default=dict, blank=True)
    budget_tokens = models.PositiveIntegerField(
        default=128_000, validators=[MinValueValidator(1)]
    )
    budget_reserve = models.PositiveIntegerField(default=8_000)
    is_default = models.BooleanField(
        "fleet default",
        default=False,
        # For programs of the version before, which do not know it yet.
        db_default=False,
        help_text="Every Mysis without a policy of its own has this one; one at most.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "context policies"
        constraints = [
            models.CheckConstraint(
                condition=Q(budget_reserve__lt=models.F("budget_tokens")),
                name="policy_reserve_below_budget",
            ),
            models.UniqueConstraint(
                fields=["is_default"],
                condition=Q(is_default=True),
                name="policy_one_default",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(
        self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any
    ) -> None:
        """Store it; as the fleet's default it takes the place of the one before.

        Whoever changes a stored policy names in ``update_fields`` what was asked for:
        another may have become the default since the row was read.
        """
        named = None if update_fields is None else {*update_fields}
        with transaction.atomic():
            if self.is_default and (named is None or "is_default" in named):
                with connection.cursor() as cursor:
                    cursor.execute(_LOCK_DEFAULT)
                others = ContextPolicy.objects.filter(is_default=True)
                others.exclude(pk=self.pk).update(is_default=False)
            super().save(*args, update_fields=named, **kwargs)

    @classmethod
    def read_default(cls) -> ContextPolicy:
        """What a Mysis without a policy has: the fleet's default, else the built-in one."""
        return cls.objects.filter(is_default=True).first() or cls()

    @property
    def default_label(self) -> str:
        """What it is called where a Mysis has none of its own."""
        return f"the fleet's default ({self.name})" if self.name else BUILT_IN

    def hash_settings(self) -> str:
        """Eight digits that are others whenever strategy, options or budget are."""
        settings = (
            self.strategy,
            self.options,
            self.budget_tokens,
            self.budget_reserve,
        )
        return sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """A second default is no error: it takes the place of the first (`save`)."""
        super().validate_constraints({*(exclude or ()), "is_default"})


class TokenCalibration(models.Model):
    """What providers' reports taught about the tokens of one model (A30).

    ``used`` is the factor that counts are made with; it follows ``factor`` in steps,
    since every change of it moves all marks of a context.
    """

    model = models.CharField(max_length=300, primary_key=True)
    used = models.FloatField(default=1.0)
    factor = models.FloatField(default=1.0)
    error = models.FloatField()
    samples = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.model} x {self.used:.2f}"


class ContextText(models.Model):
    """A text that many calls were sent, stored once under its SHA-256."""

    digest = models.CharField(max_length=64, primary_key=True)
    text = models.TextField()

    def __str__(self) -> str:
        return self.digest[:12]


class SentContext(models.Model):
    """The exact view of one model call, by reference.

    ``view`` names stored memories by id and carries synthetic texts; rendered
    again it gives the same bytes, which ``digest`` (SHA-256) proves.
    """

    mysis = models.ForeignKey(
        "agents.Mysis", on_delete=models.CASCADE, related_name="sent_contexts"
    )
    call = models.OneToOneField(
        "agents.ModelCall", on_delete=models.CASCADE, related_name="sent"
    )
    strategy = models.CharField(max_length=100)
    dialect = models.CharField(max_length=20)
    view = models.JSONField()
    ledger = models.JSONField(default=list)
    stats = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)
    username = models.CharField(max_length=100, blank=True)
    # The oldest and the newest stored message that was considered.
    first_id = models.BigIntegerField(null=True, blank=True)
    last_id = models.BigIntegerField(null=True, blank=True)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["mysis", "-id"], name="sent_newest")]

    def __str__(self) -> str:
        return f"context of call {self.call_id}"
