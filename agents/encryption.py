"""Secrets at rest: Fernet under the installation's keys, newest first.

``settings.ZOEA_KEYS`` holds one or more secrets; the first encrypts, all
decrypt, so a key is rotated by putting a new one in front (`manage.py rotate_key`
then seals all that is stored under it).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.checks import CheckMessage, Warning
from django.db import connection, transaction

from memory.redaction import sealed
from memory.secret_patterns import SHORTEST, is_secret_name

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


def opens(token: str) -> bool:
    """Whether a key fits."""
    try:
        unseal(token)
    except SecretUnreadableError:
        return False
    return True


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


class SealedProperty(property):
    """A secret in clear, sealed in ``column``; reading raises SecretUnreadableError."""

    def __init__(self, column: str) -> None:
        super().__init__(lambda row: unseal(getattr(row, column)), self._write)
        self.column = column

    def _write(self, row: object, text: str) -> None:
        setattr(row, self.column, seal(text))
        sealed.expire()
        # Whoever looks before it is saved finds the old one.
        if connection.in_atomic_block:
            transaction.on_commit(sealed.expire)


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
# From this length on a text without a digit is no plain word.
_LONG = 16
_SEGMENT = re.compile(rf"(?=[^/?&=]*\d)[^/?&=]{{{_LONG},}}")


def read_sealed_version() -> object:
    """What is another as soon as something else is sealed; one short statement."""
    return (*_fetch(_VERSION), *_read_settings())


def read_sealed_values() -> frozenset[str]:
    """All values that are sealed, as far as they can be opened, and those of settings.

    Without plain words, which may stand in any text: those are hidden by name only.
    """
    found = {*_read_settings()}
    for (token,) in _fetch(_SEALED):
        with suppress(SecretUnreadableError):
            found.update(_split_secret(unseal_again(token)))
    return frozenset(one for one in found if not _is_plain_word(one))


def read_set_values() -> frozenset[str]:
    """Those of settings alone, which are known without the database."""
    return frozenset(one for one in _read_settings() if not _is_plain_word(one))


def check_secret_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Secrets of settings that are plain words cannot be hidden by their value."""
    return [
        Warning(
            f"{name} is a plain word, so it is hidden only where its name stands by it.",
            hint="Take one with a digit, or of 16 characters or more.",
            id="zoea.W001",
        )
        for name, value in _list_settings()
        # A local server that speaks like OpenAI takes any key.
        if len(value) >= SHORTEST and _is_plain_word(value) and name != "OPENAI_API_KEY"
    ]


def _is_plain_word(text: str) -> bool:
    return len(text) < _LONG and not any(sign.isdecimal() for sign in text)


def _fetch(sql: str) -> list[Any]:
    # Not by `memory.models`, which cannot be loaded as early as this.
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows: list[Any] = cursor.fetchall()
    return rows


def _read_settings() -> Iterator[str]:
    return (value for _, value in _list_settings())


def _list_settings() -> Iterator[tuple[str, str]]:
    for name in ("SPACEMOLT_REGISTRATION_CODE", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        yield name, getattr(settings, name)
    for key in settings.ZOEA_KEYS:
        yield "ZOEA_SECRET_KEY", key
    password = str(settings.DATABASES["default"].get("PASSWORD") or "")
    yield "The password in DATABASE_URL", password


def _split_secret(text: str) -> Iterator[str]:
    """A sealed text, and what of it is a secret by itself."""
    yield text
    if "://" in text:
        parts = urlsplit(text)
        yield unquote(parts.password or "")
        # A path or a question is one by itself where something in it is no word.
        path = f"{parts.path}?{parts.query}".rstrip("?/")
        for one in {path, unquote(path), parts.query}:
            yield one if _SEGMENT.search(one) else ""
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
