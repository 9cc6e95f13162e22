"""Keeps passwords and session ids from models, memories, search hits and logs (A11)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings

HIDDEN = "[hidden]"
# Shorter secrets are hidden by their key only: as text they are anywhere.
SHORTEST = 6
_NAMED = re.compile(
    r"\b(session[ _-]?id|password|\w*token)\b(\W{1,6}|\W+is\W+)[\w-]{16,}",
    re.IGNORECASE,
)
_KEY_ENDS = ("password", "sessionid", "token", "registrationcode")
_SUSPECT = re.compile(
    r"session[ _-]?id|password|token|registration_code", re.IGNORECASE
)


def hide_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without secrets; one that holds none comes back as it was."""
    if _SUSPECT.search(text):
        text = _drop_secret_keys(text)
        text = _NAMED.sub(rf"\1\2{HIDDEN}", text)
    known = {*secrets, settings.SPACEMOLT_REGISTRATION_CODE}
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text


def hide_secrets_in_value(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with masked secrets; their keys stay."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if _is_secret(key, item)
            else hide_secrets_in_value(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [hide_secrets_in_value(item, secrets) for item in value]
    return hide_secrets(value, secrets) if isinstance(value, str) else value


def _drop_secret_keys(text: str) -> str:
    try:
        value = json.loads(text)
        dropped = _drop_secrets(value)
        if dropped == value:
            return text
        indent = 2 if "\n" in text.strip() else None
        return json.dumps(dropped, ensure_ascii=False, indent=indent)
    except (ValueError, RecursionError):
        return text


def _drop_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _drop_secrets(item)
            for key, item in value.items()
            if not _is_secret(key, item)
        }
    return [_drop_secrets(item) for item in value] if isinstance(value, list) else value


def _is_secret(key: object, value: object) -> bool:
    if not isinstance(key, str) or not isinstance(value, str) or not value:
        return False
    return key.lower().replace("_", "").replace("-", "").endswith(_KEY_ENDS)
