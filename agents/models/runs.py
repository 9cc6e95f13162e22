"""What the fleet did: turns, calls, events, deliveries, lost actions, usage by day.

Also what is stored of a game server (its tools, and when its next session may be opened)
and which workers hold a lock of the database by which others see that they live.
"""

from __future__ import annotations

from decimal import Decimal

from django.contrib.postgres.indexes import GinIndex
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Func, Q
from django.urls import reverse

from agents.models.fleet import Mysis
from memory.context.types import POLICIES
from memory.models.vectors import build_json_text, build_plain_vector

# The kinds of events that a digest is made of.
DIGEST_KINDS = (
    "mysis.state",
    "error",
    "context.compacted",
    "alert.raised",
    "alert.cleared",
)


class ToolCatalogue(models.Model):
    """The tools that a game server offered last: a preview counts what a call sends."""

    url = models.CharField(max_length=500, primary_key=True)
    tools = models.JSONField(default=list)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.url


class ToolPolicy(models.Model):
    """What a tool counts as, set by hand for the whole fleet (A1).

    It stands above what the game says of the tool and what its name suggests.
    """

    tool = models.CharField(
        max_length=100,
        unique=True,
        validators=[
            RegexValidator(
                r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?\Z",
                "A tool's name has letters, digits, dots, dashes and underscores; "
                "an action of a tool with several stands as tool/action.",
            )
        ],
    )
    policy = models.CharField(
        max_length=10,
        choices=[(name, name) for name in POLICIES],
        help_text="secret: arguments and results are hidden everywhere; print: its "
        "results are output in a coalesced context; snapshot, query, mutation, drain: "
        "what kind of call it is.",
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "tool policies"

    def __str__(self) -> str:
        return f"{self.tool}: {self.policy}"


class GameGate(models.Model):
    """The rate limit of a game's sessions; see ``agents.game.connect_limit``."""

    host = models.CharField(max_length=253, primary_key=True)
    full_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.host


class WorkerLock(models.Model):
    """A worker that holds a lock while it lives; see ``agents.runtime.recovery``."""

    number = models.BigIntegerField(primary_key=True)

    def __str__(self) -> str:
        return f"worker {self.number}"


class Fence(models.Model):
    """Which key and which game this database belongs to; see ``agents.fence``."""

    ONLY = 1

    number = models.PositiveSmallIntegerField(primary_key=True)
    key_check = models.TextField()
    game = models.TextField()
    seconds_per_tick = models.FloatField()

    def __str__(self) -> str:
        return self.game


class Turn(models.Model):
    """One turn: at most ``max_iterations`` model calls and their tools.

    What it was flown with, and what came of it, stands in the row, so that whoever
    adds up what a prompt, a policy or a model earned reads rows of turns alone.
    """

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
    # What it was flown with as it began; no model: the row is from before that was kept.
    # Defaults of the database: a worker of the former version writes none of these.
    prompt_version = models.ForeignKey(
        "agents.PromptVersion",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        blank=True,
        related_name="+",
    )
    policy_name = models.CharField(
        max_length=100, blank=True, default="", db_default=""
    )
    # Of strategy, options and budget: another whenever the policy was edited.
    policy_hash = models.CharField(max_length=8, blank=True, default="", db_default="")
    model = models.CharField(max_length=300, blank=True, default="", db_default="")
    # Which of them, in words, are others than in the turn before.
    changed = models.CharField(max_length=30, blank=True, default="", db_default="")
    # The account that it began with, and what that was known to have at first and at last;
    # what the turn brought, `CreditChange` tells.
    username = models.CharField(max_length=100, blank=True, default="", db_default="")
    credits_before = models.BigIntegerField(null=True, blank=True)
    credits_after = models.BigIntegerField(null=True, blank=True)
    # Calls that would change something, and those of them that failed; known at its end.
    actions = models.PositiveIntegerField(default=0, db_default=0)
    failed_actions = models.PositiveIntegerField(default=0, db_default=0)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # The end of the turn before, and for how long after it and its wait nothing was due.
    previous_end = models.DateTimeField(null=True, blank=True)
    idle_seconds = models.FloatField(default=0.0, db_default=0.0)
    # Until when the next turn was put off on purpose: for a tick, a nudge, a retry.
    waits_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["mysis", "number"], name="turn_once")
        ]
        indexes = [
            models.Index(fields=["mysis", "-id"], name="turn_newest"),
            # The first turn since a start.
            models.Index(fields=["mysis", "epoch", "id"], name="turn_of_epoch"),
            models.Index(fields=["started_at"], name="turn_started"),
            models.Index(
                fields=["mysis"], name="turn_open", condition=Q(outcome__isnull=True)
            ),
            models.Index(
                fields=["started_at"], name="turn_changed", condition=~Q(changed="")
            ),
        ]

    def __str__(self) -> str:
        return f"turn {self.number} of {self.mysis}"

    def get_absolute_url(self) -> str:
        """The address of its page."""
        return reverse("turn", args=[self.pk])


class ModelCall(models.Model):
    """One request to a model and what came of it.

    ``number`` counts from 1 within its kind: a summary shifts no number of the others.
    """

    class Kind(models.TextChoices):
        """What it was made for."""

        TURN = "turn"
        SUMMARY = "summary"

    turn = models.ForeignKey(
        Turn, on_delete=models.CASCADE, related_name="calls", db_index=False
    )
    # A default of the database: a worker of the former version writes no kind.
    kind = models.CharField(
        max_length=10, choices=Kind.choices, default=Kind.TURN, db_default=Kind.TURN
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
            models.UniqueConstraint(
                fields=["turn", "kind", "number"], name="call_of_kind_once"
            )
        ]

    def __str__(self) -> str:
        return f"call {self.number} of {self.turn}"


class CreditChange(models.Model):
    """One change of what a game account is known to have, and whose it is.

    The amounts of an account add up to what it has less what it was first known to have.
    ``turn`` is the one whose action brought it, whenever that became known; what no turn
    brought is the Mysis's. ``credits`` are those that it has since; null: a new life of
    the account, of which nothing is known yet.
    """

    username = models.CharField(max_length=100)
    mysis = models.ForeignKey(
        Mysis,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    turn = models.ForeignKey(
        Turn,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        blank=True,
        related_name="+",
    )
    amount = models.BigIntegerField(default=0)
    credits = models.BigIntegerField(null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["username", "-id"], name="credits_of_account"),
            models.Index(fields=["at"], name="credits_at"),
        ]

    def __str__(self) -> str:
        return f"{self.amount:+} of {self.username}"


# The events that are searched, and what of them: messages, calls and what grows old are
# found elsewhere. A call by hand is one, for a person made it.
SEARCHED_EVENTS = Q(
    kind__in=[
        "mysis.state",
        "context.compacted",
        "broadcast.sent",
        "order.changed",
        "prompt.changed",
        "error",
        "alert.raised",
        "alert.cleared",
    ]
) | Q(kind="tool.called", data__has_key="by")
EVENT_KEYS = (
    *("name", "state", "by", "tool", "outcome", "prompt", "note", "text"),
    *("reason", "detail", "remedy", "error", "hold", "stuck"),
)
EVENT_TEXT = build_json_text("data", EVENT_KEYS)


class Event(models.Model):
    """One line of the append-only event log.

    ``xid`` is the transaction that wrote it: readers read in the order of (xid, id),
    below the oldest running transaction, so they miss nothing that commits late.
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
            # What a digest adds up, by time: a small part of the log.
            models.Index(
                fields=["created_at"],
                name="event_in_digest",
                condition=Q(kind__in=DIGEST_KINDS),
            ),
            GinIndex(
                build_plain_vector(EVENT_TEXT),
                name="event_fts",
                fastupdate=False,
                condition=SEARCHED_EVENTS,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} #{self.pk}"


class Delivery(models.Model):
    """The first call that a message or broadcast was considered in; none: it is queued.

    ``shown`` is false for one that the budget of the context left out. It is done when
    a turn that had it ends by itself. The numbers stay when the turn is pruned.
    """

    memory = models.OneToOneField(
        "memory.Memory",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="delivery",
    )
    mysis = models.ForeignKey(
        Mysis, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    turn = models.ForeignKey(
        Turn, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    turn_number = models.PositiveIntegerField()
    call_number = models.PositiveIntegerField()
    shown = models.BooleanField(default=True)
    shown_at = models.DateTimeField(auto_now_add=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["mysis", "memory"], name="delivery_of_mysis"),
            models.Index(
                fields=["mysis"],
                name="delivery_open",
                condition=Q(done_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"message {self.memory_id} in call {self.call_number}"


class UnknownOutcome(models.Model):
    """An action whose reply was lost; deleted when a read shows whether it happened.

    The same call is not sent again before that. A read shows it from ``tick`` on, or,
    without a tick, some time after the call. ``memory`` is the id of its result's row,
    null where the tool chain wrote the result.
    """

    mysis = models.ForeignKey(Mysis, on_delete=models.CASCADE, related_name="+")
    username = models.CharField(max_length=100)
    tool = models.CharField(max_length=200)
    args = models.JSONField(default=dict)
    tick = models.BigIntegerField(null=True, blank=True)
    memory = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.tool} of {self.username}"


class Usage(models.Model):
    """What one Mysis used of one model under one policy on one day (UTC).

    Written in the transaction that records a call; stays when turns, or the Mysis, are
    deleted. ``calls`` are those of turns, without ``summaries``; ``errors`` are those of
    both without an answer. ``cached`` tokens are a part of ``input``; cost in US dollars.
    """

    day = models.DateField()
    mysis = models.ForeignKey(
        Mysis,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    policy = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=300)
    calls = models.PositiveIntegerField(default=0)
    summaries = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=Decimal(0))
    latency_ms = models.BigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "usage"
        constraints = [
            models.UniqueConstraint(
                fields=["mysis", "day", "policy", "model"], name="usage_once"
            )
        ]
        indexes = [models.Index(fields=["day"], name="usage_day")]

    def __str__(self) -> str:
        return f"usage of {self.mysis_id} on {self.day}"
