"""Django's commands on users, with entries in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from memory import audit
from memory.management.terminal import ActingCommand


class UserCommand(ActingCommand):
    """Records which users were made, and whose passwords changed; stands before Django's."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Run the command, and its entries in one transaction with it."""
        with transaction.atomic():
            before = _read_passwords()
            done = super().handle(*args, **options)
            for name, password in _read_passwords().items():
                if before.get(name) != password:
                    verb = "password" if name in before else "create"
                    told = {"password": password}
                    audit.record(f"user.{verb}", f"user:{name}", after=told)
        return done


def _read_passwords() -> dict[str, str]:
    return dict(User.objects.values_list("username", "password"))
