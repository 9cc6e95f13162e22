"""Hides secrets in what is stored and in what is shown; every door uses it (A11).

What a secret looks like is in `memory.secret_patterns`; here are the values that the
program itself keeps sealed, as this process knows them, and documents and rows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from django.core.signals import request_started
from django.db import connection
from django.db.models import CharField, JSONField, Model, TextField
from django.db.models.signals import post_migrate, pre_migrate

from memory.secret_patterns import (
    HIDDEN,
    SHORTEST,
    KnownValues,
    is_secret_name,
    mask_patterns,
    names_secret,
)

__all__ = ["HIDDEN", "SHORTEST", "hide_secrets", "hide_secrets_in_value"]
R = TypeVar("R", bound=Model)
# What an answer holds as free JSON: there a key is a name of its own.
FREE_FIELDS = frozenset(
    {"input", "content", "arguments", "args", "payload", "data", "model_settings"}
)
# So long a process may not know of a value that another one has sealed, where no
# request makes it look.
SECONDS = 5.0
# The longest text whose masked form a process keeps for a while, in characters.
_REMEMBERED = 2_000


class SealedValues:
    """The values that are kept sealed, read again when they have changed.

    They are looked at with the first text of a request, and else every few seconds;
    never in an event loop, which may not wait for the database.
    """

    def __init__(self) -> None:
        self._read_version: Callable[[], object] = lambda: None
        self._read_values: Callable[[], Iterable[str]] = tuple
        self._version: object = None
        self._first = self._known = KnownValues()
        self._lock = threading.Lock()
        self.valid_until = 0.0

    def connect(
        self,
        version: Callable[[], object],
        values: Callable[[], Iterable[str]],
        first: Iterable[str] = (),
    ) -> None:
        """Say how they are read, and how it is told cheaply whether they changed.

        ``first`` are those that are known before the database was looked at.
        """
        self._read_version, self._read_values = version, values
        self._first = KnownValues(first)
        self._known = self._first

    def expire(self, **_signal: Any) -> None:
        """Look again before the next text is shown."""
        self.valid_until = 0.0

    def forget(self, **_signal: Any) -> None:
        """Know nothing of the database until somebody makes it look again."""
        self._version, self._known = None, self._first
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
            # Outside of the lock: it may have to wait for a connection.
            connection.ensure_connection()
            with self._lock:
                if self.is_due:
                    self._read_anew()
        if _is_in_loop():
            return self._known
        # Another thread may be reading them just now.
        with self._lock:
            return self._known

    def _read_anew(self) -> None:
        # Before it is read: what is sealed meanwhile makes it due again.
        self.valid_until = time.monotonic() + SECONDS
        try:
            self._read()
        except Exception:
            self.expire()
            raise

    def _read(self) -> None:
        version = self._read_version()
        if version != self._version:
            self._known = KnownValues(self._read_values())
            self._version = version
            # What was masked by others is never asked for again, and holds on to them.
            for remembered in (_remember, _remember_item):
                remembered.cache_clear()


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


# Where a page is cut into pieces: a page writes a "<" of a text in another way, so no
# secret reaches over the beginning of an element.
_ELEMENTS = re.compile(r"<(?=(?:div|tr|td|li|p|svg|option)[ >])")
_ITEMS = re.compile(r"<(?=(?:li|tr|section|form|select)[ >])")
# The longest item whose masked form is kept, in characters: a row of a fleet.
_ITEM = 20_000


def hide_secrets_in_page(page: str) -> str:
    """As `hide_secrets`, for HTML: what an earlier page had too is not searched again.

    First items are looked for, as rows of a fleet, then the elements of a new one.
    """
    known = sealed.read()
    return "<".join(
        [
            (_remember_item if len(item) <= _ITEM else _mask_elements)(item, known)
            for item in _ITEMS.split(page)
        ]
    )


def _mask_elements(item: str, known: KnownValues) -> str:
    parts = _ELEMENTS.split(item)
    masked = "<".join([_mask(part, known, frozenset()) for part in parts])
    # The text itself where nothing is hidden: what is remembered holds it once.
    return item if masked == item else masked


_remember_item = lru_cache(maxsize=1_024)(_mask_elements)


class MaskingFormatter(logging.Formatter):
    """Writes lines of a log, tracebacks too, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return hide_secrets_offline(super().format(record))


def _mask(text: str, known: KnownValues, more: frozenset[str]) -> str:
    if not text:
        return text
    return (_remember if len(text) <= _REMEMBERED else _find)(text, known, more)


def _find(text: str, known: KnownValues, more: frozenset[str]) -> str:
    masked = known.mask(text)
    if more:
        masked = _know(more).mask(masked)
    if masked.startswith(_JSON_STARTS) and (masked != text or names_secret(masked)):
        shown = _mask_json(masked, known, more)
        if shown is not None:
            return shown
    return mask_patterns(masked)


_JSON_STARTS = ("{", "[", " ", "\n")


def _mask_json(text: str, known: KnownValues, more: frozenset[str]) -> str | None:
    """A text of JSON with its values masked, so that it stays JSON; None for another."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict | list):
            return None
        shown = _mask_value(value, known, more)
        return text if shown == value else dump_alike(shown, text)
    except (ValueError, RecursionError):
        return None


def dump_alike(value: Any, text: str) -> str:
    """A value as JSON, laid out as this text is."""
    indent = 2 if "\n" in text.strip() else None
    tight = indent is None and '": ' not in text
    # Half a surrogate pair can be written only as an escape.
    plain = text.isascii() or "\\ud" in text.lower()
    return json.dumps(
        value,
        ensure_ascii=plain,
        indent=indent,
        separators=(",", ":") if tight else None,
    )


# Many texts pass several doors, or one again and again.
_remember = lru_cache(maxsize=16_384)(_find)


@lru_cache(maxsize=256)
def _know(values: frozenset[str]) -> KnownValues:
    return KnownValues(values)


def hide_secrets_in_value(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with masked secrets; their keys stay."""
    return _mask_value(value, sealed.read(), frozenset(secrets))


def hide_secret_texts(value: Any, *, but: str = "") -> Any:
    """A JSON value with its texts masked, whatever their keys are called.

    In what is kept as free JSON (``FREE_FIELDS``) also by their keys. ``but`` is a
    secret that was made just now, to be told once.
    """
    known = sealed.read()

    def hide(one: Any) -> Any:
        if isinstance(one, str):
            return one if but and one == but else _mask(one, known, frozenset())
        if isinstance(one, Mapping):
            return {
                key: _mask_value(item, known, frozenset())
                if key in FREE_FIELDS
                else hide(item)
                for key, item in one.items()
            }
        if isinstance(one, tuple):
            return tuple(map(hide, one))
        return list(map(hide, one)) if isinstance(one, list) else one

    return hide(value)


def _mask_value(value: Any, known: KnownValues, more: frozenset[str]) -> Any:
    if isinstance(value, str):
        return _mask(value, known, more)
    if isinstance(value, Mapping):
        return {
            key: _hide_leaves(item)
            if _names_secrets(key, item)
            else _mask_value(item, known, more)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_mask_value(item, known, more) for item in value]
    return value


def _names_secrets(key: object, item: object) -> bool:
    """Whether what stands under a key is a secret, or all that is within it."""
    if isinstance(item, Mapping | list | tuple):
        named = is_secret_name(key) or _is_plural(key)
        return named and not _is_schema(item) and _hide_leaves(item) != item
    return is_secret_name(key) and _is_told(item)


def _is_plural(key: object) -> bool:
    """Whether this names several secrets; tokens are also what a model counts in."""
    name = key.lower() if isinstance(key, str) else ""
    return not name.endswith("tokens") and is_secret_name(name.removesuffix("s"))


def _is_schema(item: object) -> bool:
    """Whether this only says what may stand under a name."""
    if not isinstance(item, Mapping):
        return False
    if isinstance(item.get("type"), str):
        return item["type"] in _SCHEMA_TYPES
    return not _SCHEMA_KEYS.isdisjoint(item)


_SCHEMA_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_SCHEMA_KEYS = {"$ref", "anyOf", "oneOf", "allOf"}


def _hide_leaves(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _hide_leaves(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        hidden = map(_hide_leaves, value)
        return tuple(hidden) if isinstance(value, tuple) else list(hidden)
    return HIDDEN if _is_told(value) else value


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
    return hide_secrets(dump_alike(dropped, text), secrets)


def _drop_named(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _drop_named(item)
            for key, item in value.items()
            if not _names_secrets(key, item)
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
