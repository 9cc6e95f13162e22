"""The Django app that remembers."""

from __future__ import annotations

from django.apps import AppConfig


class MemoryConfig(AppConfig):
    """Memories, summaries, snapshots, policies and what was sent."""

    name = "memory"
    verbose_name = "Memory"
    default_auto_field = "django.db.models.BigAutoField"
