"""API tokens: made once, shown once, stored as a hash."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from zoea.models import ApiToken

from .roles import Role

# A fixed beginning lets secret scanners recognise a leaked token.
PREFIX = "zoea_"
TOUCH_EVERY = timedelta(minutes=1)


class TokenError(Exception):
    """The token cannot be made; the text says why and what to do."""


def digest_of(secret: str) -> str:
    """What is stored of a secret: random enough that a plain hash is safe."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def new_secret() -> str:
    """A token as its holder keeps it."""
    return PREFIX + secrets.token_urlsafe(32)


def create_token(
    *, name: str, role: Role | str, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token; returns the row and the secret, which is not kept.

    Raises TokenError for a name that is taken or unusable, or an unknown role.
    """
    secret = new_secret()
    label = role.label if isinstance(role, Role) else role
    token = ApiToken(
        name=name.strip(), role=label, digest=digest_of(secret), expires_at=expires_at
    )
    try:
        token.full_clean(exclude=["digest"])
        with transaction.atomic():
            token.save(force_insert=True)
    except ValidationError as error:
        raise TokenError(_reason(name, error)) from error
    except IntegrityError as error:
        raise TokenError(_taken(name)) from error
    return token, secret


def _reason(name: str, error: ValidationError) -> str:
    faults = error.message_dict
    if "role" in faults:
        return "role: choose viewer, operator or admin."
    if any("already exists" in text for text in faults.get("name", [])):
        return _taken(name)
    field, texts = next(iter(faults.items()))
    return f"{field}: {' '.join(texts)}"


def _taken(name: str) -> str:
    return (
        f"name: there is a token named {name!r} already; choose another name, or "
        "delete that token in the admin."
    )


def find_token(secret: str) -> ApiToken | None:
    """The living token of this secret, or None: unknown, expired or revoked."""
    now = timezone.now()
    token = (
        ApiToken.objects.filter(digest=digest_of(secret), revoked_at=None)
        .filter(Q(expires_at=None) | Q(expires_at__gt=now))
        .first()
    )
    if token is not None:
        _touch(token, now)
    return token


def _touch(token: ApiToken, now: datetime) -> None:
    if token.last_used_at is None or token.last_used_at < now - TOUCH_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
