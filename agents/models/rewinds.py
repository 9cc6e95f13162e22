"""Rewinds: recorded calls made anew, with other settings, against the recorded answers."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from agents.models.fleet import Mysis


class Rewind(models.Model):
    """A Mysis's calls from one on, made anew in a branch that leaves game and log alone.

    An empty ``prompt``, ``model`` or ``order`` and a ``policy`` of ``{}`` are as each
    call had them; ``order`` stands in the place of the message ``order_id``. One that is
    cancelled is deleted, with its steps. Its call may be pruned meanwhile.
    """

    class State(models.TextChoices):
        """How far it is."""

        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    class End(models.TextChoices):
        """Why it ended."""

        DIFFERS = "differs"
        RECORD = "end_of_record"
        LIMIT = "limit"
        ERROR = "error"
        BUDGET = "budget"

    UNDER_WAY: ClassVar = (State.QUEUED, State.RUNNING)

    mysis = models.ForeignKey(Mysis, on_delete=models.CASCADE, related_name="rewinds")
    call_id = models.BigIntegerField()
    turn_id = models.BigIntegerField()
    turn_number = models.PositiveIntegerField()
    call_number = models.PositiveIntegerField()
    prompt = models.TextField(blank=True)
    model = models.CharField(max_length=300, blank=True)
    policy = models.JSONField(default=dict, blank=True)
    order = models.TextField(blank=True)
    order_id = models.BigIntegerField(null=True, blank=True)
    most_steps = models.PositiveIntegerField(default=20)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    end = models.CharField(max_length=15, choices=End.choices, blank=True)
    error = models.TextField(blank=True)
    # The queue's job that works on it.
    job_id = models.BigIntegerField(null=True, blank=True)
    # Calls that were made anew, of all that may be.
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    # Of the first view, before it was made: its tokens, and US dollars for them.
    first_tokens = models.PositiveIntegerField(default=0)
    first_cost = models.DecimalField(
        max_digits=14, decimal_places=6, default=Decimal(0)
    )
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=Decimal(0))
    by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["id"],
                name="rewind_under_way",
                condition=Q(state__in=["queued", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"rewind {self.pk} of {self.mysis}"

    def get_absolute_url(self) -> str:
        """The address of its page."""
        return reverse("rewind", args=[self.pk])

    @property
    def is_under_way(self) -> bool:
        return self.state in self.UNDER_WAY


class RewindStep(models.Model):
    """One call of a rewind: the recorded answer and the one that was made, side by side.

    Both are ``{text, reasoning, calls, input_tokens, output_tokens, cached_tokens, cost,
    latency_ms}``. ``differs`` says why the calls are not the same, empty where they are.
    """

    rewind = models.ForeignKey(
        Rewind, on_delete=models.CASCADE, related_name="steps", db_index=False
    )
    # Its number within the rewind, from 1.
    place = models.PositiveIntegerField()
    turn_id = models.BigIntegerField()
    turn_number = models.PositiveIntegerField()
    call_number = models.PositiveIntegerField()
    recorded = models.JSONField(default=dict)
    made = models.JSONField(default=dict)
    differs = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rewind", "place"], name="rewind_step_once")
        ]

    def __str__(self) -> str:
        return f"step {self.place} of {self.rewind}"
