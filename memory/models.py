"""What is remembered. The log is append-only: strategies derive, never edit."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from .context.types import DEFAULT_STRATEGY
from .querysets import MemoryQuerySet
from .vectors import scoped_vector


class Role(models.TextChoices):
    """Who speaks, in the terms of the chat formats."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Origin(models.TextChoices):
    """Where a message came from. Only human and broadcast are intent (A14)."""

    HUMAN = "human"
    BROADCAST = "broadcast"
    AGENT = "agent"
    TOOL = "tool"
    NUDGE = "nudge"
    PROMPT = "prompt"
    SUMMARY = "summary"
    STATE = "state"
    FILLER = "filler"
    WARNING = "warning"


class Memory(models.Model):
    """One stored message of one Mysis."""

    mysis = models.ForeignKey(
        "agents.Mysis",
        on_delete=models.CASCADE,
        related_name="memories",
        db_index=False,
    )
    turn = models.ForeignKey(
        "agents.Turn", on_delete=models.SET_NULL, null=True, blank=True
    )
    broadcast = models.ForeignKey(
        "agents.Broadcast",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="deliveries",
    )
    role = models.CharField(max_length=10, choices=Role.choices)
    origin = models.CharField(max_length=10, choices=Origin.choices)
    sender = models.CharField(max_length=200, blank=True)
    content = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    signature = models.TextField(blank=True)
    tool_calls = models.JSONField(default=list, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    tool_name = models.CharField(max_length=200, blank=True)
    args = models.JSONField(default=dict, blank=True)
    is_error = models.BooleanField(default=False)
    pending = models.BooleanField(default=False)
    tick = models.BigIntegerField(null=True, blank=True)
    tokens = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    content_vector = models.GeneratedField(
        expression=scoped_vector("content"),
        output_field=SearchVectorField(),
        db_persist=True,
    )
    reasoning_vector = models.GeneratedField(
        expression=scoped_vector("reasoning"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    objects: ClassVar[MemoryQuerySet] = MemoryQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "memories"
        indexes = [
            models.Index(fields=["mysis", "-id"], name="memory_tail"),
            models.Index(
                fields=["mysis", "-id"],
                name="memory_intent",
                condition=Q(origin__in=["human", "broadcast"]),
            ),
            # fastupdate off: with the pending list an insert can stall 400 ms.
            GinIndex(
                fields=["content_vector"], name="memory_content_fts", fastupdate=False
            ),
            GinIndex(
                fields=["reasoning_vector"],
                name="memory_reasoning_fts",
                fastupdate=False,
                condition=~Q(reasoning=""),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=Role.values), name="memory_role_known"
            ),
            models.CheckConstraint(
                condition=Q(origin__in=Origin.values), name="memory_origin_known"
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {self.role}"


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
        ]

    def __str__(self) -> str:
        return f"summary {self.generation} of {self.mysis_id}"


class GameSnapshot(models.Model):
    """The newest good answer of one state tool for one game account (G1)."""

    username = models.CharField(max_length=100)
    tool_name = models.CharField(max_length=200)
    args_key = models.CharField(max_length=300, blank=True)
    args = models.JSONField(default=dict, blank=True)
    content = models.TextField()
    # The content with events merged in; ``content`` stays as it was recorded.
    merged = models.TextField(blank=True)
    game_tick = models.BigIntegerField(null=True, blank=True)
    captured_at = models.DateTimeField()
    stale_reason = models.CharField(max_length=200, blank=True)
    stale_tick = models.BigIntegerField(null=True, blank=True)
    stale_fields = models.JSONField(default=list, blank=True)
    field_ticks = models.JSONField(default=dict, blank=True)
    counted = models.JSONField(default=list, blank=True)
    # One for each action since; the stale columns are what they come to.
    marks = models.JSONField(default=list, blank=True)
    # When the call was sent: the answer was made between then and captured_at.
    asked_at = models.DateTimeField(null=True, blank=True)
    # The confidence by age that was announced last.
    announced = models.CharField(max_length=20, blank=True)
    logged_out_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["username", "tool_name", "args_key"],
                name="snapshot_once_per_call",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} of {self.username}"


class AccountClock(models.Model):
    """The newest game tick seen for an account, and when it was seen.

    ``era`` is "A" where actions were queued, "C" where they were done at once.
    """

    username = models.CharField(max_length=100, primary_key=True)
    tick = models.BigIntegerField()
    seen_at = models.DateTimeField()
    era = models.CharField(max_length=1, blank=True)

    def __str__(self) -> str:
        return f"{self.username} at tick {self.tick}"


class GameEvent(models.Model):
    """One event that the game told an account of, kept as it was told.

    ``at`` is when it happened by our clock, give or take ``slack`` seconds.
    """

    username = models.CharField(max_length=100)
    event_id = models.CharField(max_length=100)
    category = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=100)
    data = models.JSONField(default=dict, blank=True)
    tick = models.BigIntegerField(null=True, blank=True)
    exact = models.BooleanField(default=False)
    at = models.DateTimeField(null=True, blank=True)
    slack = models.FloatField(default=0.0)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["username", "event_id"], name="game_event_once"
            )
        ]
        indexes = [
            models.Index(fields=["username", "received_at"], name="game_event_newest")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.username}"


class ActionUnderWay(models.Model):
    """A queued action: until it takes effect new snapshots still show the old truth.

    ``until`` stands for ``tick`` where the account's tick is unknown.
    """

    username = models.CharField(max_length=100, db_index=True)
    tool = models.CharField(max_length=200)
    tick = models.BigIntegerField(null=True, blank=True)
    asked_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "actions under way"

    def __str__(self) -> str:
        return f"{self.tool} of {self.username}"


class Lexicon(models.Model):
    """Names by id, and sizes of items, that the answers to an account have told."""

    username = models.CharField(max_length=100, primary_key=True)
    names = models.JSONField(default=dict, blank=True)
    sizes = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "lexica"

    def __str__(self) -> str:
        return f"lexicon of {self.username}"


class ContextPolicy(models.Model):
    """A named way of assembling contexts: strategy, options and budget."""

    name = models.CharField(max_length=100, unique=True)
    strategy = models.CharField(max_length=100, default=DEFAULT_STRATEGY)
    options = models.JSONField(default=dict, blank=True)
    budget_tokens = models.PositiveIntegerField(
        default=128_000, validators=[MinValueValidator(1)]
    )
    budget_reserve = models.PositiveIntegerField(default=8_000)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "context policies"
        constraints = [
            models.CheckConstraint(
                condition=Q(budget_reserve__lt=models.F("budget_tokens")),
                name="policy_reserve_below_budget",
            )
        ]

    def __str__(self) -> str:
        return self.name


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
