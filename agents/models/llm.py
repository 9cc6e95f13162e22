"""Providers of models, prompts with their versions, and context windows of models."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import models
from django.db.models import Q

from agents.encryption import SealedProperty
from agents.validators import NAME, check_no_secret
from memory.secret_patterns import mask_query


class _Addressed:
    base_url: models.CharField[str, str]

    @property
    def shown_address(self) -> str:
        """The address, without the query that an older row may have."""
        return mask_query(str(self.base_url))


class Provider(_Addressed, models.Model):
    """An LLM endpoint. Its key can be written, never read back."""

    class Kind(models.TextChoices):
        """The wire format that the endpoint speaks."""

        OPENAI = "openai", "OpenAI-compatible"
        ANTHROPIC = "anthropic", "Anthropic"
        OLLAMA = "ollama", "Ollama"
        PILOT = "pilot", "Scripted pilot"

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    kind = models.CharField(max_length=20, choices=Kind.choices)
    base_url = models.CharField(
        max_length=500, blank=True, validators=[URLValidator(["http", "https"])]
    )
    sealed_key = models.TextField(blank=True, editable=False)
    default_model = models.CharField(max_length=200, blank=True)
    window = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tokens; empty: asked of the endpoint."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    api_key = SealedProperty("sealed_key")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["openai", "anthropic", "ollama", "pilot"]),
                name="provider_kind_known",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse an address that holds a secret, at its field."""
        try:
            check_no_secret(self.base_url)
        except ValidationError as error:
            raise ValidationError({"base_url": error}) from error


class Prompt(models.Model):
    """A named system prompt; its text lives in versions."""

    name = models.CharField(max_length=100, unique=True, validators=[NAME])
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name

    @property
    def current(self) -> PromptVersion | None:
        """The version that views use: always the newest (A10)."""
        return self.versions.order_by("-number").first()


class PromptVersion(models.Model):
    """One edit of a prompt. Rolling back makes a new version."""

    prompt = models.ForeignKey(
        Prompt, on_delete=models.CASCADE, related_name="versions"
    )
    number = models.PositiveIntegerField()
    text = models.TextField()
    author = models.CharField(max_length=200, blank=True)
    note = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["prompt", "number"], name="prompt_version_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.prompt} v{self.number}"


class AskedWindow(_Addressed, models.Model):
    """The context window of one model at one endpoint, in tokens; null if not said.

    A ``limit`` that a refusal named counts more. No ``base_url``: the provider's own.
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
        return f"{self.model} at {self.shown_address or self.kind}"
