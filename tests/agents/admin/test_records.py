"""The admin: every model is there, secrets are not, previews change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents import actions, events
from agents.models import Account, Mysis, Prompt, Provider
from memory.models import ContextPolicy, GameSnapshot, Memory
from tests.browser import scenes
from tests.factories import (
    make_account,
    make_memory,
    make_mysis,
    make_turn,
)
from zoea.models import ApiToken

pytestmark = pytest.mark.django_db
OURS = ("zoea", "agents", "memory")


def page(client: Client, url: str, **data: Any) -> str:
    answer = client.get(url, data)
    assert answer.status_code == 200, url
    return answer.content.decode()


def test_every_model_has_a_list(admin: Client):
    for label in OURS:
        for model in apps.get_app_config(label).get_models():
            name = model._meta.label_lower.replace(".", "_")
            page(admin, reverse(f"admin:{name}_changelist"))


def test_a_mysis_is_made_and_changed_through_the_actions(admin: Client):
    form = {
        "name": "Ada",
        "model": "pilot",
        "model_settings": "{}",
        "max_iterations": 5,
        "messaging": "on",
        "pins-TOTAL_FORMS": 1,
        "pins-INITIAL_FORMS": 0,
        "pins-0-text": "never attack miners",
    }
    admin.post(reverse("admin:agents_mysis_add"), form)
    ada = Mysis.objects.get(name="Ada")
    assert [pin.text for pin in ada.pins.all()] == ["never attack miners"]
    assert ada.prompt is not None
    assert ada.messaging
    url = reverse("admin:agents_mysis_change", args=[ada.pk])
    assert "Preview the next context" in page(admin, url)


def test_an_edit_of_a_prompt_is_a_new_version_and_can_be_rolled_back(admin: Client):
    prompt = actions.get_default_prompt()
    first = prompt.current
    assert first is not None
    url = reverse("admin:agents_prompt_change", args=[prompt.pk])
    admin.post(url, {"name": prompt.name, "text": "Second.", "note": "shorter"})
    assert prompt.current is not None
    assert (prompt.current.number, prompt.current.author) == (2, "operator:admin")
    admin.post(url, {"name": prompt.name, "text": "Second.", "note": "same text"})
    assert prompt.current.number == 2
    assert "What this version changed" in page(
        admin, reverse("admin:agents_prompt_diff", args=[prompt.pk, 1])
    )
    back = reverse("admin:agents_prompt_rollback", args=[prompt.pk, 1])
    assert admin.get(back).status_code == 405
    admin.post(back)
    assert prompt.current.number == 3
    assert prompt.current.text == first.text
    current = reverse("admin:agents_prompt_rollback", args=[prompt.pk, 3])
    refused = admin.post(current, follow=True).content.decode()
    assert "Version 3 of captain is the current one already." in refused
    assert prompt.current.number == 3


def test_secrets_are_written_and_never_shown(admin: Client):
    admin.post(
        reverse("admin:agents_provider_add"),
        {"name": "zen", "kind": "openai", "new_key": "sk-very-secret"},
    )
    provider = Provider.objects.get()
    assert provider.api_key == "sk-very-secret"
    assert "sk-very-secret" not in provider.sealed_key
    url = reverse("admin:agents_provider_change", args=[provider.pk])
    assert "sk-very-secret" not in page(admin, url)
    admin.post(url, {"name": "zen2", "kind": "openai"})
    provider.refresh_from_db()
    assert (provider.name, provider.api_key) == ("zen2", "sk-very-secret")
    account = make_account(password="hunter22hunter22")
    shown = page(admin, reverse("admin:agents_account_change", args=[account.pk]))
    assert "hunter22" not in shown
    assert account.sealed_password not in shown
    assert Account.objects.get().password == "hunter22hunter22"


def test_a_token_is_shown_once(admin: Client):
    answer = admin.post(
        reverse("admin:zoea_apitoken_add"),
        {"name": "ci", "role": "viewer"},
        follow=True,
    )
    assert b"zoea_" in answer.content
    token = ApiToken.objects.get()
    url = reverse("admin:zoea_apitoken_change", args=[token.pk])
    assert token.digest not in page(admin, url)
    assert "The token is" not in page(admin, url)


def test_policies_are_checked_when_saved(admin: Client):
    form = {"name": "p", "strategy": "window", "budget_tokens": 1000}
    url = reverse("admin:memory_contextpolicy_add")
    for options, reserve in (('{"widnow": 3}', 10), ("[]", 10), ("{}", 1000)):
        answer = admin.post(url, form | {"options": options, "budget_reserve": reserve})
        assert answer.status_code == 200, options
    assert not ContextPolicy.objects.exists()
    admin.post(url, form | {"options": '{"window": 3}', "budget_reserve": 10})
    assert ContextPolicy.objects.get().options == {"window": 3}


def test_a_policy_has_fields_for_the_tools(admin: Client):
    url = reverse("admin:memory_contextpolicy_add")
    assert 'name="tools"' in admin.get(url).content.decode()
    form = {"name": "p", "strategy": "window", "options": '{"window": 3}'}
    form |= {"budget_tokens": "1000", "budget_reserve": "10", "tools": "compact"}
    refused = admin.post(url, form | {"allow": "get_*, m$ne"})
    assert "options.allow[1]: must be the name of a tool" in (
        refused.content.decode().replace("&quot;", '"')
    )
    admin.post(url, form | {"allow": "get_*, mine\ntravel"})
    assert ContextPolicy.objects.get().options == {
        "window": 3,
        "tools": "compact",
        "allow": ["get_*", "mine", "travel"],
    }


def test_memory_search_highlights_and_escapes(admin: Client):
    ada, bob = make_mysis(name="Ada"), make_mysis(name="Bob")
    make_memory(ada, content="<img src=x onerror=alert(1)> iron ore")
    make_memory(bob, content="iron elsewhere")
    url = reverse("admin:memory_memory_search")
    fleet = page(admin, url, q="iron")
    assert fleet.count("<mark>iron</mark>") == 2
    assert "<img src=x" not in fleet
    assert "&lt;img src=x" in fleet
    one = page(admin, url, q="iron", mysis=bob.pk)
    assert one.count("<mark>") == 1
    assert "No match" in page(admin, url, q="titanium")
    assert "Words in any order" in page(admin, url)
    listed = page(admin, reverse("admin:memory_memory_changelist"), q="elsewhere")
    assert "iron elsewhere" in listed
    assert "onerror" not in listed


def test_the_preview_gives_every_message_its_reason_and_writes_nothing(admin: Client):
    ada = actions.create_mysis(name="Ada", by="x")
    make_memory(ada, content="hello <b>there</b>")
    make_memory(ada, role="assistant", content="aye")
    for number in range(40):
        make_memory(ada, content=f"old {number}")
    before = (Memory.objects.count(), len(events.read_after(0)))
    url = reverse("admin:agents_mysis_preview", args=[ada.pk])
    assert "out_of_window" in page(admin, url, strategy="snapshot-window")
    shown = page(admin, url)
    assert "Not logged in" in shown
    small = page(admin, url, strategy="window", options='{"window": 3}')
    assert small.count("kept:") < shown.count("kept:")
    assert "no such" not in small
    bad = page(admin, url, options='{"nonsense": 1}')
    assert "errornote" in bad
    assert "nonsense" in bad
    impossible = page(admin, url, budget=100)
    assert "budget_impossible" in impossible
    assert before == (Memory.objects.count(), len(events.read_after(0)))


def test_strangers_and_viewers_get_nothing(client: Client):
    ada = make_mysis()
    make_turn(ada)
    urls = [
        reverse("admin:memory_memory_search"),
        reverse("admin:agents_mysis_preview", args=[ada.pk]),
    ]
    assert all(client.get(url).status_code == 302 for url in urls)
    client.force_login(User.objects.create_user("staff", is_staff=True))
    assert all(client.get(url).status_code == 403 for url in urls)
    assert not Prompt.objects.exists()


def test_bad_values_are_told_at_their_field(admin: Client):
    ada = actions.create_mysis(name="Ada", by="x")
    url = reverse("admin:agents_mysis_change", args=[ada.pk])
    form = {
        "name": "Ada",
        "model": "pilot",
        "model_settings": "{}",
        "max_iterations": 5,
        "prompt": ada.prompt_id,
        "pins-TOTAL_FORMS": 0,
        "pins-INITIAL_FORMS": 0,
    }
    for field, value in (
        ("model", "nope:x"),
        ("model_settings", "[1]"),
        ("model_settings", '{"temperature": "hot"}'),
        ("name", "Ada\u200b"),
    ):
        answer = admin.post(url, form | {field: value})
        assert answer.status_code == 200, (field, value)
        assert b"errorlist" in answer.content
    prompt = reverse("admin:agents_prompt_change", args=[ada.prompt_id])
    long = admin.post(prompt, {"name": "captain", "text": "x" * 100_001})
    assert long.status_code == 200
    ada.refresh_from_db()
    assert (ada.name, ada.model) == ("Ada", "pilot")


def test_a_mysis_with_a_history_and_an_unused_prompt_can_be_deleted(admin: Client):
    ada = actions.create_mysis(name="Ada", by="x")
    make_memory(ada, turn=make_turn(ada))
    used = reverse("admin:agents_prompt_delete", args=[ada.prompt_id])
    assert b"Ada uses it" in admin.get(used).content
    url = reverse("admin:agents_mysis_delete", args=[ada.pk])
    assert b"permission" not in admin.get(url).content
    admin.post(url, {"post": "yes"})
    assert not Mysis.objects.exists()
    admin.post(used, {"post": "yes"})
    assert not Prompt.objects.filter(name="captain").exists()


def test_the_admin_has_no_sign_in_of_its_own(client: Client):
    answer = client.get("/admin/login/?next=/admin/")
    assert (answer.status_code, answer["Location"][:9]) == (302, "/sign-in/")
    client.force_login(User.objects.create_user("bob"))
    assert client.post("/admin/login/", {"username": "x"}).status_code == 403


def test_snapshots_tell_how_old_they_are_and_whether_to_believe_them(admin: Client):
    mysis = make_mysis(name="Ada")
    scenes.add_account(mysis, stale=True)
    url = reverse("admin:memory_gamesnapshot_changelist")
    shown = page(admin, url)
    assert "invalidated" in shown
    assert "fresh" in shown
    row = GameSnapshot.objects.get(tool_name="get_map")
    detail = page(admin, reverse("admin:memory_gamesnapshot_change", args=[row.pk]))
    assert "get_map" in detail


def test_a_token_that_is_over_is_not_made(admin: Client):
    form = {"name": "ci", "role": "viewer", "expires_at": "2020-01-01T00:00"}
    answer = admin.post(reverse("admin:zoea_apitoken_add"), form)
    assert "over already: give a later moment" in answer.content.decode()
    form["expires_at"] = "2999-01-01T00:00"
    admin.post(reverse("admin:zoea_apitoken_add"), form)
    token = ApiToken.objects.get()
    url = reverse("admin:zoea_apitoken_change", args=[token.pk])
    assert 'value="2999-01-01T00:00"' in page(admin, url)
