"""``manage.py migrate``: Django's own, on a database that this release can go on from."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from zoea.commandline import DatabaseError
from zoea.releases import find_refusal


class Command(migrate.Command):
    requires_system_checks = ["zoea"]

    def handle(self, *args: Any, **options: Any) -> None:
        if refusal := find_refusal():
            raise DatabaseError(refusal)
        super().handle(*args, **options)
