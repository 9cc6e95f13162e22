"""The OpenAPI document, held against the server by requests made out of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from ninja import Schema
from ninja.responses import NinjaJSONEncoder
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agents import events
from agents.events import Kind
from agents.models import Prompt, PromptVersion
from memory.models import Memory
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.long_run import few_or_many
from tests.programs import Program
from tests.zoea.test_security_document import read_roles
from zoea import rate_limits
from zoea.api import api
from zoea.api.openapi import list_operations
from zoea.auth import API_ROOT, create_token
from zoea.models import Role

pytestmark = pytest.mark.django_db

ROLES = ("anonymous", "viewer", "operator", "admin")
DOCUMENT: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema()))
# Tokens are the tests' own business: nothing is to be made up for them.
SCHEMA = schemathesis.openapi.from_dict(
    DOCUMENT
    | {
        "paths": {
            path: {
                method: {k: v for k, v in one.items() if k != "security"}
                for method, one in methods.items()
            }
            for path, methods in DOCUMENT["paths"].items()
        }
    }
)
OPERATIONS = [one.ok() for one in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
]
# Without shrinking: a failure is told as it was found, and soon.
BOUNDED = settings(
    max_examples=few_or_many(4, 12),
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
APP = get_wsgi_application()

GOLDEN = Path(__file__).parents[1] / "golden"


def needed(method: str, path: str) -> str:
    """The least role that a request needs, as docs/security.md says."""
    role = read_roles().get((method, path.removeprefix(API_ROOT)), Role.VIEWER)
    return str(role.label)


@pytest.fixture(autouse=True)
def kept_connection() -> Iterator[None]:
    """Requests leave the test's own transaction open, as with Django's client."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A token of each role, and a fleet to ask for."""
    monkeypatch.setattr(
        rate_limits, "writes", rate_limits.Limiter(rate=1e6, burst=10**6)
    )
    mysis = make_mysis(name="Ada", account=make_account(username="Pilot"))
    make_memory(mysis, content="iron ore", reasoning="why iron")
    make_turn(mysis)
    events.append(Kind.TURN_STARTED, mysis_id=mysis.pk, data={"turn": 1})
    return {role: create_token(name=f"test {role}", role=role)[1] for role in ROLES[1:]}


def aimed(case: Case[Any], data: st.DataObject) -> Case[Any]:
    """A case that as often as not asks for what is there, under no key."""
    for name in case.path_parameters:
        if data.draw(st.booleans(), label="known"):
            case.path_parameters[name] = "Ada" if name == "reference" else "1"
    if data.draw(st.booleans(), label="without a key"):
        case.headers.pop("Idempotency-Key", None)
    return case


# A file is streamed to ASGI, which serves it; here a WSGI client asks.
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_every_operation_does_what_the_document_says(
    tokens: dict[str, str], operation: APIOperation[Any, Any, Any, Any]
) -> None:
    """Of every role, with values that fit the document and with others."""
    least = ROLES.index(needed(operation.method.upper(), operation.path))
    cases = {mode: operation.as_strategy(mode) for mode in GenerationMode}
    # Those who are let in come further, so they ask more often.
    asking = st.sampled_from([*ROLES, *ROLES[least:], *ROLES[least:]])

    @BOUNDED
    @given(role=asking, mode=st.sampled_from(list(GenerationMode)), data=st.data())
    def holds(role: str, mode: GenerationMode, data: st.DataObject) -> None:
        case = aimed(data.draw(cases[mode]), data)
        headers = {"Accept-Encoding": "identity"}
        if role in tokens:
            headers["Authorization"] = f"Bearer {tokens[role]}"
        response = case.call(app=APP, headers=headers)
        checks = [one for one in CHECKS if one is not negative_data_rejection]
        # Escaped, a text that is too long may be a body that is too large.
        case.validate_response(
            response, checks=checks if response.status_code == 413 else CHECKS
        )
        # The one failure that is documented: there is no game in this test.
        assert response.status_code in range(200, 500) or (
            response.status_code == 503 and operation.path.endswith("/command")
        )
        if role == "anonymous":
            assert response.status_code == 401
        elif ROLES.index(role) < least:
            assert response.status_code == 403
        else:
            assert response.status_code not in (401, 403)
        if response.status_code >= 400:
            assert set(response.json()) == {"detail", "code"}

    holds()


def test_every_body_has_an_example_that_fits_its_schema() -> None:
    checked: Counter[str] = Counter()
    for path, method, operation in list_operations(DOCUMENT):
        bodies = [operation.get("requestBody", {})]
        bodies += [answer for _, answer in operation["responses"].items()]
        for body in bodies:
            for kind, content in resolved(body).get("content", {}).items():
                assert "example" in content, (method, path, kind)
                fits(content["example"], content["schema"])
                checked[kind] += 1
    assert checked["application/json"] > 200
    assert checked["text/markdown"] == 2
    assert '"ge"' not in json.dumps(DOCUMENT)


def test_every_parameter_has_an_example_that_fits_its_schema() -> None:
    checked = 0
    for path, method, operation in list_operations(DOCUMENT):
        for named in operation.get("parameters", []):
            parameter = resolved(named)
            assert "example" in parameter, (method, path, parameter["name"])
            fits(parameter["example"], parameter["schema"])
            checked += 1
    assert checked > 100


def fits(value: Any, schema: dict[str, Any]) -> None:
    known = schema | {"components": DOCUMENT["components"]}
    Draft202012Validator(known).validate(value)


def test_no_two_schemas_have_one_name() -> None:
    """The document knows them by their names alone: one would hide the other."""
    each_once = {(one.__module__, one.__name__) for one in schemas_of(Schema)}
    found = Counter(name for _, name in each_once)
    assert [name for name, count in found.items() if count > 1] == []


def schemas_of(base: type[Schema]) -> Iterator[type[Schema]]:
    """All schemas of ours, generic ones with their types aside."""
    for each in base.__subclasses__():
        yield from schemas_of(each)
        if each.__module__.startswith(("agents.", "memory.", "zoea.")):
            yield each


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """A part of the document, or what it refers to."""
    if "$ref" not in part:
        return part
    found: dict[str, Any] = DOCUMENT
    for name in part["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


NAMED = {
    "MysisOut": ("state",),
    "TurnOut": ("outcome",),
    "CallOut": ("kind",),
    "EventOut": ("kind",),
    "ProviderOut": ("kind",),
    "BudgetOut": ("scope", "period"),
    "MemoryOut": ("role", "origin"),
    "SentMessageOut": ("role", "origin"),
    "HitOut": ("role", "origin"),
    "ToldOut": ("origin",),
    "StateRowOut": ("confidence",),
    "DoubtedFieldOut": ("confidence",),
    "SummaryText": ("status",),
}


def test_a_text_that_is_one_of_a_few_names_them() -> None:
    for name, fields in NAMED.items():
        for field in fields:
            known = DOCUMENT["components"]["schemas"][name]["properties"][field]
            assert len(known.get("enum", ())) > 1, (name, field)


def test_every_list_says_what_it_holds() -> None:
    assert list(find_open_lists(DOCUMENT["components"]["schemas"])) == []


def find_open_lists(part: Any, *place: str) -> Iterator[tuple[str, ...]]:
    """The places of lists without their items."""
    if isinstance(part, list):
        part = {str(number): each for number, each in enumerate(part)}
    if not isinstance(part, dict):
        return
    if part.get("type") == "array" and not part.get("items"):
        yield place
    for name, each in part.items():
        if name not in ("example", "examples", "default"):
            yield from find_open_lists(each, *place, name)


def test_a_search_for_nothing_is_no_valid_one() -> None:
    for path, _, operation in list_operations(DOCUMENT):
        for named in operation.get("parameters", []):
            parameter = resolved(named)
            if parameter["name"] == "q" and "/search/" in path:
                with pytest.raises(ValidationError):
                    fits(" ", parameter["schema"])
                with pytest.raises(ValidationError):
                    fits("", parameter["schema"])


# Of these names each parameter and each field of a body is asked with such values.
CHOSEN = ("strategy", "kind", "a", "b")
WORDS = ("", " ", "ore", "o" * 101, "o" * 1001)


def list_choices(part: Any) -> list[str]:
    """The values that a schema names, wherever in it."""
    if isinstance(part, list):
        return [value for each in part for value in list_choices(each)]
    if not isinstance(part, dict):
        return []
    if "$ref" in part:
        return list_choices(resolved(part))
    return [*part.get("enum", ()), *list_choices(part.get("anyOf"))]


def probe(name: str, schema: dict[str, Any]) -> list[str]:
    if name == "q":
        return list(WORDS)
    known = list_choices(schema)
    assert len(known) > 1, name
    return [*known, "", "nowhere", known[0].upper(), f" {known[0]}, ", ",".join(known)]


def list_asked(part: Any, seen: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a body, and of what is within it, with their schemas."""
    if isinstance(part, list):
        for each in part:
            yield from list_asked(each, seen)
    if not isinstance(part, dict) or part.get("$ref") in seen:
        return
    if "$ref" in part:
        seen.add(part["$ref"])
        yield from list_asked(resolved(part), seen)
    yield from part.get("properties", {}).items()
    inner = (part.get(name) for name in ("anyOf", "oneOf", "allOf", "items"))
    for each in (*part.get("properties", {}).values(), *inner):
        yield from list_asked(each, seen)


def is_valid(value: Any, schema: dict[str, Any]) -> bool:
    try:
        fits(value, schema)
    except ValidationError:
        return False
    return True


CHOOSING = [
    (path, parameter["name"], operation)
    for path, method, operation in list_operations(DOCUMENT)
    for parameter in operation.get("parameters", [])
    if method == "get"
    and parameter.get("in") == "query"
    and parameter["name"] in ("q", *CHOSEN)
    and not path.endswith("/compare")  # There a and b are two sides of any kind.
]


@pytest.mark.parametrize(("path", "name", "operation"), CHOOSING)
def test_a_parameter_takes_just_what_the_document_says(
    tokens: dict[str, str], client: Client, path: str, name: str, operation: Any
) -> None:
    asked = {
        one["name"]: one
        for one in operation["parameters"]
        if one["in"] == "query" and (one["required"] or one["name"] == name)
    }
    given = {key: one["example"] for key, one in asked.items()}
    for value in probe(name, asked[name]["schema"]):
        answer = client.get(
            path.replace("{reference}", "Ada"),
            given | {name: value},
            headers={"Authorization": f"Bearer {tokens['viewer']}"},
        )
        status = 200 if is_valid(value, asked[name]["schema"]) else 422
        assert answer.status_code == status, (value, answer.content)


CHOOSING_BODIES = [
    (method, path, resolved(operation["requestBody"])["content"]["application/json"])
    for path, method, operation in list_operations(DOCUMENT)
    if "requestBody" in operation
]


def test_each_choice_of_a_body_names_its_values() -> None:
    found: Counter[str] = Counter()
    for _, _, content in CHOOSING_BODIES:
        for name, schema in list_asked(content["schema"], set()):
            if name in ("strategy", "kind"):
                assert len(list_choices(schema)) > 1, (name, schema)
                found[name] += 1
    assert found["strategy"] > 4
    assert found["kind"] > 3


def list_blank_bodies() -> Iterator[tuple[str, str, Any, Any]]:
    """Writes by their examples but for a blank text; and the schema of each body."""
    for path, method, operation in list_operations(DOCUMENT):
        bodies = resolved(operation.get("requestBody", {})).get("content", {})
        for body in bodies.values():
            known = resolved(body["schema"]).get("properties", {})
            for name in {"text", "pins"} & set(known):
                for blank in ("", " \n"):
                    given = [blank] if name == "pins" else blank
                    yield method, path, body["example"] | {name: given}, body["schema"]


@pytest.mark.parametrize(
    ("method", "path", "body", "schema"),
    # A history from outside may hold anything.
    [one for one in list_blank_bodies() if not one[1].endswith("/assemble")],
)
def test_a_blank_text_is_neither_valid_nor_taken(
    tokens: dict[str, str],
    client: Client,
    method: str,
    path: str,
    body: Any,
    schema: Any,
) -> None:
    with pytest.raises(ValidationError):
        fits(body, schema)
    prompt = Prompt.objects.create(name="Ada")
    PromptVersion.objects.create(prompt=prompt, number=1, text="Fly.")
    if path.endswith("/branches"):
        body["from"] = Memory.objects.get().pk
    address = path.replace("{reference}", "Ada").replace("{name}", "base")
    answer = client.generic(
        method.upper(),
        address,
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {tokens['admin']}"},
    )
    assert answer.status_code == 422, answer.content


def test_every_refusal_is_documented_with_its_shape() -> None:
    for path, method, operation in list_operations(DOCUMENT):
        wanted = {"401", "429"}
        if method != "get":
            wanted |= {"409", "413", "422"}
        if method != "get" or needed("GET", path) != "viewer":
            wanted.add("403")
        # Of some the body names the Mysis.
        if "{" in path or (method, path) in (
            ("post", "/api/v1/prices"),
            ("post", "/api/v1/replays"),
        ):
            wanted |= {"404"}
        assert wanted <= set(operation["responses"]), (method, path)
        for status in wanted:
            content = resolved(operation["responses"][status])["content"]
            shape = content["application/json"]["schema"]["$ref"]
            assert shape == "#/components/schemas/ErrorOut"


def test_every_body_has_a_name_for_programs_made_from_the_document() -> None:
    bodies = [
        content["schema"]["$ref"]
        for _, _, operation in list_operations(DOCUMENT)
        for content in operation.get("requestBody", {}).get("content", {}).values()
    ]
    assert "#/components/schemas/AssembleIn" in bodies
    assert (
        "tool_policy" in DOCUMENT["components"]["schemas"]["AssembleIn"]["properties"]
    )


def test_nobody_changes_the_document_of_another() -> None:
    first = api.get_openapi_schema()
    first["paths"].clear()
    assert api.get_openapi_schema()["paths"]


def test_the_document_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = Program("viewer")
    first = viewer.get("/openapi.json")
    assert first["Content-Type"] == "application/json"
    assert first.json() == DOCUMENT
    monkeypatch.setattr(NinjaJSONEncoder, "encode", None)
    assert viewer.get("/openapi.json").content == first.content


def test_programs_made_from_the_document_keep_their_names() -> None:
    """Clients are generated from these ids; they do not follow files that move."""
    document = api.get_openapi_schema()
    found = {
        f"{method} {path}": operation["operationId"]
        for path, method, operation in list_operations(document)
    }
    known = json.loads((GOLDEN / "operation_ids.json").read_text())
    assert known.items() <= found.items()
