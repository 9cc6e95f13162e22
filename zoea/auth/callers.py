"""Who stands behind a request or a socket."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User

from .roles import Role, role_of
from .tokens import find_token


@dataclass(frozen=True)
class Caller:
    """Somebody who is let in. ``by`` is how the log names them."""

    by: str
    role: Role
    session: bool

    def __str__(self) -> str:
        return self.by


def caller_of_token(secret: str) -> Caller | None:
    """The caller of a bearer token, or None."""
    token = find_token(secret)
    if token is None:
        return None
    return Caller(f"token:{token.name}", Role.named(token.role), session=False)


def caller_of_user(user: AbstractBaseUser | AnonymousUser) -> Caller | None:
    """The caller of a browser session, or None when nobody is signed in."""
    if not isinstance(user, User) or not user.is_active:
        return None
    return Caller(f"operator:{user.username}", role_of(user), session=True)


def bearer_of(authorization: str) -> str:
    """The token of an Authorization header; empty when it holds none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
