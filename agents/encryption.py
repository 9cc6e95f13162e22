"""Secrets at rest: Fernet under the installation's keys, newest first.

``settings.ZOEA_KEYS`` holds one or more secrets; the first encrypts, all
decrypt, so a key is rotated by putting a new one in front (`manage.py rotate_key`
then seals all that is stored under it).
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

# How many opened secrets a process keeps: those of some thousand accounts.
KEPT = 4096


class SecretUnreadableError(Exception):
    """A stored secret was encrypted under a key that is no longer configured."""


def _fernets() -> list[Fernet]:
    keys: list[str] = settings.ZOEA_KEYS
    digests = (hashlib.sha256(key.encode()).digest() for key in keys)
    return [Fernet(base64.urlsafe_b64encode(d)) for d in digests]


def seal(text: str) -> str:
    """Encrypt; an empty text stays empty."""
    return MultiFernet(_fernets()).encrypt(text.encode()).decode() if text else ""


def unseal(token: str) -> str:
    """Decrypt what `seal` made; raises SecretUnreadableError where no key fits."""
    if not token:
        return ""
    try:
        return MultiFernet(_fernets()).decrypt(token.encode()).decode()
    except InvalidToken as error:
        raise SecretUnreadableError(
            "A stored secret cannot be read with the present key: restore the "
            "old ZOEA_SECRET_KEY (or the key file) behind the new one."
        ) from error


def reseal(token: str) -> str:
    """The same secret under the first key; a token that is so already stays as it is.

    Raises SecretUnreadableError where no key fits.
    """
    if not token:
        return ""
    try:
        _fernets()[0].decrypt(token.encode())
    except InvalidToken:
        return seal(unseal(token))
    return token


def unseal_again(token: str) -> str:
    """What `unseal` gives; opened once in a process, for who needs it time and again."""
    return _unseal_under(tuple(settings.ZOEA_KEYS), token)


@lru_cache(maxsize=KEPT)
def _unseal_under(keys: tuple[str, ...], token: str) -> str:
    del keys  # Under others it may not be opened at all.
    return unseal(token)


def sealed_property(column: str) -> property:
    """A secret in clear, sealed in ``column``; reading raises SecretUnreadableError."""
    return property(
        lambda row: unseal(getattr(row, column)),
        lambda row, text: setattr(row, column, seal(text)),
    )
