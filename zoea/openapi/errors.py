"""Which refusals an operation can answer with, and how each looks.

The gate and the routes make them all in one shape; see ``zoea.gate``.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The write is done once within 24 hours, however often it is sent "
    "under this key; the repeated answer carries `Idempotent-Replayed: true`. What was "
    "refused is not remembered.",
    "schema": {"type": "string", "pattern": "^[ -~]{1,200}$"},
    "example": "order-4711",
}
_RETRY_AFTER: Json = {
    "Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}
}
_SCHEME: Json = {"WWW-Authenticate": {"schema": {"type": "string"}}}

#: By status: the component's name, when it is answered, an example, and headers.
REFUSALS: dict[str, tuple[str, str, Json, Json]] = {
    "400": (
        "Malformed",
        "The body is not usable JSON: bad UTF-8, half a surrogate pair, more than 64 "
        "levels, NaN.",
        {
            "detail": "The body is not usable JSON: byte 9 is not UTF-8.",
            "code": "malformed",
        },
        {},
    ),
    "401": (
        "Unauthenticated",
        "No token, or one that is unknown, expired or revoked.",
        {
            "detail": "This token is unknown, expired or revoked: make a new one with "
            "`manage.py create_token`.",
            "code": "unauthenticated",
        },
        _SCHEME,
    ),
    "403": (
        "Forbidden",
        "Too little role, or a browser session without its CSRF token; checked before "
        "the body is looked at.",
        {
            "detail": "This needs the role admin; yours is viewer.",
            "code": "forbidden",
        },
        {},
    ),
    "404": (
        "NotFound",
        "There is nothing of this number or name.",
        {"detail": "There is no Mysis 'Nobody'.", "code": "not_found"},
        {},
    ),
    "409": (
        "Conflict",
        "Not in this state, or the first request under the same Idempotency-Key still "
        "runs, broke off with an unknown outcome, or had an answer too long to be kept; "
        "the sentence says what to do.",
        {
            "detail": "Ada is stopped. Start it, then send again.",
            "code": "stopped",
        },
        {},
    ),
    "413": (
        "TooLarge",
        "The body is over 1 MiB (`/context/assemble`: 64 MiB for operators and admins), "
        "or holds too many lists, objects or messages.",
        {
            "detail": "The body is larger than 1,048,576 bytes: send less at once.",
            "code": "too_large",
        },
        {},
    ),
    "422": (
        "Invalid",
        "A parameter or a field is wrong, and the sentence names it; or the "
        "Idempotency-Key was used for another request.",
        {"detail": "limit: give a whole number.", "code": "invalid"},
        {},
    ),
    "429": (
        "TooMany",
        "Too many writes, or too many wrong tokens from one address.",
        {
            "detail": "Too many requests: try again in 1 s.",
            "code": "too_many_requests",
        },
        _RETRY_AFTER,
    ),
    "503": (
        "Unavailable",
        "The server has no room now: no free database connection, or another large body "
        "is worked on. Of a command: the game cannot be reached; nothing was done.",
        {
            "detail": "The database has no free connection. Try again in 5 s.",
            "code": "overloaded",
        },
        _RETRY_AFTER,
    ),
}


def components() -> Json:
    """The refusals as response components."""
    return {
        name: {
            "description": when,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/ErrorOut"},
                    "example": example,
                }
            },
        }
        | ({"headers": headers} if headers else {})
        for name, when, example, headers in REFUSALS.values()
    }


def refusals_of(method: str, path: str, operation: Json) -> list[str]:
    """The statuses with which an operation may refuse."""
    writes = method != "get"
    parameters = operation.get("parameters", [])
    query = {each["name"] for each in parameters if each["in"] == "query"}
    found = ["401", "429", "503"]
    if writes:
        found += ["400", "403", "409", "413", "422"]
    if query:
        found.append("422")
    if "{" in path or "mysis" in query:
        found.append("404")
    return sorted(set(found))


def reference(status: str) -> Json:
    """One refusal as an operation names it."""
    return {"$ref": f"#/components/responses/{REFUSALS[status][0]}"}
