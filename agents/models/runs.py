"""What the fleet did, and what happened."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import Func, Q

from .fleet import Mysis


class ToolCatalogue(models.Model):
    """The tools that a game server offered last, as models are shown them.

    Kept so that a preview counts the same tool schemas as the next call sends.
    """

    url = models.CharField(max_length=500, primary_key=True)
    tools = models.JSONField(default=list)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.url


class GameGate(models.Model):
    """How soon the next session may be opened at a game; see ``agents.game.gate``."""

    host = models.CharField(max_length=253, primary_key=True)
    full_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.host


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
        return f"turn {self.number} of {self.mysis}"


class ModelCall(models.Model):
    """One request to a model and what came of it.

    ``number`` counts from 1 within its kind, so that a summary shifts no number of
    the calls that drive the turn.
    """

    class Kind(models.TextChoices):
        """What it was made for."""

        TURN = "turn"
        SUMMARY = "summary"

    turn = models.ForeignKey(
        Turn, on_delete=models.CASCADE, related_name="calls", db_index=False
    )
    # The default is the database's too: a worker of the version before knows no kind.
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
