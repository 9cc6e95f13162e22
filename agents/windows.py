"""What endpoints say of their models' context windows, kept for every process."""

from __future__ import annotations

from django.db import models


class AskedWindow(models.Model):
    """One model of one endpoint: the tokens it says it can read, null where it did not.

    ``limit`` is what a refusal named since, which is truer than any list. An empty
    ``base_url`` is the provider's own address.
    """

    kind = models.CharField(max_length=20)
    base_url = models.CharField(max_length=500, blank=True)
    model = models.CharField(max_length=300)
    tokens = models.PositiveIntegerField(null=True)
    source = models.CharField(max_length=100, blank=True)
    asked_at = models.DateTimeField(null=True)
    limit = models.PositiveIntegerField(null=True)
    limited_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "base_url", "model"], name="window_of_model"
            )
        ]

    def __str__(self) -> str:
        return f"{self.model} at {self.base_url or self.kind}"
