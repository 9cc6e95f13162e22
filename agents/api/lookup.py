"""Rows by what a path names: a number, or a unique name."""

from __future__ import annotations

from typing import TypeVar, cast

from django.db import models
from django.http import HttpRequest

from agents.models import Mysis
from memory.owners import number_of, owner_of
from memory.problems import missing

M = TypeVar("M", bound=models.Model)


def mysis_of(reference: str) -> Mysis:
    """The Mysis of a number or name; raises a 404 Problem."""
    return cast("Mysis", owner_of(reference))


def find(rows: models.QuerySet[M], reference: str) -> M | None:
    """The row of a name, or else of a number; None where there is neither."""
    if "\x00" in reference:
        return None
    named = rows.filter(name=reference).first()
    number = number_of(reference)
    if named is not None or number is None:
        return named
    return rows.filter(pk=number).first()


def get(rows: models.QuerySet[M], reference: str, what: str) -> M:
    """As ``find``; raises a 404 Problem."""
    found = find(rows, reference)
    if found is None:
        raise missing(f"There is no {what} {reference[:100]!r}.")
    return found


def by(request: HttpRequest) -> str:
    """How the log names who asks."""
    return str(request.auth)  # type: ignore[attr-defined]
