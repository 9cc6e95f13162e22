"""What answers must not give away: to caches, to cookies, to somebody who filters."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.options import ModelAdmin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents.models import Account, Provider
from tests.factories import make_mysis
from tests.programs import Program
from zoea.auth import find_token_caller
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db

PRIVATE = "private, no-store"
SECRETS = {"digest", "password", "request_digest", "session_data", "session_key"}


@pytest.mark.parametrize(
    "path",
    ["/", "/sign-in/", "/nowhere/", "/api/v1/myses", "/api/v1/nothing", "/metrics",
     "/api/v1/openapi.json", "/admin/", "/admin/agents/mysis/"],
)  # fmt: skip
def test_no_cache_keeps_pages_and_rest_answers(admin_client: Client, path: str) -> None:
    for client in (admin_client, Client()):
        told = client.get(path)["Cache-Control"]
        assert "private" in told
        assert "no-store" in told


def test_static_files_and_the_summary_may_be_kept(viewer_program: Program) -> None:
    static = Client().get("/static/css/base.css")
    assert "no-store" not in static["Cache-Control"]
    make_mysis(name="Ada")
    first = viewer_program.get("/myses/Ada/summary")
    same = viewer_program.get("/myses/Ada/summary", **{"If-None-Match": first["ETag"]})
    assert [one.status_code for one in (first, same)] == [200, 304]
    assert {one["Cache-Control"] for one in (first, same)} == {"private, no-cache"}


def test_a_new_token_is_in_one_answer_and_in_no_cookie(admin_client: Client) -> None:
    values = {"name": "ci", "role": "viewer", "expires_at": "", "revoked_at": ""}
    answer = admin_client.post(reverse("admin:zoea_apitoken_add"), values)
    assert answer.status_code == 200
    found = re.search(r">(zoea_[\w-]+)<", answer.content.decode())
    assert found is not None
    caller = find_token_caller(found[1])
    assert caller is not None
    assert caller.by == "token:ci"
    assert "no-store" in answer["Cache-Control"]
    assert found[1] not in str(admin_client.cookies)
    assert found[1] not in str(dict(admin_client.session))
    later = admin_client.get(reverse("admin:zoea_apitoken_changelist"))
    assert found[1] not in later.content.decode()


@pytest.mark.parametrize(
    ("place", "lookup"),
    [
        ("agents_account", "sealed_password__regex"),
        ("agents_alertdelivery", "target__sealed_secret__startswith"),
        ("agents_mysis", "account__sealed_password__startswith"),
    ],
)
def test_the_admin_filters_by_no_secret_of_a_related_row(
    admin_client: Client, place: str, lookup: str
) -> None:
    account = Account(username="ada")
    account.password = "hunter2"
    account.save()
    url = reverse(f"admin:{place}_changelist")
    answers = [admin_client.get(url, {lookup: text}) for text in ("", "g", "zzz")]
    assert [one.status_code for one in answers] == [404] * 3


def test_other_columns_are_filtered_as_ever(admin_client: Client) -> None:
    Provider.objects.create(name="mine", kind="openai")
    url = reverse("admin:agents_provider_changelist")
    for kind, number in (("openai", 1), ("ollama", 0)):
        answer = admin_client.get(url, {"kind__exact": kind})
        assert len(answer.context["cl"].result_list) == number


def list_secret_columns() -> list[tuple[ModelAdmin[Any], str]]:
    """Every secret column that has a list in the admin."""
    return [
        (admin.site.get_model_admin(model), field.name)
        for model in apps.get_models()
        if admin.site.is_registered(model)
        for field in model._meta.get_fields()
        if field.name.startswith("sealed_") or field.name in SECRETS
    ]


def test_every_secret_column_is_refused(admin_client: Client) -> None:
    found = list_secret_columns()
    assert {Provider, Account, ApiToken, User} <= {one.model for one, _ in found}
    for each, column in found:
        options = each.model._meta
        url = reverse(f"admin:{options.app_label}_{options.model_name}_changelist")
        assert admin_client.get(url, {f"{column}__gt": "a"}).status_code == 404
