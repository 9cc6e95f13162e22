"""Three roles, each including the ones before it, and what a request needs.

The rule is by method and route and lies in this one place, because the APIs
below must not know who signs in. Its default is the careful one: a write that
nobody named needs an admin.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Protocol

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
