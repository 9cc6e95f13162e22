"""``manage.py changepassword``: Django's own, with an entry in the audit log."""

from __future__ import annotations

from django.contrib.auth.management.commands import changepassword

from zoea.management.user_commands import UserCommand


class Command(UserCommand, changepassword.Command):
    """Sets the password of a user."""
