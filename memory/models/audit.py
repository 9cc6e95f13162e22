"""The audit log as a table. The database itself refuses to change or delete its rows."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

# What a row is whose tries are counted up within its minute; no other row ever changes.
FAILED_SIGN_IN = "sign_in.failed"


class AuditEntry(models.Model):
    """Who did what to what, when, from where and by which token.

    It names people and things by text, so that it outlives them. ``before`` and ``after``
    hold what the act changed, without secrets.
    """

    at = models.DateTimeField(default=timezone.now)
    who = models.CharField(max_length=200)
    token = models.CharField(max_length=100, blank=True)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=60)
    object = models.CharField(max_length=300, blank=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "audit entries"
        constraints = [
            models.UniqueConstraint(
                fields=["who", "address", "at"],
                condition=models.Q(action=FAILED_SIGN_IN),
                name="audit_failed_sign_ins_of_a_minute",
            )
        ]
        indexes = [
            models.Index("at", name="audit_at"),
            # By how a text begins.
            models.Index(
                fields=["who"], opclasses=["varchar_pattern_ops"], name="audit_who"
            ),
            models.Index(
                fields=["action"],
                opclasses=["varchar_pattern_ops"],
                name="audit_action",
            ),
            models.Index(
                fields=["object"],
                opclasses=["varchar_pattern_ops"],
                name="audit_object",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object}".strip()
