"""Where a moment or a cursor is asked for, 0 and the like are an answer or a clear 422."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from agents.models import AlertTarget, Prompt, Replay
from tests.factories import make_mysis
from tests.programs import Program
from zoea.api import api

pytestmark = pytest.mark.django_db

MOMENTS = ("since", "until")
CURSORS = ("after", "before", "cursor")
NEEDED = {"q": "iron", "username": "ada", "a": "Ada", "b": "Bea"}
PLACES = {
    (path, parameter["name"])
    for path, operations in api.get_openapi_schema()["paths"].items()
    for parameter in operations.get("get", {}).get("parameters", ())
    if parameter["name"] in MOMENTS + CURSORS
}


def read(reader: Program, path: str, **query: str) -> Any:
    """A route of Ada's with one parameter, and a query where it needs one."""
    route = path.removeprefix("/api/v1").replace("{reference}", "Ada")
    asked = "&".join(f"{name}={value}" for name, value in (NEEDED | query).items())
    route = route.replace("{mysis}", "Ada").replace("{replay}", "1")
    return reader.get(f"{route}?{asked}")


def test_there_are_such_parameters() -> None:
    assert {"/api/v1/digest", "/api/v1/lanes", "/api/v1/audit"} <= {
        path for path, name in PLACES if name in MOMENTS
    }
    assert {"/api/v1/events", "/api/v1/summaries"} < {
        path for path, name in PLACES if name == "after"
    }


@pytest.mark.parametrize(
    "value", ["0", "-1", "1e9", "1770000000", "x", "", "0000-00-00"]
)
@pytest.mark.parametrize(
    ("path", "name"), sorted(place for place in PLACES if place[1] in MOMENTS)
)
def test_a_number_is_no_moment(
    admin_program: Program, path: str, name: str, value: str
) -> None:
    make_mysis(name="Ada")
    make_mysis(name="Bea")
    answer = read(admin_program, path, **{name: value})
    assert answer.status_code == 422, answer.content
    assert answer.json()["detail"].startswith(f"{name}: ")
    assert "give" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "name"), sorted(place for place in PLACES if place[1] in CURSORS)
)
def test_zero_is_a_cursor_and_what_is_none_is_refused(
    admin_program: Program, path: str, name: str
) -> None:
    make_mysis(name="Ada")
    Prompt.objects.create(name="Ada")
    AlertTarget.objects.create(name="Ada", kind="webhook")
    Replay.objects.create(pk=1, until=timezone.now())
    # A place in the usage by day is a day.
    zero = 422 if path.endswith("/usage") else 200
    assert read(admin_program, path, **{name: "0"}).status_code == zero
    for odd in ("0", "9" * 30, "%00", "1%00", "%F0%9F%9A%80"):
        found = read(admin_program, path, **{name: odd})
        assert found.status_code in (200, 422), found.content
        if found.status_code == 422:
            assert found.json()["detail"].startswith(f"{name}: ")
