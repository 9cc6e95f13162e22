"""The page of alerts and its routes: who may do what, and what is refused how."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import events
from agents.alerts.judge import judge_fleet
from agents.dashboard.live import fragments
from agents.dashboard.live.changes import Dirty
from agents.events import Kind
from agents.models import Alert, AlertSettings, AlertTarget, Event
from tests.agents.alerts.receiver import Receiver
from tests.factories import make_mysis
from zoea.auth import create_token

pytestmark = pytest.mark.django_db
API = "/api/v1/alerts"
SettingsForm = dict[str, Any]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def filled() -> SettingsForm:
    """The form as a browser sends it back."""
    row = AlertSettings.load()
    return {"rules": row.rules} | {n: getattr(row, n) for n in AlertSettings.THRESHOLDS}


def call(method: str, path: str, role: str = "admin", **body: Any) -> Any:
    _, token = create_token(name=f"{role} {timezone.now()}", role=role)
    client = Client(headers={"Authorization": f"Bearer {token}"})
    kind = "application/json"
    if method == "get":
        return client.get(f"{API}{path}")
    return getattr(client, method)(f"{API}{path}", json.dumps(body), content_type=kind)


def test_thresholds_are_stored_by_operators_and_errors_stand_at_their_fields(
    sign_in: Callable[..., Client], filled: SettingsForm
):
    operator = sign_in("operator")
    page = operator.get("/alerts/").content.decode()
    assert "None is open." in page
    assert "Nobody is told outside yet" in page
    answer = operator.post("/alerts/settings/", filled | {"hull_percent": 45})
    assert answer["Location"] == "/alerts/"
    row = AlertSettings.load()
    assert (row.hull_percent, row.changed_by) == (45, "operator:operator")
    answer = operator.post("/alerts/settings/", filled | {"hull_percent": 101})
    assert answer.status_code == 422
    body = answer.content.decode()
    assert 'id="id_hull_percent_error"' in body
    assert "less than or equal to 100" in body
    answer = operator.post("/alerts/settings/", filled | {"rules": ["nonsense"]})
    assert "nonsense is not one of the available choices" in answer.content.decode()
    assert AlertSettings.load().hull_percent == 45


def test_who_read_an_older_version_overwrites_nothing(
    sign_in: Callable[..., Client], filled: SettingsForm, admin: Client
):
    operator = sign_in("operator")
    page = operator.get("/alerts/").content.decode()
    assert '<input type="hidden" name="version" value="1"' in page
    admin.post("/alerts/settings/", filled | {"version": 1, "hull_percent": 45})
    answer = operator.post("/alerts/settings/", filled | {"version": 1})
    assert answer.status_code == 422
    assert "somebody changed this meanwhile" in answer.content.decode()
    assert AlertSettings.load().hull_percent == 45
    refused = call("patch", "/settings", "operator", version=1, hull_percent=20)
    assert (refused.status_code, refused.json()["code"]) == (409, "changed")
    call("patch", "/settings", "operator", version=2, hull_percent=20)
    assert AlertSettings.load().hull_percent == 20
    given = {"name": "x", "kind": "slack", "url": "https://slack.example/a"}
    admin.post("/alerts/targets/new/", given)
    own = f"/alerts/targets/{AlertTarget.objects.get().pk}/"
    call("patch", "/targets/x", version=1, digest_hour=7)
    answer = admin.post(own, {**given, "url": "", "version": 1, "digest_hour": ""})
    assert answer.status_code == 422
    assert AlertTarget.objects.get().digest_hour == 7
    admin.post(own, {**given, "url": "", "version": 2, "digest_hour": ""})
    assert AlertTarget.objects.get().digest_at is None


def test_a_viewer_sees_and_changes_nothing(
    sign_in: Callable[..., Client], filled: SettingsForm, admin: Client
):
    viewer = sign_in("viewer")
    admin.post(
        "/alerts/targets/new/",
        {"name": "x", "kind": "slack", "url": "https://slack.example/top-secret"},
    )
    target = AlertTarget.objects.get()
    AlertTarget.objects.update(
        enabled=True, failures=3, last_error="It answers 500: internal words"
    )
    page = viewer.get("/alerts/").content.decode()
    assert "https://slack.example" in page
    assert "cannot be told" in page
    for path in ("/", "/health/", "/alerts/", f"{API}/targets"):
        page = viewer.get(path).content.decode()
        assert "top-secret" not in page
        assert "internal words" not in page
    assert (
        "internal words" in call("get", "/targets/x", "operator").json()["last_error"]
    )
    assert viewer.post("/alerts/settings/", filled)["Location"] == "/"
    own = f"/alerts/targets/{target.pk}/"
    for path in (own, f"{own}delete/", f"{own}test/", "/alerts/targets/new/"):
        answer = viewer.post(path, headers={"HX-Request": "true"})
        assert answer.status_code == 403, path
    assert AlertTarget.objects.count() == 1


def test_an_admin_adds_tests_changes_and_removes_a_target(
    admin: Client, receiver: Receiver
):
    given = {"name": "on call", "kind": "webhook", "url": "ftp://x", "enabled": "on"}
    answer = admin.post("/alerts/targets/new/", given)
    assert answer.status_code == 422
    assert 'id="id_url_error"' in answer.content.decode()
    given["url"] = receiver.url
    answer = admin.post("/alerts/targets/new/", given, follow=True)
    target = AlertTarget.objects.get()
    secret = target.secret
    assert secret in answer.content.decode()
    own = f"/alerts/targets/{target.pk}/"
    page = admin.get(own).content.decode()
    assert secret not in page
    assert "/hook" not in page
    htmx = {"HX-Request": "true"}
    said = admin.post(f"{own}test/", headers=htmx).content.decode()
    assert "on call: It answers 200 after " in said
    receiver.statuses = [401]
    answer = admin.post(f"{own}test/", headers=htmx)
    assert answer.status_code == 409
    assert "Check the secret." in answer.content.decode()
    admin.post(own, given | {"url": "", "name": "night shift"})
    target.refresh_from_db()
    assert (target.name, target.url, target.secret) == (
        "night shift", receiver.url, secret,
    )  # fmt: skip
    admin.post(f"{own}delete/")
    assert not AlertTarget.objects.exists()


def test_open_alerts_stand_on_the_page_and_in_the_list(admin: Client):
    make_mysis(name="Ada", state="errored", last_error="No provider: add it.")
    now = timezone.now()
    judge_fleet(now)
    page = admin.get("/alerts/").content.decode()
    assert "No provider: add it." in page
    [item] = call("get", "?open=true").json()["items"]
    assert (item["rule"], item["name"], item["cleared_at"]) == ("errored", "Ada", None)
    assert call("get", "?open=false").json()["items"] == []
    assert call("get", "?mysis=Ada&rule=hull").json()["items"] == []
    assert Alert.objects.get().raised_at == now


def test_roles_over_rest(receiver: Receiver):
    call("post", "/targets", name="on call", kind="webhook", url=receiver.url)
    for role, method, path, status in (
        ("viewer", "get", "/settings", 200),
        ("viewer", "get", "/targets", 200),
        ("viewer", "get", "/targets/on%20call/deliveries", 403),
        ("operator", "get", "/targets/on%20call/deliveries", 200),
        ("viewer", "patch", "/settings", 403),
        ("viewer", "post", "/targets/on%20call/test", 403),
        ("operator", "patch", "/settings", 200),
        ("operator", "post", "/targets/on%20call/test", 200),
        ("operator", "post", "/targets", 403),
        ("operator", "patch", "/targets/on%20call", 403),
        ("operator", "delete", "/targets/on%20call", 403),
        ("admin", "delete", "/targets/on%20call", 204),
    ):
        assert call(method, path, role).status_code == status, (role, method, path)


def test_targets_over_rest(receiver: Receiver):
    given = {"name": "x", "kind": "webhook", "url": receiver.url}
    made = call("post", "/targets", **given)
    assert made.status_code == 201
    secret = made.json()["secret"]
    assert AlertTarget.objects.get().secret == secret
    read = call("get", "/targets/x").json()
    assert "secret" not in read
    assert read["has_secret"] is True
    assert read["destination"] == receiver.url.removesuffix("/hook")
    tried = call("post", "/targets/x/test").json()
    assert (tried["ok"], tried["status"], tried["answer"]) == (True, 200, "ok")
    changed = call("patch", "/targets/x", rules=["hull"], enabled=False).json()
    assert (changed["rules"], changed["enabled"]) == (["hull"], False)
    assert changed["secret"] is None
    refused = call("post", "/targets", **given | {"name": "y", "url": "gopher://x"})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("url: write an address")
    taken = call("post", "/targets", **given)
    assert taken.json()["detail"].startswith("name: ")
    assert call("get", "/targets/x/deliveries").json()["items"] == []


def test_settings_over_rest_name_the_field_that_is_wrong():
    changed = call("patch", "/settings", hull_percent=20, rules=["hull"]).json()
    assert (changed["hull_percent"], changed["rules"]) == (20, ["hull"])
    refused = call("patch", "/settings", hull_percent=0)
    assert refused.status_code == 422
    assert "hull_percent" in refused.json()["detail"]
    assert "rules" in call("patch", "/settings", rules=["x"]).json()["detail"]


def test_the_socket_brings_new_alerts_for_browsers_and_each_once():
    told = {"rule": "no_income", "mysis": "<i>", "text": "a & b", "link": "/m/"}
    told["also"] = "Also Bea."
    events.append(Kind.ALERT_RAISED, mysis_id=1, data=told | {"cause": "c"})
    events.append(Kind.ALERT_CLEARED, mysis_id=1, data=told)
    columns = ("xid", "id", "kind", "created_at", "mysis_id", "data")
    rows = Event.objects.order_by("pk").values_list(*columns)
    raised, cleared = (events.make_item(row)[1] for row in rows)
    dirty = Dirty()
    dirty.add(raised)
    dirty.add(cleared)
    assert dirty.wide == cleared["id"]
    taken = dirty.hand_out(60)
    [news] = fragments.draw_alert_news(taken.alerts)
    assert f'data-alert="{raised["id"]}"' in news
    assert 'data-title="&lt;i&gt;: no income"' in news
    assert "a &amp; b Also Bea." in news
    assert fragments.draw_alert_news(dirty.hand_out(60).alerts) == []


def test_what_is_over_stands_there_for_a_while(admin: Client):
    mysis = make_mysis(name="Ada", state="errored", last_error="Lost.")
    now = timezone.now()
    judge_fleet(now)
    mysis.delete()
    judge_fleet(now + timedelta(seconds=5))
    page = admin.get("/alerts/").content.decode()
    assert "None is open." in page
    assert "Lost." in page
