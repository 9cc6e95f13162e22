"""Hides secrets in what is stored and in what is shown; every door uses it (A11).

What a secret looks like is in `memory.secret_patterns`; here are the values that the
program itself keeps sealed, as this process knows them, and documents and rows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from django.core.signals import request_started
from django.db.models import CharField, JSONField, Model, TextField
from django.db.models.signals import post_migrate, pre_migrate

from memory.secret_patterns import (
    HIDDEN,
    SHORTEST,
    KnownValues,
    is_secret_name,
    mask_patterns,
)

__all__ = ["HIDDEN", "SHORTEST", "hide_secrets", "hide_secrets_in_value"]
# The tag of a message to a person that tells a secret which was made just now.
SHOWN_ONCE = "once"
R = TypeVar("R", bound=Model)
# So long a process may not know of a value that another one has sealed, where no
# request makes it look.
SECONDS = 5.0
# The longest text whose masked form a process keeps for a while, in characters.
_REMEMBERED = 4_000


class SealedValues:
    """The values that are kept sealed, read again when they have changed.

    They are looked at with the first text of a request, and else every few seconds;
    never in an event loop, which may not wait for the database.
    """

    def __init__(self) -> None:
        self._read_version: Callable[[], object] = lambda: None
        self._read_values: Callable[[], Iterable[str]] = tuple
        self._version: object = None
        self._known = KnownValues()
        self._lock = threading.Lock()
        self.valid_until = 0.0

    def connect(
        self, version: Callable[[], object], values: Callable[[], Iterable[str]]
    ) -> None:
        """Say how they are read, and how it is told cheaply whether they changed."""
        self._read_version, self._read_values = version, values

    def expire(self, **_signal: Any) -> None:
        """Look again before the next text is shown."""
        self.valid_until = 0.0

    def forget(self, **_signal: Any) -> None:
        """Know nothing until somebody makes it look again."""
        self._version, self._known = None, KnownValues()
        self.valid_until = math.inf

    @property
    def known(self) -> KnownValues:
        """Those that were read last, without a look at the database."""
        return self._known

    @property
    def is_due(self) -> bool:
        """Whether they are to be looked at again."""
        return time.monotonic() >= self.valid_until

    def read(self) -> KnownValues:
        """Those that are sealed now."""
        if self.is_due and not _is_in_loop():
            with self._lock:
                # Before it is read: what is sealed meanwhile makes it due again.
                self.valid_until = time.monotonic() + SECONDS
                try:
                    self._read()
                except Exception:
                    self.expire()
                    raise
        if _is_in_loop():
            return self._known
        # Another thread may be reading them just now.
        with self._lock:
            return self._known

    def _read(self) -> None:
        version = self._read_version()
        if version != self._version:
            self._known = KnownValues(self._read_values())
            self._version = version


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


sealed = SealedValues()
request_started.connect(sealed.expire)
# Where tables are made or changed, those of sealed values may not be there yet.
pre_migrate.connect(sealed.forget)
post_migrate.connect(sealed.expire)


# --- The masking function


def hide_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets; one that holds none comes back as it was.

    ``secrets`` are values beside those that are sealed. What is hidden stays hidden.
    """
    return _mask(text, sealed.read(), frozenset(secrets))


def hide_secrets_offline(text: str) -> str:
    """As `hide_secrets`, without a look at the database: it may be what failed."""
    return _mask(text, sealed.known, frozenset())


class MaskingFormatter(logging.Formatter):
    """Writes lines of a log, tracebacks too, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return hide_secrets_offline(super().format(record))


def _mask(text: str, known: KnownValues, more: frozenset[str]) -> str:
    if not text:
        return text
    return (_remember if len(text) <= _REMEMBERED else _find)(text, known, more)


def _find(text: str, known: KnownValues, more: frozenset[str]) -> str:
    text = known.mask(text)
    if more:
        text = _know(more).mask(text)
    return mask_patterns(text)


# Many texts pass several doors, or one again and again.
_remember = lru_cache(maxsize=4096)(_find)


@lru_cache(maxsize=256)
def _know(values: frozenset[str]) -> KnownValues:
    return KnownValues(values)


def hide_secrets_in_value(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with masked secrets; their keys stay."""
    return _mask_value(value, sealed.read(), frozenset(secrets))


def hide_secret_texts(value: Any, *, but: str = "") -> Any:
    """A JSON value with its texts masked, whatever their keys are called.

    ``but`` is a secret that was made just now, to be told once.
    """
    known = sealed.read()

    def hide(one: Any) -> Any:
        if isinstance(one, str):
            return one if but and one == but else _mask(one, known, frozenset())
        if isinstance(one, Mapping):
            return {key: hide(item) for key, item in one.items()}
        if isinstance(one, tuple):
            return tuple(map(hide, one))
        return list(map(hide, one)) if isinstance(one, list) else one

    return hide(value)


def _mask_value(value: Any, known: KnownValues, more: frozenset[str]) -> Any:
    if isinstance(value, str):
        return _mask(value, known, more)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if is_secret_name(key) and _is_told(item)
            else _mask_value(item, known, more)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_mask_value(item, known, more) for item in value]
    return value


def _is_told(value: object) -> bool:
    """Whether something stands under the name of a secret: a text, or a long number."""
    if isinstance(value, str):
        return bool(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and len(str(value)) >= SHORTEST


def drop_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """An answer for a model: in JSON secrets are left out with their keys."""
    masked = hide_secrets(text, secrets)
    if masked == text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return masked
    dropped = _drop_named(value)
    if dropped == value:
        return masked
    indent = 2 if "\n" in text.strip() else None
    return hide_secrets(json.dumps(dropped, ensure_ascii=False, indent=indent), secrets)


def _drop_named(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _drop_named(item)
            for key, item in value.items()
            if not (is_secret_name(key) and _is_told(item))
        }
    return [_drop_named(item) for item in value] if isinstance(value, list) else value


def hide_secrets_in_row(row: R) -> R:
    """Mask all texts of a row that is only shown: it must not be saved then."""
    for field in row._meta.concrete_fields:
        value = row.__dict__.get(field.attname)
        if isinstance(field, CharField | TextField) and isinstance(value, str):
            setattr(row, field.attname, hide_secrets(value))
        elif isinstance(field, JSONField) and value is not None:
            setattr(row, field.attname, hide_secrets_in_value(value))
    return row
