"""The Django app that wires the others together, and the program's system checks."""

from __future__ import annotations

import gc
from typing import Any

import django_stubs_ext
from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

# Lets ModelAdmin[Row] and other typed generics be subscripted at run time. Here, before
# the first of them is loaded: settings are also read by those who load none.
django_stubs_ext.monkeypatch()

# A view of 2,000 messages is about 40,000 objects that live until it is sent. Under
# Python's own thresholds the search for cycles takes a third of the time of a view.
GC_THRESHOLDS = (50_000, 20, 50)


class ZoeaConfig(AppConfig):
    """Sign-in, API tokens and the commands of the whole program."""

    name = "zoea"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Search for cyclic garbage less often."""
        gc.set_threshold(*GC_THRESHOLDS)


@register("zoea")
def check_secret_key(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
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
