"""``manage.py createsuperuser``: Django's own, with an entry in the audit log."""

from __future__ import annotations

from django.contrib.auth.management.commands import createsuperuser

from zoea.management.user_commands import UserCommand


class Command(UserCommand, createsuperuser.Command):
    """Makes a user who may do everything."""
