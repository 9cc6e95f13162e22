"""The Django app that wires the others together."""

from __future__ import annotations

from django.apps import AppConfig


class ZoeaConfig(AppConfig):
    """Sign-in, API tokens and the commands of the whole program."""

    name = "zoea"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from . import checks  # noqa: F401 (registers on import)
