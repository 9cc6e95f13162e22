"""Providers tried from a page: what is wrong is said where it can be mended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents.models import Provider
from tests.factories import make_provider
from tests.fakes.openai import KEY, FakeProvider

pytestmark = pytest.mark.django_db
NOBODY = "http://127.0.0.1:1/v1"
STEP = "/welcome/provider/"


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeProvider]:
    """One server for all tests here."""
    with FakeProvider() as running:
        yield running


@pytest.fixture
def lab(shared: FakeProvider) -> dict[str, str]:
    """What is typed for a provider that works."""
    return {
        "name": "lab",
        "kind": "openai",
        "base_url": shared.url,
        "key": KEY,
        "default_model": "gpt-5-nano",
    }


def errors(answer: Any) -> dict[str, str]:
    """What the form says, by field."""
    return {
        name: " ".join(said) for name, said in answer.context["form"].errors.items()
    }


def test_one_that_works_is_saved_and_said_to(admin: Client, lab: dict[str, str]):
    answer = admin.post(STEP, lab, follow=True)
    assert answer.redirect_chain[0][0] == "/welcome/prompt/"
    assert "Provider lab works: gpt-5-nano answered in" in answer.content.decode()
    assert Provider.objects.get().api_key == KEY


@pytest.mark.parametrize(
    ("wrong", "field", "remedy"),
    [
        ({"key": "sk-wrong-0123456789"}, "key", "Check the API key"),
        ({"key": "ключ"}, "key", "copy it again"),
        ({"default_model": "gpt-99"}, "default_model", "does not exist"),
        ({"default_model": ""}, "default_model", "Name one."),
        ({"base_url": NOBODY}, "base_url", "could not be reached"),
        ({"base_url": "", "key": ""}, "key", "OPENAI_API_KEY"),
        ({"base_url": "nonsense"}, "base_url", "This is no web address"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_saved(
    admin: Client,
    lab: dict[str, str],
    settings: Any,
    wrong: Any,
    field: str,
    remedy: str,
):
    settings.OPENAI_BASE_URL = settings.OPENAI_API_KEY = ""
    answer = admin.post(STEP, lab | wrong)
    assert answer.status_code == 422
    said = errors(answer)
    assert list(said) == [field]
    assert remedy in said[field]
    assert not Provider.objects.exists()
    text = answer.content.decode()
    # What no provider can have is no matter of trying.
    asked = remedy not in ("copy it again", "This is no web address")
    assert ("Save anyway" in text) == asked
    assert KEY not in text
    assert "sk-wrong" not in text


def test_one_that_asks_for_no_key_is_said_to(
    admin: Client, lab: dict[str, str], shared: FakeProvider, monkeypatch: Any
):
    monkeypatch.setattr(shared, "stranger", None)
    answer = admin.post(STEP, lab, follow=True)
    assert "It asks for no key." in answer.content.decode()


def test_a_key_that_was_typed_need_not_be_typed_again(
    admin: Client, lab: dict[str, str]
):
    admin.post(STEP, lab | {"base_url": NOBODY})
    admin.post(STEP, lab | {"base_url": NOBODY, "key": "", "insist": "yes"})
    row = Provider.objects.get()
    assert (row.base_url, row.api_key) == (NOBODY, KEY)
    # Who comes back mends that one, and keeps its key.
    assert NOBODY in admin.get(STEP).content.decode()
    mended = lab | {"base_url": NOBODY + "/", "key": "", "row": row.pk, "insist": "yes"}
    assert admin.post(STEP, mended).status_code == 302
    row.refresh_from_db()
    assert (row.base_url, row.api_key) == (NOBODY + "/", KEY)


def test_a_typed_key_goes_to_no_other_address(admin: Client, lab: dict[str, str]):
    admin.post(STEP, lab | {"base_url": NOBODY})
    moved = admin.post(STEP, lab | {"key": "", "insist": "yes"})
    assert list(errors(moved)) == ["key"]
    assert not Provider.objects.exists()


@pytest.mark.parametrize("door", ["welcome", "admin"])
@pytest.mark.parametrize("change", ["port", "kind"])
def test_a_stored_key_is_asked_for_again_where_it_would_go_elsewhere(
    admin: Client, lab: dict[str, str], shared: FakeProvider, door: str, change: str
):
    new = {"port": {"base_url": shared.url}, "kind": {"kind": "anthropic"}}[change]
    row = make_provider(
        name="lab", kind="openai", base_url=NOBODY, default_model="m", key=KEY
    )
    place = reverse("admin:agents_provider_change", args=[row.pk])
    place, field = (STEP, "key") if door == "welcome" else (place, "new_key")
    values = lab | {"base_url": NOBODY, "key": "", "row": row.pk} | new
    values |= {"_continue": "Save and check", "insist": "yes"}
    asked = len(shared.requests)
    refused = admin.post(place, values)
    context = refused.context
    form = context["form"] if door == "welcome" else context["adminform"].form
    assert list(form.errors) == [field]
    assert "type the key again" in form.errors[field][0]
    row.refresh_from_db()
    assert (row.kind, row.base_url) == ("openai", NOBODY)
    assert len(shared.requests) == asked
    # What needs none may lose it instead.
    assert admin.post(place, values | {"clear_key": "on"}).status_code == 302
    row.refresh_from_db()
    assert not row.sealed_key


def test_the_welcome_form_changes_only_what_it_was_opened_for(
    admin: Client, lab: dict[str, str]
):
    insisting = lab | {"insist": "yes"}
    admin.post(STEP, insisting)
    old = Provider.objects.get()
    again = admin.post(STEP, insisting | {"name": "second", "row": "new"})
    assert "Meanwhile there is another provider" in errors(again)["__all__"]
    new = Provider.objects.create(name="newer", kind="pilot")
    assert f'value="{new.pk}"' in admin.get(STEP).content.decode()
    changed = insisting | {"default_model": "changed", "row": old.pk}
    assert admin.post(STEP, changed).status_code == 302
    old.refresh_from_db()
    assert old.default_model == "changed"
    old.delete()
    gone = admin.post(STEP, changed)
    assert "deleted meanwhile" in errors(gone)["__all__"]
    assert [row.name for row in Provider.objects.all()] == ["newer"]


def test_nobody_but_an_admin_has_one_asked(
    client: Client, lab: dict[str, str], shared: FakeProvider
):
    asked = len(shared.requests)
    client.force_login(User.objects.create_user("bob", is_staff=True))
    assert client.post(STEP, lab)["Location"] == "/"
    add = reverse("admin:agents_provider_add")
    assert client.post(add, lab | {"_continue": "Save and check"}).status_code == 403
    assert not Provider.objects.exists()
    assert len(shared.requests) == asked


def test_the_admin_saves_then_checks(admin: Client, lab: dict[str, str]):
    add = reverse("admin:agents_provider_add")
    page = admin.get(add).content.decode()
    # It alone takes a while, and says so.
    assert 'value="Save and check" data-slow' in page
    assert page.count("data-slow") == 1
    values = lab | {"new_key": KEY, "_continue": "Save and check"}
    good = admin.post(add, values, follow=True)
    row = Provider.objects.get()
    change = reverse("admin:agents_provider_change", args=[row.pk])
    assert good.redirect_chain[0][0] == change
    assert "Provider lab works: gpt-5-nano answered in" in good.content.decode()
    bad = admin.post(change, values | {"base_url": NOBODY}, follow=True)
    assert "Provider lab does not work:" in bad.content.decode()
    row.refresh_from_db()
    assert row.base_url == NOBODY
    listed = reverse("admin:agents_provider_changelist")
    chosen = {"action": "check_selected", "_selected_action": [row.pk]}
    assert (
        "could not be reached"
        in admin.post(listed, chosen, follow=True).content.decode()
    )


def test_a_key_is_forgotten_by_who_begins_anew(admin: Client, lab: dict[str, str]):
    admin.post(STEP, lab | {"base_url": NOBODY})
    admin.get(STEP)
    admin.post(STEP, lab | {"key": "", "insist": "yes"})
    assert Provider.objects.get().api_key == ""
