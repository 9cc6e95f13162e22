"""Hashing passwords without taking all that the process has."""

from __future__ import annotations

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from memory.problems import release_connection
from zoea import limits


class BoundedPasswordHasher(PBKDF2PasswordHasher):
    """Django's own hashes, two at a time, with no pooled connection held meanwhile.

    Every door that hashes comes through here: the sign-in page and the admin.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Hash; raises a 503 Problem where others hash for too long."""
        release_connection()
        with limits.hashes.taken():
            return super().encode(password, salt, iterations)
