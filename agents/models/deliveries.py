"""Which call a message was shown in, and which turn answered it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from .fleet import Mysis
from .runs import Turn


class Delivery(models.Model):
    """A message of a human or of a broadcast that a call has taken in.

    Without such a row a message is queued. ``shown`` is false for one that the budget
    of the context left out. It is done when a turn that had it ends by itself. The
    numbers of turn and call stay when the turn itself is pruned.
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
