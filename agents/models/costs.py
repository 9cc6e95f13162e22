"""What the fleet cost, day by day."""

from __future__ import annotations

from decimal import Decimal

from django.db import models

from .fleet import Mysis


class Usage(models.Model):
    """What one Mysis used of one model under one policy on one day (UTC).

    Written in the transaction that records the call, so that it is the sum of the
    calls at any moment; kept when turns, or the Mysis itself, are gone. ``calls``
    drive turns, ``summaries`` stand beside them, ``errors`` are those of both that
    brought no answer. Tokens as the provider counted them, ``cached`` a part of
    ``input``; cost in US dollars.
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
