"""Refusals that a program can read (SURFACES 6), also where the database has no room."""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolTimeout, TooManyRequests

# Seconds that a program is asked to wait where the server has no room.
BUSY_SECONDS = 5
OVERLOADED = "overloaded"
NO_CONNECTION = "The database has no free connection."
LOST_CONNECTION = "The database is away for a moment."
NO_SPACE = "The database has no disk space left: free some."
# The server ends, or starts; without a code the connection broke.
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", None})


class Problem(Exception):
    """A request that cannot be done; becomes ``{"detail", "code"}``.

    ``detail`` is one sentence that names the field and the remedy.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


class SlowSearchError(Problem):
    """A search that was given up after so many seconds; says how to ask for less."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            422,
            "too_slow",
            f"The search was given up after {seconds:g} s: name one Mysis, take rarer "
            "words, or search by words instead of letter for letter.",
        )


def make_invalid(field: str, remedy: str) -> Problem:
    """A parameter or field that cannot be used (422)."""
    return Problem(422, "invalid", f"{field}: {remedy}")


def make_missing(what: str) -> Problem:
    """Something that is not there (404)."""
    return Problem(404, "not_found", what)


def make_busy(what: str) -> Problem:
    """Something that there is no room for now (503); ``what`` is a sentence."""
    return Problem(
        503,
        OVERLOADED,
        f"{what} Try again in {BUSY_SECONDS} s.",
        headers={"Retry-After": str(BUSY_SECONDS)},
    )


def find_busy(error: BaseException | None) -> Problem | None:
    """The 503 of an error that means no room, or None for any other error.

    The pool times out where all connections are in use or the database is away for long.
    """
    while error is not None:
        if isinstance(error, Problem) and error.code == OVERLOADED:
            return error
        if isinstance(error, PoolTimeout | TooManyRequests):
            return make_busy(NO_CONNECTION)
        if isinstance(error, psycopg.errors.DiskFull):
            return make_busy(NO_SPACE)
        if isinstance(error, psycopg.OperationalError) and error.sqlstate in _LOST:
            return make_busy(LOST_CONNECTION)
        error = error.__cause__ or error.__context__
    return None
