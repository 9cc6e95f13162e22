"""Completes the document that the routes' types make."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from zoea.auth.roles import API_ROOT

from . import errors, examples, views

Json = dict[str, Any]
JSON = "application/json"
ETAG: Json = {
    "ETag": {
        "description": "Give it back in If-None-Match: an unchanged answer is a 304.",
        "schema": {"type": "string"},
    }
}


def complete(document: Json) -> Json:
    """Add refusals, examples, and the shapes that no type of a route describes."""
    parts = document["components"]
    parts["schemas"] |= deepcopy(views.SCHEMAS)
    parts["responses"] = errors.components()
    parts["parameters"] = {"IdempotencyKey": errors.IDEMPOTENCY_KEY}
    for path, method, operation in operations(document):
        _complete(path.removeprefix(API_ROOT), method, operation)
    return document


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Path, method and description of every operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _complete(path: str, method: str, operation: Json) -> None:
    answers = {str(key): value for key, value in operation["responses"].items()}
    operation["responses"] = answers
    for status in errors.refusals_of(method, path, operation):
        answers.setdefault(status, errors.reference(status))
    if method != "get":
        named = {"$ref": "#/components/parameters/IdempotencyKey"}
        operation.setdefault("parameters", []).append(named)
    shape = views.ANSWERS.get((method, path))
    for status, answer in answers.items():
        content = answer.get("content", {}).get(JSON)
        if content is None or int(status) >= 300:
            continue
        if shape is not None:
            content["schema"] = {"$ref": f"#/components/schemas/{shape}"}
        _exemplify(content, examples.ANSWERS)
    if path.endswith("/summary"):
        answers["200"]["headers"] = ETAG
    if "requestBody" in operation:
        body = operation["requestBody"]["content"][JSON]
        if (method, path) in views.BODIES:
            name = views.BODIES[method, path]
            body["schema"] = {"$ref": f"#/components/schemas/{name}"}
        _exemplify(body, examples.BODIES)


def _exemplify(content: Json, known: Json) -> None:
    """The example of the schema that a body refers to; a page holds one item."""
    name = content["schema"].get("$ref", "").rpartition("/")[2]
    item = name.removeprefix("Page_").removesuffix("_")
    if name in known:
        content["example"] = known[name]
    elif item != name and item in known:
        content["example"] = {"items": [known[item]], "next": None}
