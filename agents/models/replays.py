"""Replays: recorded calls assembled anew under other policies, and what came of each."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from agents.models.fleet import Mysis


class Replay(models.Model):
    """The calls of a Mysis, a label or the whole fleet, under each of some policies.

    ``policies`` are as they were when it was asked for: a list of ``{name,
    strategy, options, budget_tokens, budget_reserve}``, no two of one name. Without
    ``budget_tokens`` each call keeps its own budget. One that is cancelled is deleted,
    with all of its rows.
    """

    class State(models.TextChoices):
        """How far it is."""

        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    UNDER_WAY: ClassVar = (State.QUEUED, State.RUNNING)

    mysis = models.ForeignKey(
        Mysis, on_delete=models.CASCADE, null=True, blank=True, related_name="replays"
    )
    # A group or a tag; all of the fleet where there is no Mysis either.
    label = models.CharField(max_length=100, blank=True)
    # Calls made from one moment on, and before another.
    since = models.DateTimeField(null=True, blank=True)
    until = models.DateTimeField()
    policies = models.JSONField(default=list)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    # Calls that were replayed, of all.
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    report = models.JSONField(default=dict, blank=True)
    # Why it failed, with the remedy.
    error = models.TextField(blank=True)
    # The queue's job that works on it, and how many jobs did.
    job_id = models.BigIntegerField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["id"],
                name="replay_under_way",
                condition=Q(state__in=["queued", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"replay {self.pk} of {self.subject}"

    @property
    def subject(self) -> str:
        """Whose calls they are: a name, a label, or the fleet."""
        return self.mysis.name if self.mysis else self.label or "the fleet"


class ReplayCall(models.Model):
    """One recorded call in a replay; it stays when the call is pruned.

    ``figures`` are those of each policy by its name; ``differs`` says why the view under
    the call's own policy is not the recorded one, empty where it is, byte for byte.
    """

    replay = models.ForeignKey(
        Replay, on_delete=models.CASCADE, related_name="calls", db_index=False
    )
    # Its number within the replay, from 1.
    place = models.PositiveIntegerField()
    call_id = models.BigIntegerField()
    mysis_id = models.BigIntegerField()
    turn_id = models.BigIntegerField()
    turn_number = models.PositiveIntegerField()
    call_number = models.PositiveIntegerField()
    at = models.DateTimeField()
    figures = models.JSONField(default=dict)
    differs = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["replay", "place"], name="replay_call_once")
        ]

    def __str__(self) -> str:
        return f"call {self.call_number} of turn {self.turn_number}"
