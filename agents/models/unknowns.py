"""Actions of which nobody knows whether they happened."""

from __future__ import annotations

from django.db import models

from .fleet import Mysis


class UnknownOutcome(models.Model):
    """An action whose reply was lost, until a read has told what became of it.

    The same call is not sent again before that. From ``tick`` on a read tells; where
    none is known, some time after it was made. ``memory`` is the row of its result, null where the chain itself says so.
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
