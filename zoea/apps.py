"""The Django app that wires the others together."""

from __future__ import annotations

import gc

from django.apps import AppConfig

# A view of two thousand messages is some forty thousand objects that all live until it
# is sent: Python's own thresholds have them looked through again and again for cycles,
# a third of the time that a view takes.
COLLECTING = (50_000, 20, 50)


class ZoeaConfig(AppConfig):
    """Sign-in, API tokens and the commands of the whole program."""

    name = "zoea"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and look for cyclic garbage less often."""
        from . import checks  # noqa: F401 (registers on import)

        gc.set_threshold(*COLLECTING)
