"""Refusals that a program can read: a status, a slug, and one sentence."""

from __future__ import annotations


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


def invalid(field: str, remedy: str) -> Problem:
    """A parameter or field that cannot be used (422)."""
    return Problem(422, "invalid", f"{field}: {remedy}")


def missing(what: str) -> Problem:
    """Something that is not there (404)."""
    return Problem(404, "not_found", what)
