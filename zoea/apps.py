"""The Django app that wires the others together, and the program's system checks."""

from __future__ import annotations

from typing import Any

import django_stubs_ext
from django.apps import AppConfig
from django.contrib import admin
from django.core.checks import CheckMessage, Tags, register

from agents import encryption, process_memory
from memory.redaction import sealed
from zoea.commandline import check_secret_key

# Lets ModelAdmin[Row] and other typed generics be subscripted at run time. Here, before
# the first of them is loaded: settings are also read by those who load none.
django_stubs_ext.monkeypatch()


class ZoeaConfig(AppConfig):
    """Sign-in, API tokens and the commands of the whole program."""

    name = "zoea"
    verbose_name = "Access"

    def ready(self) -> None:
        """Say what is sealed; keep the process's memory small."""
        # The version is read with each request, not once in a while: what another
        # process has just sealed must be hidden in the very next answer.
        sealed.connect(
            encryption.read_sealed_version,
            encryption.read_sealed_values,
            encryption.read_set_values(),
        )
        process_memory.set_limits()


register(check_secret_key, "zoea")
register(encryption.check_secret_settings, "zoea")


@register(Tags.admin)
def check_admin_pages(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check the admin's pages, which Django may check before the routes load them."""
    admin.autodiscover()
    return admin.site.check(app_configs)
