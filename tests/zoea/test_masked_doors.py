"""What masking must not break, and what each door may still tell."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
from django.contrib.admin.forms import AdminPasswordChangeForm
from django.contrib.auth.forms import AdminUserCreationForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import Error, connection
from django.forms import BaseForm
from django.test import Client
from pytest_django import Settings

from agents.admin.access import AccountForm
from agents.encryption import check_secret_settings, read_sealed_values
from agents.models import Account, AlertTarget, Event, Prompt, Provider
from memory.models import AuditEntry
from memory.redaction import (
    HIDDEN,
    drop_secrets,
    hide_secret_texts,
    hide_secrets,
    hide_secrets_in_value,
)
from memory.secret_patterns import list_spellings
from tests.factories import make_call, make_memory, make_mysis
from tests.programs import Program
from zoea.models import IdempotencyRecord
from zoea.rate_limits import wrong_passwords

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery 9"


def test_forms_with_passwords_keep_their_attributes() -> None:
    forms: tuple[BaseForm, ...] = (
        AdminPasswordChangeForm(User()), SetPasswordForm(User()),
        AdminUserCreationForm(), AccountForm(),
    )  # fmt: skip
    for form in forms:
        page = str(form)
        assert "new-password" in page
        assert hide_secrets(page) == page


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_stays_json_whatever_is_hidden_in_it(indent: int | None) -> None:
    inner = json.dumps({"pwd": 'a"b\\', "n": 1})
    value = {
        "content": "Enter your password:", "role": "user", "pass": "hunter2x",
        "calls": [{"arguments": inner}], "x": "the secret: 'cargo",
    }  # fmt: skip
    masked = json.loads(hide_secrets(json.dumps(value, indent=indent)))
    assert json.loads(masked["calls"][0]["arguments"]) == {"pwd": HIDDEN, "n": 1}
    assert {**masked, "calls": 0} == {**value, "calls": 0, "pass": HIDDEN}


def test_all_that_stands_under_the_name_of_a_secret_is_hidden() -> None:
    value: dict[str, Any] = {
        "password": {"value": "abc"}, "api_keys": ["k1", "k2"], "secret": ["a1"],
        "max_tokens": {"input": "many"}, "next_page_token": "abc",
        "properties": {"password": {"type": "string", "description": "yours"}},
    }  # fmt: skip
    hidden: dict[str, Any] = {
        "password": {"value": HIDDEN}, "api_keys": [HIDDEN] * 2, "secret": [HIDDEN],
    }  # fmt: skip
    assert hide_secrets_in_value(value) == {**value, **hidden}
    told = json.loads(drop_secrets(json.dumps(value)))
    assert told == {k: v for k, v in value.items() if k not in hidden}


def test_free_json_in_answers_is_masked_by_its_keys() -> None:
    free = {"pwd": "hunter2", "api_key": "abcdefgh"}
    for name in ("input", "content", "model_settings"):
        shown = hide_secret_texts([{name: free, "token": "viewer"}])
        assert shown == [{name: dict.fromkeys(free, HIDDEN), "token": "viewer"}]


def test_plain_words_and_plain_paths_are_looked_for_nowhere(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OPENAI_API_KEY = "ollama"
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", "s3cret99")
    for name, key in (("a", "postgres"), ("b", "a-long-passphrase-of-words")):
        row = Provider(name=name, kind="openai", base_url="http://x/v1")
        row.api_key = key
        row.save()
    for name, path in (("a", "/api/v1/events"), ("b", "/hooks/T0/Zx81kdj27dhs61kq")):
        target = AlertTarget(name=name, kind="webhook")
        target.url = f"https://x{path}"
        target.save()
    assert hide_secrets("ollama postgres /api/v1/events") == (
        "ollama postgres /api/v1/events"
    )
    found = read_sealed_values()
    assert found >= {
        "a-long-passphrase-of-words", "/hooks/T0/Zx81kdj27dhs61kq", "s3cret99",
    }  # fmt: skip


def test_plain_words_in_settings_are_warned_of(settings: Settings) -> None:
    settings.ANTHROPIC_API_KEY, settings.OPENAI_API_KEY = "hideout", "ollama"
    told = [str(one.msg) for one in check_secret_settings()]
    assert len([one for one in told if one.startswith("ANTHROPIC_API_KEY is a")]) == 1
    assert not [one for one in told if "OPENAI" in one]
    settings.ANTHROPIC_API_KEY = "hideout9"
    assert not [one for one in check_secret_settings() if "ANTHROPIC" in str(one.msg)]


def test_a_value_is_found_as_programs_in_go_write_it() -> None:
    assert "a\\u003cb\\u0026c1" in list_spellings("a<b&c1")


def test_what_escapes_hide_is_not_told_in_clear() -> None:
    spelt = json.dumps({"text": "pwd: hunter22"}).replace("h", "\\u0068")
    # Cut off, so that it is no JSON any more.
    call = make_call("chat", spelt[:-1])
    row = make_memory(make_mysis(name="Ada"), role="assistant", tool_calls=[call])
    assert "hunter22" not in row.calls_text


def test_the_answer_to_registering_is_shown_to_who_needs_it(
    admin_client: Client,
) -> None:
    said = json.dumps({"text": 'Your "password" is correct-horse-9'}, indent=2)
    account = Account(username="AdaPilot")
    account.registration_answer = said
    account.save()
    page = admin_client.get(f"/admin/agents/account/{account.pk}/change/")
    shown = html.escape(said).replace("\n", "<br>")
    assert shown in page.content.decode()
    other = Prompt.objects.create(name="captain")
    other.versions.update(text=said)
    page = admin_client.get(f"/admin/agents/prompt/{other.pk}/change/")
    assert "correct-horse-9" not in page.content.decode()


def test_a_new_secret_is_in_one_page_and_in_no_cookie(admin_client: Client) -> None:
    given = {"name": "x", "kind": "webhook", "url": "http://localhost:9/"}
    page = admin_client.post("/alerts/targets/new/", given)
    secret = AlertTarget.objects.get().secret
    assert page.status_code == 200
    assert secret in page.content.decode()
    assert "messages" not in admin_client.cookies


def test_a_new_secret_is_not_kept_for_a_repeated_write(admin_program: Program) -> None:
    body = {"name": "Phone", "kind": "webhook", "url": "http://localhost:9/"}
    key = {"Idempotency-Key": "k"}
    made = admin_program.post("/alerts/targets", body, **key).json()["secret"]
    assert made not in IdempotencyRecord.objects.get().body
    again = admin_program.post("/alerts/targets", body, **key)
    assert (again.status_code, AlertTarget.objects.count()) == (409, 1)


def test_an_own_password_that_cannot_be_recorded_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = User.objects.create_superuser("grace", password=PASSWORD)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    new = f"{PASSWORD}!"
    words = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}

    def refuse(**_values: object) -> None:
        raise Error("The disk is full.")

    monkeypatch.setattr(AuditEntry.objects, "create", refuse)
    # More often than wrong passwords may be tried: that failure is no fault of theirs.
    for _ in range(wrong_passwords.burst + 1):
        assert client.post("/password/", words).status_code == 500
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_what_an_admin_changes_while_a_password_is_hashed_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = User.objects.create_superuser("grace", password=PASSWORD)
    client = Client()
    client.force_login(user)
    hash_it = User.set_password

    def hash_slowly(self: User, raw: str) -> None:
        User.objects.filter(pk=self.pk).update(is_superuser=False)
        hash_it(self, raw)

    monkeypatch.setattr(User, "set_password", hash_slowly)
    new = f"{PASSWORD}!"
    words = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    client.post("/password/", words)
    user.refresh_from_db()
    assert (user.is_superuser, user.check_password(new)) == (False, True)


def test_a_password_in_the_place_of_a_name_is_not_recorded() -> None:
    Client().post("/sign-in/", {"username": PASSWORD, "password": "x"})
    [row] = AuditEntry.objects.all()
    assert (row.who, row.object) == ("unknown user", "user")


def test_tests_and_checks_are_recorded(admin_client: Client) -> None:
    target = AlertTarget(name="x", kind="webhook")
    target.url = "http://127.0.0.1:9/"
    target.save()
    admin_client.post(f"/alerts/targets/{target.pk}/test/")
    assert AuditEntry.objects.filter(action="alert_target.test").count() == 1
    mysis = make_mysis(name="Ada")
    admin_client.get(f"/myses/{mysis.name}/context/?format=json")
    assert AuditEntry.objects.filter(action="context.download").count() == 1


def test_prune_is_recorded_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("prune", "--keep-days=30")
    acts = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(acts) == ["prune.begin", "prune"]
    assert capsys.readouterr().out


def test_a_deletion_that_fails_in_the_admin_leaves_no_entry(
    admin_client: Client,
) -> None:
    Prompt.objects.create(name="captain")
    refuse = """
    CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE 'refused'; END $$;
    CREATE TRIGGER refuse BEFORE DELETE ON agents_provider
    FOR EACH ROW EXECUTE FUNCTION pg_temp.refuse();
    """
    row = Provider.objects.create(name="a", kind="openai", base_url="http://x/v1")
    with connection.cursor() as cursor:
        cursor.execute(refuse)
    asked = {
        "action": "delete_selected", "_selected_action": [row.pk], "post": "yes",
    }  # fmt: skip
    with pytest.raises(Error, match="refused"):
        admin_client.post("/admin/agents/provider/", asked)
    assert not AuditEntry.objects.filter(action="provider.delete").exists()


def test_an_error_is_masked_before_it_is_cut(admin_program: Program) -> None:
    ada = make_mysis(name="Ada")
    # What is left of it at the cut looks like no secret.
    said = "x" * 100 + " pwd: " + "hunter" * 4 + "9"
    Event.objects.create(kind="error", mysis=ada, data={"detail": said})
    body = admin_program.get("/digest").content.decode()
    assert "xxx" in body
    assert "hunter" not in body
