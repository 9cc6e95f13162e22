"""Three roles, each including the ones before it, and what a request needs.

The rule is by method and route and lies in this one place, because the APIs
below must not know who signs in. Its default is the careful one: a write that
nobody named needs an admin.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Protocol

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import reverse
from django.utils import timezone

from memory.lookup import Problem, release_connection
from zoea import rate_limits
from zoea.models import ApiToken, SignInLink

API_ROOT = "/api/v1"
READS = frozenset({"GET", "HEAD", "OPTIONS"})

_PURE = re.compile(r"/context/assemble/?")
_COMMAND = re.compile(r"/myses/[^/]+/command/?")
_STEERING = re.compile(r"/myses/[^/]+/(?:start|stop|message|command)/?|/broadcasts/?")


class Role(IntEnum):
    """What somebody may do; comparable."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The name as tokens store it and messages say it."""
        return self.name.lower()

    @classmethod
    def named(cls, name: str) -> Role:
        """The role of a stored name."""
        return cls[name.upper()]


class Account(Protocol):
    """What is read of a Django user."""

    @property
    def is_superuser(self) -> bool:
        """May do everything."""

    @property
    def is_staff(self) -> bool:
        """May enter the admin."""


def role_of(user: Account) -> Role:
    """The role of a browser session: superuser, staff, anybody else."""
    if user.is_superuser:
        return Role.ADMIN
    return Role.OPERATOR if user.is_staff else Role.VIEWER


def required_role(method: str, path: str) -> Role:
    """What a request to the API needs (SURFACES section 6, Roles)."""
    if method.upper() in READS:
        return Role.VIEWER
    if is_pure(method, path):
        return Role.VIEWER
    if method.upper() == "POST" and _STEERING.fullmatch(path.removeprefix(API_ROOT)):
        return Role.OPERATOR
    return Role.ADMIN


def is_pure(method: str, path: str) -> bool:
    """Whether a POST only computes: it writes nothing and may be repeated at will."""
    route = path.removeprefix(API_ROOT)
    return method.upper() == "POST" and _PURE.fullmatch(route) is not None


def commits_apart(path: str) -> bool:
    """Whether a write speaks to the game, and so commits step by step by itself."""
    return _COMMAND.fullmatch(path.removeprefix(API_ROOT)) is not None


# SECTION API tokens: made once, shown once, stored as a hash.

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


# SECTION Who stands behind a request or a socket.


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


# SECTION The door of the REST API: who asks, may they, and how often.

NOBODY = (
    "Send 'Authorization: Bearer <token>' with a token of `manage.py create_token`, "
    "or sign in with a browser."
)
WRONG = (
    "This token is unknown, expired or revoked: make a new one with "
    "`manage.py create_token`."
)
NO_CSRF = (
    "A write from a browser session needs the X-CSRFToken header (or use a bearer "
    "token)."
)


def admit(request: HttpRequest) -> Caller:
    """Let a request in, or raise the Problem that says why not.

    In this order: 401 for nobody, 403 for too little role, 429 for too many
    writes. The body has not been looked at yet.
    """
    caller = identify(request)
    method = request.method or "GET"
    needed = required_role(method, request.path_info)
    if caller.role < needed:
        raise Problem(
            403,
            "forbidden",
            f"This needs the role {needed.label}; yours is {caller.role.label}.",
        )
    if method not in READS:
        throttle(caller)
    return caller


def identify(request: HttpRequest) -> Caller:
    """Who asks; a token that is given decides alone, also beside a session."""
    given = request.headers.get("Authorization", "")
    if given:
        caller = caller_of_token(bearer_of(given)) if bearer_of(given) else None
        if caller is None:
            raise stranger(request.META.get("REMOTE_ADDR", ""), WRONG)
        return caller
    caller = caller_of_user(getattr(request, "user", AnonymousUser()))
    if caller is None:
        raise unauthenticated(NOBODY)
    return caller


def unauthenticated(detail: str) -> Problem:
    """The 401."""
    return Problem(
        401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"}
    )


def stranger(address: str, detail: str) -> Problem:
    """The answer to a wrong token: 401, or 429 for one who keeps guessing."""
    wait = rate_limits.wrong_tokens.take(address)
    return too_many(wait) if wait else unauthenticated(detail)


def too_many(wait: float) -> Problem:
    """The 429; Retry-After in whole seconds."""
    seconds = max(1, math.ceil(wait))
    return Problem(
        429,
        "too_many_requests",
        f"Too many requests: try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )


def throttle(caller: Caller) -> None:
    """Count one write."""
    wait = rate_limits.writes.take(caller.by)
    if wait:
        raise too_many(wait)


def check_csrf(request: HttpRequest) -> None:
    """Raise a Problem unless the request carries its CSRF token.

    To be called after the body was read: the check may look for it in a form.
    """
    if _csrf_refused(request):
        raise Problem(403, "csrf", NO_CSRF)


def _csrf_refused(request: HttpRequest) -> bool:
    def view(request: HttpRequest) -> HttpResponse:
        raise NotImplementedError

    # Routes of the API are exempt from the middleware, because a bearer token
    # needs none; so the check runs here, for sessions.
    guard = CsrfViewMiddleware(view)
    request.csrf_processing_done = False  # type: ignore[attr-defined]
    guard.process_request(request)
    return guard.process_view(request, view, (), {}) is not None


# SECTION One-time sign-in links, as ``manage.py up`` prints them.

LOCAL_ADMIN = "admin"
KEPT = timedelta(days=7)


def create_sign_in_link() -> str:
    """Make a link that signs in once; returns its path on this server."""
    SignInLink.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(digest=digest_of(secret))
    return reverse("sign-in-link", args=[secret])


def use_link(secret: str) -> User | None:
    """Use a link up; the local admin, or None if it was used or never made.

    One statement decides, so of two that come at once only one gets in.
    """
    used = SignInLink.objects.filter(digest=digest_of(secret), used_at=None).update(
        used_at=timezone.now()
    )
    return local_admin() if used else None


def local_admin() -> User:
    """The superuser of the links; it has no password until one is set."""
    user, made = User.objects.get_or_create(
        username=LOCAL_ADMIN, defaults={"is_staff": True, "is_superuser": True}
    )
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def is_loopback(address: str | None) -> bool:
    """Whether an address is this very machine."""
    try:
        found = ipaddress.ip_address((address or "").split("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


# SECTION Hashing passwords without taking all that the process has.


class BoundedPasswordHasher(PBKDF2PasswordHasher):
    """Django's own hashes, two at a time, with no pooled connection held meanwhile.

    Every door that hashes comes through here: the sign-in page and the admin.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """Hash; raises a 503 Problem where others hash for too long."""
        release_connection()
        with rate_limits.hashes.taken():
            return super().encode(password, salt, iterations)
