"""Completes the document that the routes' types make."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from zoea.auth.roles import API_ROOT, is_pure

from . import errors, examples, parameters, views
from .made_up import example_of

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
    _rename_bounds(document["components"]["schemas"])
    _rename_bounds(document["paths"])
    for path, method, operation in operations(document):
        _complete(path.removeprefix(API_ROOT), method, operation, parts["schemas"])
    return document


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Path, method and description of every operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _rename_bounds(part: Any) -> None:
    """Give bounds behind a validator of ours the names that JSON schemas have."""
    if isinstance(part, list):
        for each in part:
            _rename_bounds(each)
    if not isinstance(part, dict):
        return
    for old, new in (("ge", "minimum"), ("le", "maximum")):
        if isinstance(part.get(old), int | float):
            part[new] = part.pop(old)
    for each in part.values():
        _rename_bounds(each)


def _complete(path: str, method: str, operation: Json, schemas: Json) -> None:
    answers = {str(key): value for key, value in operation["responses"].items()}
    operation["responses"] = answers
    for status in errors.refusals_of(method, path, operation):
        answers.setdefault(status, errors.reference(status))
    for parameter in operation.get("parameters", []):
        parameters.exemplify(path, parameter, schemas)
    if method != "get" and not is_pure(method, path):
        named = {"$ref": "#/components/parameters/IdempotencyKey"}
        operation.setdefault("parameters", []).append(named)
    shape = views.ANSWERS.get((method, path))
    for status, answer in answers.items():
        content = answer.get("content", {}).get(JSON)
        if content is None or int(status) >= 300:
            continue
        if shape is not None:
            content["schema"] = {"$ref": f"#/components/schemas/{shape}"}
        _exemplify(content, examples.ANSWERS, schemas)
    if path.endswith("/summary"):
        answers["200"]["headers"] = ETAG
        answers["200"]["content"]["text/markdown"]["example"] = examples.MARKDOWN
    if "requestBody" in operation:
        body = operation["requestBody"]["content"][JSON]
        if (method, path) in views.BODIES:
            name = views.BODIES[method, path]
            body["schema"] = {"$ref": f"#/components/schemas/{name}"}
        _exemplify(body, examples.BODIES, schemas)


def _exemplify(content: Json, known: Json, schemas: Json) -> None:
    """The example of the schema that a body refers to; a page holds one item.

    What nobody wrote yet, a new field or a whole body, is made out of the schema.
    """
    schema = content["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    item = name.removeprefix("Page_").removesuffix("_")
    made = example_of(schema, schemas)
    if name in known:
        made |= known[name]
    elif item != name and item in known:
        made["items"] = [each | known[item] for each in made["items"]]
    content["example"] = made
