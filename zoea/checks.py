"""System checks of the whole program."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register


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
