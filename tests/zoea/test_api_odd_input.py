"""Whatever a client sends to any route: an answer, never a failure."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.long_run import few_or_many
from tests.programs import Program
from zoea import rate_limits
from zoea.api import api

pytestmark = pytest.mark.django_db

odd_text = st.one_of(
    st.sampled_from(
        ["", "Ada", "0", "1", "-1", "1e9", "9" * 19, "9" * 40, "null", "true", "{}",
         "[]", "\x00", "%", "_", "'", '"', "\\", "٣", "a:*", "..", "x" * 300, "🚀",
         "fts", "exact", "user", "error", "window", '{"window": 1}', "\ud800"]
    ),
    st.text(max_size=20),
)  # fmt: skip
odd_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_text
    | st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**30, 1e308]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def operations() -> list[tuple[str, str, list[str], list[str]]]:
    """Method, path, query parameters and body fields of every route."""
    document = api.get_openapi_schema()
    schemas = document["components"]["schemas"]
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters = operation.get("parameters", [])
            query = [p["name"] for p in parameters if p.get("in") == "query"]
            found.append((method.upper(), path, query, fields_of(operation, schemas)))
    return found


def fields_of(operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """The names of the fields of an operation's body."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return list(schemas.get(name, {}).get("properties", {}))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(
        rate_limits, "writes", rate_limits.Limiter(rate=1e6, burst=10**6)
    )
    mysis = make_mysis(name="Ada", account=make_account())
    make_memory(mysis)
    make_turn(mysis)
    return Program()


def encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@pytest.mark.parametrize(
    ("method", "path", "query", "fields"),
    operations(),
    ids=lambda value: value if isinstance(value, str) else "",
)
@settings(max_examples=few_or_many(6, 12))
@given(data=st.data())
def test_no_route_fails(
    program: Program,
    method: str,
    path: str,
    query: list[str],
    fields: list[str],
    data: st.DataObject,
) -> None:
    place = path.removeprefix("/api/v1")
    while "{" in place:
        name = place[place.index("{") : place.index("}") + 1]
        reference = data.draw(odd_text.filter(bool) | st.just("Ada"))
        place = place.replace(name, encoded(reference))
    given_query = data.draw(
        st.fixed_dictionaries({}, optional=dict.fromkeys(query, odd_text))
    )
    pairs = {k: v.encode("utf-8", "surrogatepass") for k, v in given_query.items()}
    names = dict.fromkeys(fields, odd_value)
    body = data.draw(st.fixed_dictionaries({}, optional=names) | odd_value)
    response = program.call(
        method,
        f"{place}?{urlencode(pairs)}",
        None if method == "GET" else json.dumps(body).encode(),
    )
    # The tests' game is not there, and a command that is fine goes to it.
    away = response.status_code == 503 and b'"game_unreachable"' in response.content
    assert response.status_code < 500 or away, response.content
    if response.status_code >= 400:
        assert set(response.json()) == {"detail", "code"}
        assert isinstance(response.json()["detail"], str)
