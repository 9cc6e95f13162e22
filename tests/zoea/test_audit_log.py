"""Who acts, by each door: pages, REST, MCP, the admin, the command line, and sign-in."""

from __future__ import annotations

import csv
import getpass
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from agents.models import Budget, Mysis, Provider
from bench.processes import Server
from memory import audit
from memory.admin.audit import AuditedAdmin
from memory.admin.read_only import ReadOnlyAdmin
from memory.models import AuditEntry, ContextPolicy
from tests.factories import make_memory, make_mysis
from tests.programs import ROOT, Program
from zoea import rate_limits
from zoea.auth import create_sign_in_link, create_token
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
AWAY: dict[str, Any] = {"REMOTE_ADDR": "192.0.2.7"}


@pytest.fixture
def grace() -> Client:
    """An admin at a browser elsewhere."""
    user = User.objects.create_superuser("grace", password=PASSWORD)
    client = Client(**AWAY)
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def _full_buckets() -> Iterator[None]:
    yield
    for limiter in (rate_limits.wrong_names, rate_limits.wrong_passwords):
        limiter.forget("192.0.2.7")
        limiter.forget("192.0.2.7 grace")


def last() -> AuditEntry:
    return AuditEntry.objects.order_by("-pk")[0]


def seen(row: AuditEntry) -> tuple[str, str, str, str, str]:
    return row.who, row.token, row.address, row.action, row.object


# --- Doors


def test_a_program_is_named_by_its_token(admin_program: Program) -> None:
    make_mysis(name="Ada")
    admin_program.client.defaults.update(AWAY)
    assert admin_program.post("/myses/Ada/start").status_code == 200
    assert seen(last()) == (
        "token:test admin", "test admin", "192.0.2.7", "mysis.start", "mysis:Ada",
    )  # fmt: skip
    assert admin_program.secret not in json.dumps(
        list(AuditEntry.objects.values()), default=str
    )


def test_a_repeated_write_is_one_act(admin_program: Program) -> None:
    make_mysis(name="Ada", state="idle")
    for _ in range(2):
        body = {"text": "Sell."}
        key = {"Idempotency-Key": "once"}
        assert admin_program.post("/myses/Ada/message", body, **key).status_code < 300
    assert AuditEntry.objects.filter(action="mysis.message").count() == 1


def test_a_page_names_the_user_and_where_they_are(grace: Client) -> None:
    ada = make_mysis(name="Ada")
    grace.post(f"{ada.get_absolute_url()}start/")
    assert seen(last()) == (
        "operator:grace", "", "192.0.2.7", "mysis.start", "mysis:Ada",
    )  # fmt: skip
    make_memory(ada)
    assert grace.get(f"{ada.get_absolute_url()}download/").status_code == 200
    assert seen(last())[3:] == ("log.download", "log:Ada")


@pytest.mark.django_db(transaction=True)
def test_over_mcp_the_token_and_the_address_are_known(server: Server) -> None:
    make_mysis(name="Ada", state="idle")
    _, secret = create_token(name="helm", role="operator")
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "zoea_send_order",
            "arguments": {"message": "Sell.", "myses": ["Ada"]},
        },
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {secret}",
        "MCP-Protocol-Version": "2025-06-18",
    }
    answer = httpx2.post(f"{server.origin}/mcp", json=call, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    row = AuditEntry.objects.get(action="order.send")
    assert (row.who, row.token, row.address) == ("token:helm", "helm", "127.0.0.1")


def test_a_command_names_whoever_runs_it() -> None:
    call_command("create_token", "ci", "--role=viewer", stdout=io.StringIO())
    row = last()
    assert row.who == f"command line ({getpass.getuser()})"
    assert (row.action, row.object) == ("token.create", "token:ci")
    assert row.after["role"] == "viewer"
    call_command(
        "createsuperuser", "--noinput", username="eve", email="", stdout=io.StringIO()
    )
    assert seen(last())[3:] == ("user.create", "user:eve")
    ada = make_mysis(name="Ada")
    make_memory(ada)
    call_command("export", "Ada", stdout=io.StringIO())
    assert seen(last())[3:] == ("log.download", "log:Ada")


# --- The admin


def test_whatever_can_be_edited_in_the_admin_is_recorded() -> None:
    admin.autodiscover()
    by_actions = {Mysis, Budget}
    editable = {
        model
        for model, page in admin.site._registry.items()
        if not isinstance(page, ReadOnlyAdmin | AuditedAdmin)
        # Its own pages change nothing.
        and model._meta.app_label != "procrastinate"
    }
    assert editable == by_actions


def edit(client: Client, path: str, **values: Any) -> None:
    answer = client.post(f"/admin/{path}", values)
    assert answer.status_code == 302, answer.context["errors"]


def test_the_admin_records_what_is_made_changed_and_deleted(grace: Client) -> None:
    form = {"name": "zen", "kind": "openai", "new_key": "sk-4711-secret"}
    edit(grace, "agents/provider/add/", **form)
    made = last()
    assert seen(made) == (
        "operator:grace", "", "192.0.2.7", "provider.create", "provider:zen",
    )  # fmt: skip
    assert made.after["key"] == "changed"
    zen = Provider.objects.get()
    change = f"agents/provider/{zen.pk}/change/"
    edit(grace, change, name="zen", kind="openai", window=1000)
    assert (last().before, last().after) == ({"window": None}, {"window": 1000})
    count = AuditEntry.objects.count()
    edit(grace, change, name="zen", kind="openai", window=1000)
    assert AuditEntry.objects.count() == count
    edit(grace, f"agents/provider/{zen.pk}/delete/", post="yes")
    assert last().action == "provider.delete"
    everything = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert "sk-4711" not in everything


def test_the_admin_records_users_groups_and_tokens(grace: Client) -> None:
    watch = Group.objects.create(name="watch")
    form = {"username": "bob", "password1": PASSWORD, "password2": PASSWORD}
    edit(grace, "auth/user/add/", **form, usable_password="true")
    assert seen(last())[3:] == ("user.create", "user:bob")
    bob = User.objects.get(username="bob")
    given = {"username": "bob", "is_active": "on", "is_staff": "on"}
    edit(grace, f"auth/user/{bob.pk}/change/", **given, groups=[watch.pk])
    assert last().before == {"is_staff": False, "groups": []}
    assert last().after == {"is_staff": True, "groups": ["watch"]}
    new = {"password1": f"{PASSWORD}!", "password2": f"{PASSWORD}!"}
    edit(grace, f"auth/user/{bob.pk}/password/", **new, usable_password="true")
    assert seen(last())[3:] == ("user.password", "user:bob")
    assert last().after == {"password": "changed"}
    made = grace.post("/admin/zoea/apitoken/add/", {"name": "ci", "role": "viewer"})
    assert made.status_code == 200
    assert seen(last())[3:] == ("token.create", "token:ci")
    token = ApiToken.objects.get()
    grace.post(
        "/admin/zoea/apitoken/", {"action": "revoke", "_selected_action": [token.pk]}
    )
    assert seen(last())[3:] == ("token.revoke", "token:ci")
    everything = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert PASSWORD not in everything
    assert "pbkdf2" not in everything
    assert token.digest not in everything


def test_the_log_is_read_only_in_the_admin_and_for_admins(grace: Client) -> None:
    audit.record("mysis.start", "mysis:Ada", by="operator:<b>ann</b>")
    found = grace.get("/admin/memory/auditentry/?q=mysis")
    assert b"&lt;b&gt;ann" in found.content
    path = f"/admin/memory/auditentry/{last().pk}"
    assert grace.get(f"{path}/change/").status_code == 200
    assert grace.post(f"{path}/change/", {"who": "x"}).status_code == 403
    assert grace.post(f"{path}/delete/", {"post": "yes"}).status_code == 403
    staff = User.objects.create_user("bob", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(codename="view_auditentry"))
    client = Client()
    client.force_login(staff)
    assert client.get("/admin/memory/auditentry/").status_code == 403


# --- Sign-in


@contextmanager
def within_a_minute() -> Iterator[None]:
    """No minute turns meanwhile."""
    now = timezone.now().replace(second=10)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(timezone, "now", lambda: now)
        yield


def test_sign_ins_are_recorded_and_failed_ones_counted(grace: Client) -> None:
    client = Client(**AWAY)
    wrong = {"username": "grace", "password": "hunter2hunter2"}
    with within_a_minute():
        for _ in range(3):
            client.post("/sign-in/", wrong)
    [failed] = AuditEntry.objects.all()
    assert seen(failed) == (
        "grace", "", "192.0.2.7", "sign_in.failed", "user:grace",
    )  # fmt: skip
    assert failed.after == {"tries": 3}
    client.post("/sign-in/", {"username": "grace", "password": PASSWORD})
    assert seen(last()) == (
        "operator:grace", "", "192.0.2.7", "sign_in", "user:grace",
    )  # fmt: skip
    client.post("/sign-out/")
    assert seen(last())[0] == "operator:grace"
    assert last().action == "sign_out"
    Client(HTTP_HOST="localhost").get(create_sign_in_link())
    assert (last().who, last().after) == ("operator:admin", {"by": "one-time link"})
    made = AuditEntry.objects.get(action="user.create")
    assert seen(made) == (
        "operator:admin", "", "127.0.0.1", "user.create", "user:admin",
    )  # fmt: skip
    assert made.after["is_superuser"]
    Client(HTTP_HOST="localhost").get(create_sign_in_link())
    assert AuditEntry.objects.filter(action="user.create").count() == 1
    everything = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert "hunter2" not in everything


def test_wrong_tokens_are_counted_like_wrong_passwords() -> None:
    client = Client(REMOTE_ADDR="192.0.2.9")
    headers = {"Authorization": "Bearer zoea_wrong-and-secret"}
    with within_a_minute():
        for _ in range(2):
            assert client.get(f"{ROOT}/myses", headers=headers).status_code == 401
    [failed] = AuditEntry.objects.all()
    assert seen(failed) == (
        "unknown token", "", "192.0.2.9", "sign_in.failed", "token",
    )  # fmt: skip
    assert failed.after == {"tries": 2}


# --- GET /audit


@pytest.fixture
def acts(admin_program: Program) -> list[AuditEntry]:
    """Three acts, the first two hours ago."""
    start = last().pk
    ago = timezone.now() - timedelta(hours=2)
    AuditEntry.objects.create(
        at=ago, who="operator:ann", action="mysis.start", object="mysis:Ada"
    )
    audit.record("prompt.update", "prompt:=cmd|' /C calc'!A0", by="=HYPERLINK(1)")
    audit.record("pin.create", "mysis:Bob/1", by="operator:bob")
    return list(AuditEntry.objects.filter(pk__gt=start))


@pytest.mark.parametrize("role", ["viewer", "operator"])
@pytest.mark.parametrize("path", ["", "/", "/export", "/export/?format=csv"])
def test_others_than_admins_are_refused(role: str, path: str) -> None:
    refused = Program(role).get(f"/audit{path}")
    assert refused.status_code == 403
    assert refused.json()["detail"] == f"This needs the role admin; yours is {role}."


def test_admins_read_page_after_page(
    acts: list[AuditEntry], admin_program: Program
) -> None:
    first = admin_program.get(f"/audit?cursor={acts[0].pk - 1}&limit=2").json()
    second = admin_program.get(f"/audit?cursor={first['next']}").json()
    items = [*first["items"], *second["items"]]
    assert [item["id"] for item in items] == [row.pk for row in acts]
    assert set(items[0]) == {
        "id", "at", "who", "token", "address", "action", "object", "before", "after",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("who=operator:", {0, 2}),
        ("who=operator:bob", {2}),
        ("what=mysis", {0, 2}),
        ("what=prompt.", {1}),
        ("what=mysis:Bob", {2}),
        ("who=operator:ann&what=mysis.start", {0}),
        ("what=%25", set()),
    ],
)
def test_who_and_what_are_found_by_how_they_begin(
    acts: list[AuditEntry], admin_program: Program, query: str, places: set[int]
) -> None:
    after = acts[0].pk - 1
    found = admin_program.get(f"/audit?cursor={after}&{query}").json()["items"]
    assert {item["id"] for item in found} == {acts[place].pk for place in places}


def test_since_takes_a_moment(acts: list[AuditEntry], admin_program: Program) -> None:
    hour = timezone.now() - timedelta(hours=1)
    for text in (f"{hour:%Y-%m-%dT%H:%M:%SZ}", f"{hour:%Y-%m-%dT%H:%M:%S}"):
        found = admin_program.get(f"/audit?since={text}&who=operator").json()["items"]
        assert [item["id"] for item in found] == [acts[2].pk]
    refused = admin_program.get("/audit?since=yesterday")
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("since: ")


def read(answer: Any) -> str:
    async def collect() -> bytes:
        return b"".join([piece async for piece in answer])

    return async_to_sync(collect)().decode()


@pytest.mark.django_db(transaction=True)
def test_all_of_it_is_exported_and_formulas_do_no_harm(
    acts: list[AuditEntry], admin_program: Program
) -> None:
    answer = admin_program.get("/audit/export?format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert answer["Content-Disposition"] == 'attachment; filename="audit.csv"'
    rows = list(csv.DictReader(io.StringIO(read(answer))))
    by_id = {int(row["id"]): row for row in rows}
    assert by_id[acts[1].pk]["who"] == "'=HYPERLINK(1)"
    assert not [
        cell for row in rows for cell in row.values() if cell[:1] in "=+-@" and cell
    ]
    assert last().action == "audit.download"
    lines = read(admin_program.get("/audit/export?what=mysis&who=operator"))
    found = [json.loads(line) for line in lines.splitlines()]
    assert [line["id"] for line in found] == [acts[0].pk, acts[2].pk]
    assert found[0] == admin_program.get("/audit?who=operator:ann").json()["items"][0]
    assert admin_program.get("/audit/export?format=xml").status_code == 422


def test_policies_over_rest_are_recorded(admin_program: Program) -> None:
    admin_program.post("/policies", {"name": "tight", "strategy": "window"})
    assert seen(last())[3:] == ("policy.create", "policy:tight")
    admin_program.patch("/policies/tight", {"options": {"window": 9}})
    assert last().after == {"options": {"window": 9}}
    assert ContextPolicy.objects.get(name="tight").options == {"window": 9}
