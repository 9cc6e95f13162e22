"""Who may come in: roles, API tokens, sign-in links, and the admission of requests.

The role that a request needs follows from its method and route, here and nowhere else,
because the APIs below must not know who signs in. A write that is not named here needs
an admin.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import (
    Argon2PasswordHasher,
    BasePasswordHasher,
    BCryptSHA256PasswordHasher,
    PBKDF2PasswordHasher,
    PBKDF2SHA1PasswordHasher,
    ScryptPasswordHasher,
)
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import timezone

from memory.audit import Actor, record, record_failed_sign_in
from memory.models import fetch_rows
from memory.problems import Problem
from zoea import rate_limits
from zoea.models import ApiToken, Role, SignInLink

API_ROOT = "/api/v1"
LINK_ROOT = "/sign-in"
READS = frozenset({"GET", "HEAD", "OPTIONS"})
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_PURE = re.compile(r"/context/assemble/?|/prices/?")
_COMMAND = re.compile(r"/myses/[^/]+/command/?")
# A name may have any sign, also the end of a line.
_NOTES = re.compile(r"/myses/[^/]+/notes/.+", re.DOTALL)
_STEERING = re.compile(
    r"/myses/[^/]+/(?:start|stop|message|command)/?|/broadcasts/?|/orders/?"
    r"|/alerts/targets/[^/]+/test/?|/replays/?|/myses/[^/]+/branches/?|/rewinds/?"
)
_TAKEN_BACK = re.compile(
    rf"{_NOTES.pattern}|/myses/[^/]+/branches/[^/]+/?|/rewinds/[^/]+/?", re.DOTALL
)
_REPLAYS = re.compile(r"/replays/[^/]+/?")
# What somebody outside answered may be more than those who only look should know.
_ANSWERS = re.compile(r"/alerts/targets/[^/]+/deliveries/?")
# It tells of everybody.
_AUDIT = re.compile(r"/audit(?:/.*)?", re.DOTALL)
_CHANGES = re.compile(r"/orders/[^/]+/?|/alerts/settings/?")

# A fixed beginning lets secret scanners recognise a leaked token.
PREFIX = "zoea_"
# How the log names a program, before the name of its token.
TOKEN_PREFIX = "token:"  # noqa: S105 (no secret)
# Who comes with a token that nobody has, in the audit log.
UNKNOWN = "unknown token"
LAST_USED_STEP = timedelta(minutes=1)
# Every request of a program asks this; the ORM takes longer for it than the database.
FIND_USABLE = """
SELECT id, name, role, last_used_at FROM zoea_apitoken
WHERE digest = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s)
"""

NO_BEARER = (
    "Send 'Authorization: Bearer <token>' with a token of `manage.py create_token`"
)
WRONG_BEARER = (
    "This token is unknown, expired or revoked: make a new one with "
    "`manage.py create_token`."
)

_LOCAL_ADMIN = "admin"
LINK_LIFETIME = timedelta(days=7)


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in; ``by`` is how the log names them."""

    by: str
    role: Role
    session: bool

    def __str__(self) -> str:
        return self.by

    def as_actor(self, address: str) -> Actor:
        """This caller as the audit log names them."""
        token = "" if self.session else self.by.removeprefix(TOKEN_PREFIX)
        return Actor(self.by, token, address)


def find_address(request: HttpRequest) -> str:
    """The IP address of the client, or what is in its place."""
    return str(request.META.get("REMOTE_ADDR") or "")


def find_scope_address(scope: Mapping[str, Any]) -> str:
    """As `find_address`, of an ASGI connection."""
    return str((scope.get("client") or ("",))[0] or "")


class TokenError(Exception):
    """The token cannot be made; the text says why and what to do."""


def admit_caller(request: HttpRequest) -> Caller:
    """Find the caller of a request, before its body is read.

    Raises a Problem, in this order: 401 for nobody, 403 for too low a role, 429 for
    too many writes.
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
    if method not in READS and (wait := rate_limits.writes.take(caller.by)):
        raise _too_many(wait)
    return caller


def identify(request: HttpRequest) -> Caller:
    """Find the caller of a request; a token counts alone, also beside a session.

    Raises a 401 Problem.
    """
    if given := request.headers.get("Authorization", ""):
        return identify_bearer(given, find_address(request))
    caller = find_user_caller(getattr(request, "user", None))
    if caller is None:
        raise unauthenticated_problem(f"{NO_BEARER}, or sign in with a browser.")
    return caller


def unauthenticated_problem(detail: str) -> Problem:
    return Problem(
        401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"}
    )


def identify_bearer(authorization: str, address: str) -> Caller:
    """Find the caller of an Authorization header; a wrong token counts for the address.

    Raises a Problem: 401, or 429 for an address that keeps guessing.
    """
    caller = find_token_caller(read_bearer(authorization))
    if caller is None:
        if wait := rate_limits.wrong_tokens.take(rate_limits.find_network(address)):
            raise _too_many(wait)
        record_failed_sign_in(UNKNOWN, address, "token")
        raise unauthenticated_problem(WRONG_BEARER)
    return caller


def _too_many(wait: float) -> Problem:
    seconds = max(1, math.ceil(wait))
    return Problem(
        429,
        "too_many_requests",
        f"Too many requests: try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )


def check_csrf(request: HttpRequest) -> None:
    """Raise a 403 Problem for a session's request without its CSRF token.

    The middleware leaves the API out, because a bearer token needs no CSRF token. Call
    it after the body was read: the check may look for the token in a form.
    """

    # Any view will do: it is not called.
    guard = CsrfViewMiddleware(HttpResponse)
    request.csrf_processing_done = False  # type: ignore[attr-defined]
    guard.process_request(request)
    if guard.process_view(request, HttpResponse, (), {}) is not None:
        raise Problem(
            403,
            "csrf",
            "A write from a browser session needs the X-CSRFToken header (or use a "
            "bearer token).",
        )


def required_role(method: str, path: str) -> Role:
    """The role that a request to the API needs (SURFACES section 6, Roles)."""
    route = path.removeprefix(API_ROOT)
    if method.upper() in READS and _AUDIT.fullmatch(route):
        return Role.ADMIN
    if method.upper() in READS and _ANSWERS.fullmatch(route):
        return Role.OPERATOR
    if method.upper() in READS or is_pure(method, path):
        return Role.VIEWER
    steers = {
        "POST": _STEERING,
        "PUT": _NOTES,
        "DELETE": _TAKEN_BACK,
        "PATCH": _CHANGES,
    }
    asked = steers.get(method.upper())
    if asked is not None and asked.fullmatch(route):
        return Role.OPERATOR
    if method.upper() == "DELETE" and _REPLAYS.fullmatch(route):
        return Role.OPERATOR
    return Role.ADMIN


def is_pure(method: str, path: str) -> bool:
    """Whether this is a POST that only computes: it writes nothing."""
    route = path.removeprefix(API_ROOT)
    return method.upper() == "POST" and _PURE.fullmatch(route) is not None


def commits_apart(path: str) -> bool:
    """Whether a write talks to the game, and so commits step by step by itself."""
    return _COMMAND.fullmatch(path.removeprefix(API_ROOT)) is not None


def find_token_caller(secret: str) -> Caller | None:
    """The caller of a token; None if it is unknown, expired or revoked."""
    now = timezone.now()
    found = fetch_rows(FIND_USABLE, [hash_secret(secret), now])
    if not found:
        return None
    [(number, name, role, used_at)] = found
    if used_at is None or used_at < now - LAST_USED_STEP:
        ApiToken.objects.filter(pk=number).update(last_used_at=now)
    return make_token_caller(name, role)


def make_token_caller(name: str, role: str) -> Caller:
    return Caller(f"{TOKEN_PREFIX}{name}", Role[role.upper()], session=False)


def find_user_caller(user: object) -> Caller | None:
    """The caller of a browser session; None where nobody is signed in."""
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_superuser:
        role = Role.ADMIN
    else:
        role = Role.OPERATOR if user.is_staff else Role.VIEWER
    return Caller(f"operator:{user.username}", role, session=True)


def read_bearer(authorization: str) -> str:
    """The token of an Authorization header; empty when it holds none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def hash_secret(secret: str) -> str:
    """The hash under which a secret is stored; it is random, so a plain hash is safe."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def make_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def create_token(
    *, name: str, role: str, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token; returns the row and the secret, which is not stored.

    Raises TokenError for a name that is taken or unusable, or an unknown role.
    """
    secret = make_secret()
    token = ApiToken(
        name=name.strip(), role=role, digest=hash_secret(secret), expires_at=expires_at
    )
    try:
        token.clean_fields(exclude=["digest"])
        with transaction.atomic():
            token.save(force_insert=True)
            record(
                "token.create",
                f"token:{token.name}",
                after={"role": role, "expires_at": expires_at},
            )
    except ValidationError as error:
        faults = error.message_dict
        if "role" in faults:
            faults = {"role": ["choose viewer, operator or admin."]}
        field, texts = next(iter(faults.items()))
        raise TokenError(f"{field}: {' '.join(texts)}") from error
    except IntegrityError as error:
        raise TokenError(
            f"name: there is a token named {name!r} already; choose another name, or "
            "delete that token in the admin."
        ) from error
    return token, secret


def create_sign_in_link() -> str:
    """Make a link that signs in once; returns its path."""
    SignInLink.objects.filter(created_at__lt=timezone.now() - LINK_LIFETIME).delete()
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(digest=hash_secret(secret))
    return f"{LINK_ROOT}/{secret}/"


@transaction.atomic
def use_sign_in_link(secret: str) -> User | None:
    """Use a link up: the local admin, or None if it was used before or never made.

    One statement decides, so only one of two requests at once gets in. The admin has no
    password until one is set.
    """
    used = SignInLink.objects.filter(digest=hash_secret(secret), used_at=None).update(
        used_at=timezone.now()
    )
    if not used:
        return None
    user, made = User.objects.get_or_create(
        username=_LOCAL_ADMIN, defaults={"is_staff": True, "is_superuser": True}
    )
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        told = {"is_staff": True, "is_superuser": True}
        by = f"operator:{_LOCAL_ADMIN}"
        record("user.create", f"user:{_LOCAL_ADMIN}", by=by, after=told)
    return user


def is_loopback(address: str | None) -> bool:
    """Whether an IP address is this machine's own."""
    try:
        found = ipaddress.ip_address((address or "").split("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


class _BoundedHasher(BasePasswordHasher):
    """Hashes two passwords at a time, with no pooled connection held meanwhile."""

    def encode(self, *args: Any, **kwargs: Any) -> Any:
        """Hash; raises a 503 Problem where no place became free in time."""
        with rate_limits.hashes.taken():
            return super().encode(*args, **kwargs)


def _bound(hasher: type[BasePasswordHasher]) -> type[BasePasswordHasher]:
    return type(f"Bounded{hasher.__name__}", (_BoundedHasher, hasher), {})


# Django's default, and those of users that were brought along: bcrypt needs its package.
BoundedPBKDF2PasswordHasher = _bound(PBKDF2PasswordHasher)
BoundedPBKDF2SHA1PasswordHasher = _bound(PBKDF2SHA1PasswordHasher)
BoundedBCryptSHA256PasswordHasher = _bound(BCryptSHA256PasswordHasher)
BoundedScryptPasswordHasher = _bound(ScryptPasswordHasher)


class BoundedArgon2PasswordHasher(_BoundedHasher, Argon2PasswordHasher):
    """For passwords by Argon2; needs argon2-cffi."""

    def verify(self, password: str, encoded: str) -> bool:
        """Compare by the library, which does not encode."""
        with rate_limits.hashes.taken():
            return super().verify(password, encoded)


class AuditedPasswordMixin:
    """For a form of a password, whose write is one with its entry in the audit log."""

    def save(self, commit: bool = True) -> User:
        """Hash outside of the transaction, which would keep a connection meanwhile.

        What an admin changed of the user meanwhile stays changed.
        """
        user: User = super().save(commit=False)  # type: ignore[misc]
        if commit:
            with transaction.atomic():
                user.save(update_fields=["password"])
                told = {"password": user.has_usable_password()}
                record("user.password", f"user:{user.get_username()}", after=told)
        return user
