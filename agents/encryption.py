"""Secrets at rest: Fernet under the installation's keys, newest first.

``settings.ZOEA_KEYS`` holds one or more secrets; the first encrypts, all
decrypt, so a key is rotated by putting a new one in front.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import connection

from memory.redaction import sealed
from memory.secret_patterns import is_secret_name

# How many opened secrets a process keeps: those of some thousand accounts.
KEPT = 4096


class SecretUnreadableError(Exception):
    """A stored secret was encrypted under a key that is no longer configured."""


def _fernet() -> MultiFernet:
    keys: list[str] = settings.ZOEA_KEYS
    digests = (hashlib.sha256(key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(d)) for d in digests])


def seal(text: str) -> str:
    """Encrypt; an empty text stays empty."""
    return _fernet().encrypt(text.encode()).decode() if text else ""


def unseal(token: str) -> str:
    """Decrypt what `seal` made; raises SecretUnreadableError where no key fits."""
    if not token:
        return ""
    try:
        return _fernet().decrypt(token.encode()).decode()
    except InvalidToken as error:
        raise SecretUnreadableError(
            "A stored secret cannot be read with the present key: restore the "
            "old ZOEA_SECRET_KEY (or the key file) behind the new one."
        ) from error


def unseal_again(token: str) -> str:
    """What `unseal` gives; opened once in a process, for who needs it time and again."""
    return _unseal_under(tuple(settings.ZOEA_KEYS), token)


@lru_cache(maxsize=KEPT)
def _unseal_under(keys: tuple[str, ...], token: str) -> str:
    del keys  # Under others it may not be opened at all.
    return unseal(token)


def sealed_property(column: str) -> property:
    """A secret in clear, sealed in ``column``; reading raises SecretUnreadableError."""

    def write(row: object, text: str) -> None:
        setattr(row, column, seal(text))
        sealed.expire()

    return property(lambda row: unseal(getattr(row, column)), write)


# --- All that is sealed, to be hidden wherever it is shown

_SEALED = """
SELECT unnest(ARRAY[sealed_password, sealed_session, sealed_answer]) AS token
FROM agents_account
UNION ALL SELECT sealed_key FROM agents_provider
UNION ALL SELECT unnest(ARRAY[sealed_url, sealed_secret]) FROM agents_alerttarget
"""
_VERSION = f"""
SELECT count(*), sum(hashtextextended(token, 0)) FROM ({_SEALED}) AS sealed
"""  # noqa: S608 (no input in the text)
# The shortest path of an address that is looked for by itself, with its first slash.
_SHORTEST_PATH = 12


def read_sealed_version() -> object:
    """What is another as soon as something else is sealed; one short statement."""
    return (*_fetch(_VERSION), *_read_settings())


def read_sealed_values() -> frozenset[str]:
    """All values that are sealed, as far as they can be opened, and those of settings."""
    found = {*_read_settings()}
    for (token,) in _fetch(_SEALED):
        with suppress(SecretUnreadableError):
            found.update(_split_secret(unseal_again(token)))
    return frozenset(found)


def _fetch(sql: str) -> list[Any]:
    # Not by `memory.models`, which cannot be loaded as early as this.
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows: list[Any] = cursor.fetchall()
    return rows


def _read_settings() -> Iterator[str]:
    yield settings.SPACEMOLT_REGISTRATION_CODE
    yield settings.OPENAI_API_KEY
    yield settings.ANTHROPIC_API_KEY
    yield from settings.ZOEA_KEYS
    yield str(settings.DATABASES["default"].get("PASSWORD") or "")


def _split_secret(text: str) -> Iterator[str]:
    """A sealed text, and what of it is a secret by itself."""
    yield text
    if "://" in text:
        parts = urlsplit(text)
        path = f"{parts.path}?{parts.query}".rstrip("?/")
        for one in {path, unquote(path), parts.password or "", parts.query}:
            yield one if len(one) >= _SHORTEST_PATH else ""
    elif text.startswith("{"):
        with suppress(ValueError, RecursionError):
            yield from _find_named(json.loads(text))


def _find_named(value: Any) -> Iterator[str]:
    """What an answer to a registration holds under the name of a secret."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and is_secret_name(key):
                yield item
            yield from _find_named(item)
    elif isinstance(value, list):
        for item in value:
            yield from _find_named(item)
