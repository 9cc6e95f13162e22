"""The fleet: Myses, what they run on, what they did, and what happened."""

from __future__ import annotations

from decimal import Decimal

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.core.validators import (
    MaxValueValidator,
    MinValueValidator,
    URLValidator,
)
from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Lower

from memory.vectors import plain_vector

from . import vault
from .validators import NAME, check_model_settings, check_visible
from .windows import AskedWindow  # noqa: F401  Django looks for it here.

NAME_TAKEN = "This name is taken: choose another."


class Provider(models.Model):
    """An LLM endpoint. Its key can be written, never read back."""

    class Kind(models.TextChoices):
        """The wire format that the endpoint speaks."""

        OPENAI = "openai", "OpenAI-compatible"
        ANTHROPIC = "anthropic", "Anthropic"
        OLLAMA = "ollama", "Ollama"
        PILOT = "pilot", "Scripted pilot"

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    kind = models.CharField(max_length=20, choices=Kind.choices)
    base_url = models.CharField(
        max_length=500, blank=True, validators=[URLValidator(["http", "https"])]
    )
    sealed_key = models.TextField(blank=True, editable=False)
    default_model = models.CharField(max_length=200, blank=True)
    window = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tokens; empty: asked of the endpoint."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["openai", "anthropic", "ollama", "pilot"]),
                name="provider_kind_known",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def api_key(self) -> str:
        """The key in clear; raises SecretUnreadableError."""
        return vault.unseal(self.sealed_key)

    @api_key.setter
    def api_key(self, key: str) -> None:
        self.sealed_key = vault.seal(key)


class Prompt(models.Model):
    """A named system prompt; its text lives in versions."""

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name

    @property
    def current(self) -> PromptVersion | None:
        """The version that views use: always the newest (A10)."""
        return self.versions.order_by("-number").first()


class PromptVersion(models.Model):
    """One edit of a prompt. Rolling back makes a new version."""

    prompt = models.ForeignKey(
        Prompt, on_delete=models.CASCADE, related_name="versions"
    )
    number = models.PositiveIntegerField()
    text = models.TextField()
    author = models.CharField(max_length=200, blank=True)
    note = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["prompt", "number"], name="prompt_version_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.prompt_id} v{self.number}"


class Account(models.Model):
    """A game account. The agent never sees its password."""

    username = models.CharField(max_length=100, unique=True)
    sealed_password = models.TextField(blank=True, editable=False)
    empire = models.CharField(max_length=50, blank=True)
    player_id = models.CharField(max_length=100, blank=True)
    sealed_session = models.TextField(blank=True, editable=False)
    assigned_to = models.ForeignKey(
        "Mysis",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="accounts",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Lower("username"),
                name="account_name_any_case",
                violation_error_message=NAME_TAKEN,
            )
        ]

    def __str__(self) -> str:
        return self.username

    @property
    def password(self) -> str:
        """The password in clear; raises SecretUnreadableError."""
        return vault.unseal(self.sealed_password)

    @password.setter
    def password(self, password: str) -> None:
        self.sealed_password = vault.seal(password)

    @property
    def game_session(self) -> str:
        """The game's own session id; raises SecretUnreadableError."""
        return vault.unseal(self.sealed_session)

    @game_session.setter
    def game_session(self, session: str) -> None:
        self.sealed_session = vault.seal(session)


class Mysis(models.Model):
    """One agent."""

    class State(models.TextChoices):
        """Changed by compare-and-set only; stop always wins."""

        IDLE = "idle"
        RUNNING = "running"
        STOPPED = "stopped"
        ERRORED = "errored"

    name = models.CharField(
        max_length=100,
        unique=True,
        validators=[NAME, check_visible],
        error_messages={"unique": NAME_TAKEN},
    )
    model = models.CharField(max_length=300, default="pilot")
    model_settings = models.JSONField(
        default=dict, blank=True, validators=[check_model_settings]
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.IDLE)
    # Bumped by start and stop: a turn of an older epoch must not write.
    epoch = models.PositiveIntegerField(default=0, editable=False)
    # The queued job of the next turn; any other job of this Mysis is void.
    next_job = models.BigIntegerField(null=True, blank=True, editable=False)
    prompt = models.ForeignKey(
        Prompt, on_delete=models.PROTECT, null=True, blank=True, related_name="myses"
    )
    policy = models.ForeignKey(
        "memory.ContextPolicy",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="myses",
    )
    account = models.OneToOneField(
        Account,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="active_mysis",
    )
    max_iterations = models.PositiveIntegerField(
        default=10, validators=[MinValueValidator(1), MaxValueValidator(1000)]
    )
    messaging = models.BooleanField(
        default=False,
        help_text="Whether it is given tools to write to other Myses.",
    )
    nudges = models.PositiveIntegerField(default=0, editable=False)
    # Turns in a row that the model or the game failed; back-off grows with it.
    failures = models.PositiveIntegerField(default=0, editable=False)
    activity = models.CharField(max_length=200, blank=True, editable=False)
    tick = models.BigIntegerField(null=True, blank=True, editable=False)
    wake_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    turn_count = models.PositiveIntegerField(default=0, editable=False)
    input_tokens = models.BigIntegerField(default=0, editable=False)
    output_tokens = models.BigIntegerField(default=0, editable=False)
    cost = models.DecimalField(
        max_digits=14, decimal_places=6, default=Decimal(0), editable=False
    )
    last_memory_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "myses"
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["idle", "running", "stopped", "errored"]),
                name="mysis_state_known",
            ),
            models.UniqueConstraint(
                Lower("name"),
                name="mysis_name_any_case",
                violation_error_message=NAME_TAKEN,
            ),
        ]
        indexes = [models.Index(fields=["state"], name="mysis_state")]

    def __str__(self) -> str:
        return self.name


class Pin(models.Model):
    """A standing order that no strategy may lose (I16)."""

    mysis = models.ForeignKey(Mysis, on_delete=models.CASCADE, related_name="pins")
    text = models.TextField()
    author = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.text[:60]


class Broadcast(models.Model):
    """One message to the fleet; each delivery is a Memory that points here."""

    text = models.TextField()
    sender = models.CharField(max_length=200)
    mysis = models.ForeignKey(
        Mysis, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    # Outlives its sender: an agent's word never becomes the commander's.
    from_mysis = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    vector = models.GeneratedField(
        expression=plain_vector("text"),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    class Meta:
        indexes = [GinIndex(fields=["vector"], name="broadcast_fts", fastupdate=False)]

    def __str__(self) -> str:
        return self.text[:60]


class ToolCatalogue(models.Model):
    """The tools that a game server offered last, as models are shown them.

    Kept so that a preview counts the same tool schemas as the next call sends.
    """

    url = models.CharField(max_length=500, primary_key=True)
    tools = models.JSONField(default=list)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.url


class Turn(models.Model):
    """One turn: at most ``max_iterations`` model calls and their tools."""

    class Outcome(models.TextChoices):
        """How it ended; empty while it runs."""

        DONE = "done"
        ITERATION_LIMIT = "iteration_limit"
        STOPPED = "stopped"
        ERRORED = "errored"
        INTERRUPTED = "interrupted"

    mysis = models.ForeignKey(
        Mysis, on_delete=models.CASCADE, related_name="turns", db_index=False
    )
    number = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField(default=0)
    job_id = models.BigIntegerField(null=True, blank=True)
    trigger = models.CharField(max_length=20)
    outcome = models.CharField(  # noqa: DJ001 (null is: still running)
        max_length=20, choices=Outcome.choices, null=True, blank=True
    )
    iterations = models.PositiveIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=Decimal(0))
    latency_ms = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["mysis", "number"], name="turn_once")
        ]
        indexes = [
            models.Index(fields=["mysis", "-id"], name="turn_newest"),
            models.Index(fields=["started_at"], name="turn_started"),
            models.Index(
                fields=["mysis"], name="turn_open", condition=Q(outcome__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"turn {self.number} of {self.mysis_id}"


class ModelCall(models.Model):
    """One request to a model and what came of it."""

    turn = models.ForeignKey(
        Turn, on_delete=models.CASCADE, related_name="calls", db_index=False
    )
    number = models.PositiveIntegerField()
    model = models.CharField(max_length=300)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=Decimal(0))
    latency_ms = models.PositiveIntegerField(default=0)
    finish_reason = models.CharField(max_length=50, blank=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["turn", "number"], name="call_once")
        ]

    def __str__(self) -> str:
        return f"call {self.number} of turn {self.turn_id}"


class Event(models.Model):
    """One line of the append-only event log.

    ``xid`` is the transaction that wrote it: readers follow (xid, id) below
    the oldest running transaction, so nothing that commits late is missed.
    """

    xid = models.BigIntegerField(
        db_default=Func(function="txid_current", output_field=models.BigIntegerField())
    )
    kind = models.CharField(max_length=50)
    mysis = models.ForeignKey(
        Mysis,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        blank=True,
        related_name="+",
    )
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["xid", "id"], name="event_order"),
            models.Index(fields=["mysis", "xid", "id"], name="event_of_mysis"),
            models.Index(fields=["kind", "xid", "id"], name="event_of_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} #{self.pk}"
