"""The Django app that wires the others together."""

from __future__ import annotations

import gc
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

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
        from zoea import apps as checks  # noqa: F401 (registers on import)

        gc.set_threshold(*COLLECTING)


# SECTION System checks of the whole program.


@register()
def key_is_kept(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """The key that encrypts secrets must outlive the process."""
    if settings.ZOEA_KEYS_KEPT:
        return []
    return [
        Error(
            f"The secret key could not be stored in {settings.ZOEA_DATA}.",
            hint="Make the data folder writable, or set ZOEA_SECRET_KEY.",
            id="zoea.E001",
        )
    ]
