"""The door of the REST API: who, what role, which errors, which limits."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.factories import make_mysis
from tests.programs import ROOT, Program
from zoea import rate_limits
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db


def is_problem(response) -> bool:
    """Whether an answer has the one shape of errors."""
    body = response.json()
    return set(body) == {"detail", "code"} and all(
        isinstance(value, str) and value for value in body.values()
    )


@pytest.mark.parametrize("path", ["/myses", "/nowhere", "/openapi.json", "/fleet"])
def test_nobody_gets_401(path: str) -> None:
    response = Client().get(ROOT + path)
    assert response.status_code == 401
    assert is_problem(response)
    assert response["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer", "Basic YTpi", "wrong", "Bearer \x00", "Bearer é"],
)
def test_a_wrong_token_is_401_also_beside_a_session(header: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    for call in (client.get, client.post):
        response = call(f"{ROOT}/myses", headers={"Authorization": header})
        assert response.status_code == 401, header
        assert is_problem(response)


def test_expired_and_revoked_tokens_are_401() -> None:
    program = Program("viewer")
    assert program.get("/myses").status_code == 200
    token = ApiToken.objects.get()
    assert token.last_used_at is not None
    for field in ("expires_at", "revoked_at"):
        ApiToken.objects.update(expires_at=None, revoked_at=None)
        ApiToken.objects.update(**{field: timezone.now()})
        assert program.get("/myses").status_code == 401, field


def test_a_route_that_nobody_knows_needs_an_admin() -> None:
    """Of all others docs/security.md says which role they need."""
    for role, status in (("operator", 403), ("admin", 400)):
        assert Program(role).call("PUT", "/whatever", b"{").status_code == status


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ({}, 403),
        ({"is_staff": True}, 403),
        ({"is_staff": True, "is_superuser": True}, 201),
    ],
)
def test_a_session_has_the_role_of_its_user(flags: Any, status: int) -> None:
    client = Client()
    client.force_login(User.objects.create_user("ann", **flags))
    assert client.get(f"{ROOT}/myses").status_code == 200
    made = client.post(
        f"{ROOT}/myses",
        {"name": "Ada", "model": "pilot"},
        content_type="application/json",
    )
    assert made.status_code == status


def test_a_session_write_needs_csrf_and_a_token_write_does_not() -> None:
    mysis = make_mysis(name="Ada")
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_user("ann", is_staff=True))
    path = f"{ROOT}/myses/{mysis.pk}/stop"
    kind = "application/json"
    refused = client.post(path, content_type=kind)
    assert refused.status_code == 403
    assert refused.json()["code"] == "csrf"
    client.cookies["csrftoken"] = "a" * 32
    token = {"X-CSRFToken": "a" * 32}
    assert client.post(path, content_type=kind, headers=token).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b"[]", 422),
        (b"", 422),
        (b'{"text": 3}', 422),
        (b'{"text": "\\u0000"}', 422),
        (b'{"text": "  "}', 422),
        (b'{"text": "x", "more": 1}', 422),
        (b'{"text": "' + b"x" * 200_000 + b'"}', 422),
        (b'{"text": "' + b"x" * (1024 * 1024) + b'"}', 413),
    ],
)
def test_unusable_bodies(body: bytes, status: int) -> None:
    mysis = make_mysis()
    response = Program("operator").post(f"/myses/{mysis.pk}/message", body)
    assert response.status_code == status
    assert is_problem(response)
    assert mysis.memories.count() == 0


def test_nul_is_stripped() -> None:
    mysis = make_mysis()
    response = Program("operator").post(
        f"/myses/{mysis.pk}/message", b'{"text": "a\\u0000b"}'
    )
    assert response.status_code == 200
    assert response.json()["content"] == "ab"


def test_validation_names_the_field() -> None:
    program = Program()
    detail = program.post("/myses", {"name": "Ada"}).json()["detail"]
    assert detail.startswith("model: ")
    body = {"name": "Ada", "model": "pilot", "max_iterations": 0}
    detail = program.post("/myses", body).json()["detail"]
    assert detail.startswith("max_iterations: ")
    assert program.get("/myses?limit=x").json()["detail"].startswith("limit: ")


def test_bad_windows_are_422() -> None:
    program = Program("viewer")
    for value in ("0", "201", "-1", "x", "", "1.0", "9" * 23):
        assert program.get(f"/myses?limit={value}").status_code == 422, value
    for value in ("x", "-1", "9" * 23, "1e3", "%00"):
        assert program.get(f"/events?cursor={value}").status_code == 422, value


def test_errors_outside_of_the_routes_have_the_same_shape() -> None:
    program = Program()
    assert is_problem(program.get("/nowhere"))
    refused = program.call("PUT", "/myses")
    assert refused.status_code == 405
    assert is_problem(refused)
    assert "POST" in refused["Allow"]


def test_a_crash_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr("agents.api.myses.build_page", broken)
    response = Program().get("/myses")
    assert response.status_code == 500
    assert is_problem(response)
    assert b"secret" not in response.content


def test_lists_go_through_all_rows_once() -> None:
    names = [make_mysis().name for _ in range(7)]
    program = Program("viewer")
    seen: list[str] = []
    cursor = ""
    while True:
        page = program.get(f"/myses?limit=3{cursor}").json()
        seen += [item["name"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == names


def test_too_many_writes_are_429_with_retry_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_limits, "writes", rate_limits.Limiter(rate=0.01, burst=3))
    program, other = Program("operator"), Program("operator", name="other")
    found = [program.post("/myses/1/stop").status_code for _ in range(4)]
    assert found == [404, 404, 404, 429]
    refused = program.post("/myses/1/stop")
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) >= 1
    assert is_problem(refused)
    assert program.get("/myses").status_code == 200
    assert other.post("/myses/1/stop").status_code == 404


def test_the_limits_keep_their_promises() -> None:
    assert rate_limits.writes.rate >= 50
    assert rate_limits.wrong_tokens.burst >= 10


def test_many_wrong_tokens_are_429_and_a_good_one_still_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        rate_limits, "wrong_tokens", rate_limits.Limiter(rate=0.01, burst=12)
    )
    wrong = {"Authorization": "Bearer wrong"}
    found = [
        Client().get(f"{ROOT}/myses", headers=wrong).status_code for _ in range(13)
    ]
    assert found == [401] * 12 + [429]
    assert Program("viewer").get("/myses").status_code == 200


def test_the_openapi_document_is_whole() -> None:
    document = Program("viewer").get("/openapi.json").json()
    assert "/api/v1/myses/{reference}/start" in document["paths"]
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
    for reference in re.findall(
        r'"#/components/schemas/([^"]+)"', json.dumps(document)
    ):
        assert reference in schemas
