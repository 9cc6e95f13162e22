"""Prompts and policies, tried on a Mysis before they are saved."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents import actions
from agents.actions import settings
from agents.models import Prompt
from memory.models import ContextPolicy
from tests.factories import make_memory, make_mysis

pytestmark = pytest.mark.django_db


def page(client: Client, url: str, **data: Any) -> str:
    answer = client.get(url, data)
    assert answer.status_code == 200, url
    return answer.content.decode()


def tried(client: Client, url: str, **form: Any) -> str:
    answer = client.post(url, form)
    assert answer.status_code == 200, url
    return answer.content.decode()


def test_a_prompt_is_tried_before_it_is_saved(admin: Client):
    prompt = actions.get_default_prompt()
    ada = make_mysis(name="Ada", prompt=prompt)
    make_memory(ada, content="Mine.")
    url = reverse("admin:agents_prompt_preview", args=[prompt.pk])
    form = {"name": prompt.name, "text": "Short <b>orders</b> for {{ name }}.\r\n"}
    shown = admin.post(url, form).content.decode()
    for part in (
        "Nothing is saved yet.",
        "1 Mysis uses this prompt",
        "Short &lt;b&gt;orders&lt;/b&gt; for Ada.",
        "fewer in every call",
    ):
        assert part in shown
    assert prompt.versions.count() == 1
    change = reverse("admin:agents_prompt_change", args=[prompt.pk])
    assert f'formaction="{url}"' in page(admin, change)
    admin.post(change, {**form, "note": "shorter"})
    assert prompt.current is not None
    assert prompt.current.number == 2


def test_a_draft_needs_a_post_and_somebody_who_may_change(
    admin: Client, client: Client
):
    prompt = actions.get_default_prompt()
    url = reverse("admin:agents_prompt_preview", args=[prompt.pk])
    assert admin.get(url).status_code == 302
    assert "This field is required" in admin.post(url, {"text": ""}).content.decode()
    User.objects.create_user("eve", password="x", is_staff=True)
    client.login(username="eve", password="x")
    assert client.post(url, {"name": "x", "text": "x"}).status_code == 403


def test_a_new_prompt_is_tried_too(admin: Client):
    make_mysis(name="Ada", prompt=actions.get_default_prompt())
    url = reverse("admin:agents_prompt_preview_new")
    assert f'formaction="{url}"' in page(admin, reverse("admin:agents_prompt_add"))
    shown = tried(admin, url, name="calm", text="Rest, {{ name }}.")
    assert "No Mysis uses this prompt" in shown
    assert "Rest, Ada." in shown
    assert "It uses another prompt now" in shown
    assert not Prompt.objects.filter(name="calm").exists()
    # The page hands on what was typed to the form that saves it.
    admin.post(reverse("admin:agents_prompt_add"), {"name": "calm", "text": "Rest."})
    assert Prompt.objects.get(name="calm").current is not None


def test_the_template_of_summaries_is_tried_on_a_request_for_one(admin: Client):
    settings.install_summary_prompt()
    prompt = Prompt.objects.get(name=settings.SUMMARY_PROMPT_NAME)
    ada = make_mysis(name="Ada")
    first = make_memory(ada, content="Sell the ore. " * 900)
    for number in range(12):
        make_memory(ada, role="assistant", content=f"Aye {number}. " * 90)
        make_memory(ada, content=f"And then {number}. " * 90)
    url = reverse("admin:agents_prompt_preview", args=[prompt.pk])
    # Its name has no field, so none is sent.
    shown = tried(admin, url, text="Tell <what> was sold.")
    assert "errornote" not in shown
    assert "The next summary of" in shown
    assert f"#{first.pk}" in shown
    assert "Tell &lt;what&gt; was sold." in shown
    assert "between &lt;summary&gt;" in shown
    # It is no system prompt.
    assert "As it would be sent, with its placeholders" not in shown
    short = make_mysis(name="Bob")
    early = tried(admin, url, text="Tell what was sold.", mysis=short.pk)
    assert "could not be summarised yet" in early
    assert prompt.versions.count() == 1


# -- policies -------------------------------------------------------------------------


def test_two_policies_are_laid_side_by_side(admin: Client):
    ada = make_mysis(name="Ada")
    for number in range(30):
        make_memory(ada, content=f"order {number}")
    wide = ContextPolicy.objects.create(name="wide", strategy="full")
    small = ContextPolicy.objects.create(
        name="small", strategy="window", options={"window": 4}
    )
    listed = page(admin, "/policies/")
    assert "wide" in listed
    values = {"mysis": ada.pk, "a": wide.pk, "b": small.pk}
    shown = page(admin, "/policies/", **values)
    assert "full beside window" in shown
    ada.refresh_from_db()
    assert ada.policy is None
    assert admin.get("/policies/", {"mysis": 999}).status_code == 422


def test_a_policy_is_tried_before_it_is_saved(admin: Client):
    policy = ContextPolicy.objects.create(name="wide", strategy="full")
    ada = make_mysis(name="Ada", policy=policy)
    oldest = make_memory(ada, content="order 0")
    for number in range(1, 20):
        make_memory(ada, content=f"order {number}")
    url = reverse("admin:memory_contextpolicy_preview", args=[policy.pk])
    change = reverse("admin:memory_contextpolicy_change", args=[policy.pk])
    assert f'formaction="{url}"' in page(admin, change)
    form = {
        "name": "wide",
        "strategy": "window",
        "options": '{"window": 4}',
        "budget_tokens": 30_000,
        "budget_reserve": 1_000,
    }
    shown = tried(admin, url, **form)
    assert "1 Mysis uses this policy" in shown
    assert "window 4" in shown
    assert f"#{oldest.pk}" in shown
    policy.refresh_from_db()
    assert policy.strategy == "full"
    wrong = tried(admin, url, **{**form, "options": '{"widnow": 4}'})
    assert "errornote" in wrong
    assert "Tokens of the messages" not in wrong


def test_a_new_policy_begins_with_the_values_of_the_default_one(admin: Client):
    url, default = reverse("admin:memory_contextpolicy_add"), ContextPolicy()
    form = admin.get(url).context["adminform"].form
    begun = {name: form[name].value() for name in form.fields}
    assert begun["strategy"] == default.strategy
    given = {name: value for name, value in begun.items() if value is not None}
    admin.post(url, {**given, "name": "mine"})
    made = ContextPolicy.objects.get(name="mine")
    for name in ("strategy", "options", "budget_tokens", "budget_reserve"):
        assert getattr(made, name) == getattr(default, name)
    chosen = admin.get(url, {"strategy": "full"}).context["adminform"].form
    assert chosen["strategy"].value() == "full"
