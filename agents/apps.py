"""The Django app of the fleet."""

from __future__ import annotations

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """Myses, their providers, accounts, prompts, turns and events."""

    name = "agents"
    verbose_name = "Agents"
    default_auto_field = "django.db.models.BigAutoField"
