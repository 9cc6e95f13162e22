"""The tables of access: API tokens, sign-in links, answers to repeated writes."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class Role(models.IntegerChoices):
    """What somebody may do; each role includes the lower ones."""

    VIEWER = 1, "viewer"
    OPERATOR = 2, "operator"
    ADMIN = 3, "admin"


class ApiToken(models.Model):
    """A bearer token of a program; only its hash is stored."""

    name = models.CharField(max_length=100, unique=True)
    role = models.CharField(
        max_length=10, choices=[(label, label.title()) for label in Role.labels]
    )
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API token"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def select_usable(cls) -> models.QuerySet[ApiToken]:
        """Those that are neither revoked nor expired."""
        endless = models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now())
        return cls.objects.filter(endless, revoked_at=None)


class SignInLink(models.Model):
    """A link that signs in once; only its hash is stored."""

    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.digest[:12]


class IdempotencyRecord(models.Model):
    """The answer given to a write, for a client that repeats it.

    ``status`` is null while the write runs. One that is ``apart`` does not commit
    together with this row, so the row alone does not tell its outcome.
    """

    actor = models.CharField(max_length=200)
    key = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True)
    # A default of the database: an older web server writes rows without it.
    apart = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["actor", "key"], name="idempotency_key_once"
            )
        ]
        indexes = [models.Index("created_at", name="idempotency_age")]

    def __str__(self) -> str:
        return self.key
