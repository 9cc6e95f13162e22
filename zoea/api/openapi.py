"""Completes ninja's OpenAPI document with what all routes have in common.

The refusals, the header of repeated writes, and an example for every body and
parameter, put together from the examples of the schemas' fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memory.api.parameters import ErrorOut
from zoea.auth import API_ROOT, is_pure, required_role
from zoea.models import Role

Json = dict[str, Any]
JSON = "application/json"

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


def _refusal(
    name: str, when: str, code: str, detail: str, headers: Json | None = None
) -> Json:
    content: Json = {"schema": {"$ref": "#/components/schemas/ErrorOut"}}
    content["example"] = {"detail": detail, "code": code}
    answer: Json = {"description": when, "content": {JSON: content}}
    if headers:
        answer["headers"] = headers
    return {"name": name, "answer": answer}


RETRY_AFTER: Json = {
    "Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}
}

# The refusals of the gate and the routes, by status.
REFUSALS: dict[str, Json] = {
    "400": _refusal(
        "Malformed",
        "The body is not usable JSON: bad UTF-8, half a surrogate pair, more than 64 "
        "levels, NaN.",
        "malformed",
        "The body is not usable JSON: byte 9 is not UTF-8.",
    ),
    "401": _refusal(
        "Unauthenticated",
        "No token, or one that is unknown, expired or revoked.",
        "unauthenticated",
        "This token is unknown, expired or revoked: make a new one with "
        "`manage.py create_token`.",
        {"WWW-Authenticate": {"schema": {"type": "string"}}},
    ),
    "403": _refusal(
        "Forbidden",
        "Too little role, or a browser session without its CSRF token; checked before "
        "the body is looked at.",
        "forbidden",
        "This needs the role admin; yours is viewer.",
    ),
    "404": _refusal(
        "NotFound",
        "There is nothing of this number or name.",
        "not_found",
        "There is no Mysis 'Nobody'.",
    ),
    "409": _refusal(
        "Conflict",
        "Not in this state, or the first request under the same Idempotency-Key still "
        "runs, broke off with an unknown outcome, or had an answer too long to be kept; "
        "the sentence says what to do.",
        "stopped",
        "Ada is stopped. Start it, then send again.",
    ),
    "413": _refusal(
        "TooLarge",
        "The body is over 1 MiB (`/context/assemble`: 64 MiB for operators and admins), "
        "or holds too many lists, objects or messages.",
        "too_large",
        "The body is larger than 1,048,576 bytes: send less at once.",
    ),
    "422": _refusal(
        "Invalid",
        "A parameter or a field is wrong, and the sentence names it; or the "
        "Idempotency-Key was used for another request.",
        "invalid",
        "limit: give a whole number.",
    ),
    "429": _refusal(
        "TooMany",
        "Too many writes, or too many wrong tokens from one address.",
        "too_many_requests",
        "Too many requests: try again in 1 s.",
        RETRY_AFTER,
    ),
    "503": _refusal(
        "Unavailable",
        "The server has no room now: no free database connection, or other bodies are "
        "worked on.",
        "overloaded",
        "The database has no free connection. Try again in 5 s.",
        RETRY_AFTER,
    ),
}
# The 503 of the operations that declare one of their own.
GAME_UNREACHABLE = _refusal(
    "GameUnreachable",
    "The game cannot be reached, or the server has no room now; nothing was done.",
    "game_unreachable",
    "The game cannot be reached: try again later.",
    RETRY_AFTER,
)
# By type, or by format.
EXAMPLES: Json = {
    "integer": 1,
    "number": 0.5,
    "boolean": False,
    "null": None,
    "string": "text",
    "date-time": "2026-02-05T00:00:00Z",
    "date": "2026-02-05",
}


def complete_document(document: Json) -> None:
    """Add refusals, the Idempotency-Key header and examples to every operation."""
    parts = document["components"]
    parts["schemas"]["ErrorOut"] = ErrorOut.json_schema()
    refusals = [*REFUSALS.values(), GAME_UNREACHABLE]
    parts["responses"] = {one["name"]: one["answer"] for one in refusals}
    parts["parameters"] = {"IdempotencyKey": IDEMPOTENCY_KEY}
    for path, method, operation in list_operations(document):
        _add_refusals(method, path, operation)
        for parameter in operation["parameters"]:
            parameter.pop("examples", None)
            parameter["example"] = _example(parameter["schema"], parts["schemas"])
        if method != "get" and not is_pure(method, path.removeprefix(API_ROOT)):
            named = {"$ref": "#/components/parameters/IdempotencyKey"}
            operation["parameters"].append(named)
        asked = operation.get("requestBody", {})
        for content in asked.get("content", {}).values():
            _name_schema(content, parts["schemas"])
        for body in (asked, *operation["responses"].values()):
            for content in body.get("content", {}).values():
                made = _example(content["schema"], parts["schemas"])
                content.setdefault("example", made)


def list_operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _add_refusals(method: str, path: str, operation: Json) -> None:
    """Add the refusals: those that the operation declares, and those its inputs bring."""
    answers = {str(status): each for status, each in operation["responses"].items()}
    query = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
    statuses = {"401", "429", "503"} | (REFUSALS.keys() & answers)
    if method != "get":
        statuses |= {"400", "403", "409", "413", "422"}
    if required_role(method, path) > Role.VIEWER:
        statuses.add("403")
    if query:
        statuses.add("422")
    if "{" in path or "mysis" in query:
        statuses.add("404")
    refusals = REFUSALS | ({"503": GAME_UNREACHABLE} if "503" in answers else {})
    for status in sorted(statuses):
        answers[status] = {"$ref": f"#/components/responses/{refusals[status]['name']}"}
    operation["responses"] = answers


def _name_schema(content: Json, schemas: Json) -> None:
    """Move a body's schema that stands inline to the components, under its title."""
    schema = content["schema"]
    if "$ref" not in schema:
        schemas[schema["title"]] = schema
        content["schema"] = {"$ref": f"#/components/schemas/{schema['title']}"}


def _example(schema: Json, schemas: Json) -> Any:
    """The example of a schema, or one made of the examples of its parts.

    An object has its required fields, and those with an example of their own.
    """
    if "default" in schema and "examples" not in schema:
        return schema["default"]
    for several in ("examples", "enum"):
        if several in schema:
            return schema[several][0]
    if "const" in schema:
        return schema["const"]
    if "$ref" in schema:
        return _example(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return _example(schema[choice][0], schemas)
    kind: str = schema.get("type", "object")
    if kind == "array":
        return [_example(schema["items"], schemas)] if schema.get("items") else []
    if kind == "object":
        needed = schema.get("required", [])
        return {
            name: _example(each, schemas)
            for name, each in schema.get("properties", {}).items()
            if name in needed or "examples" in each
        }
    made = EXAMPLES[str(schema.get("format", kind))]
    return max(made, schema["minimum"]) if "minimum" in schema else made
