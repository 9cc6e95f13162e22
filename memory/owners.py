"""Whose memory: a Mysis named by number or by its unique name (SURFACES 6)."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

from django.apps import apps
from django.db.models import QuerySet

from .problems import Problem, missing

MAX_ID = 2**63 - 1
Rows = TypeVar("Rows", bound=QuerySet[Any, Any])


class GameAccount(Protocol):
    """What is read of a game account here."""

    username: str


class Owner(Protocol):
    """What is read of a Mysis here; its model lies above this app."""

    pk: int
    name: str
    account: GameAccount | None


def number_of(reference: str) -> int | None:
    """The id that a reference spells, or None when it is no stored id's shape."""
    if not (reference.isascii() and reference.isdecimal() and len(reference) <= 19):
        return None
    number = int(reference)
    return number if number <= MAX_ID else None


def find_owner(reference: str) -> Owner | None:
    """The Mysis of a number or a name, or None."""
    rows = apps.get_model("agents", "Mysis").objects.select_related(
        "account", "prompt", "policy"
    )
    return cast("Owner | None", named(rows, reference).first())


def named(rows: Rows, reference: str) -> Rows:
    """Of Myses the one of a number or a name."""
    number = number_of(reference)
    if number is not None:
        return rows.filter(pk=number)
    if "\x00" in reference or reference.isdecimal():
        return rows.none()
    return rows.filter(name=reference)


def owner_of(reference: str) -> Owner:
    """The Mysis of a number or a name; raises a 404 Problem."""
    found = find_owner(reference)
    if found is None:
        raise unknown(reference)
    return found


def unknown(reference: str) -> Problem:
    """The 404 of a Mysis that is not there."""
    return missing(
        f"There is no Mysis {reference[:100]!r}: /api/v1/myses lists their names."
    )
