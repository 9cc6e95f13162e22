"""Which policy is the fleet's default: marked by several, kept by others' changes."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from memory.models import ContextPolicy, fetch_rows
from tests.programs import Program

FORM = {"strategy": "window", "options": "{}", "budget_reserve": "900"}
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def _move_default(name: str) -> None:
    row = ContextPolicy.objects.get(name=name)
    row.is_default = True
    row.save(update_fields=["is_default"])


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["mine", "other"])
def test_a_change_over_rest_leaves_the_default(
    admin_program: Program, monkeypatch: pytest.MonkeyPatch, first: str
):
    """It is moved after the row was read, before it is written."""
    for name in ("mine", "other"):
        ContextPolicy.objects.create(name=name, is_default=name == first)
    last = "other" if first == "mine" else "mine"
    check = ContextPolicy.full_clean

    def move_and_check(row: ContextPolicy) -> None:
        _move_default(last)
        check(row)

    monkeypatch.setattr(ContextPolicy, "full_clean", move_and_check)
    body = {"budget": {"tokens": 9000, "reserve": 10}, "options": {"window": 3}}
    answer = admin_program.patch("/policies/mine", body)
    assert answer.status_code == 200, answer.content
    assert ContextPolicy.read_default().name == last
    changed = ContextPolicy.objects.get(name="mine")
    assert (changed.budget_tokens, changed.options) == (9000, {"window": 3})
    assert changed.updated_at > changed.created_at


@pytest.mark.django_db
@pytest.mark.parametrize("shown", [True, False])
def test_a_form_from_before_the_default_was_moved_leaves_it(
    admin_client: Client, *, shown: bool
):
    row = ContextPolicy.objects.create(name="mine", is_default=not shown)
    ContextPolicy.objects.create(name="other", is_default=shown)
    form = FORM | {"name": "mine", "budget_tokens": "9000"}
    form |= {"initial-is_default": str(shown)} | ({"is_default": "on"} if shown else {})
    url = reverse("admin:memory_contextpolicy_change", args=[row.pk])
    assert admin_client.post(url, form).status_code == 302
    row.refresh_from_db()
    assert row.budget_tokens == 9000
    assert ContextPolicy.read_default().name == ("other" if shown else "mine")


@pytest.mark.django_db
def test_the_form_says_what_it_was_shown_with_and_takes_the_default_away(
    admin_client: Client,
):
    row = ContextPolicy.objects.create(name="mine", is_default=True)
    url = reverse("admin:memory_contextpolicy_change", args=[row.pk])
    shown = admin_client.get(url).content.decode()
    assert 'name="initial-is_default" value="True"' in shown
    form = FORM | {"name": "mine", "budget_tokens": "9000"}
    admin_client.post(url, form | {"initial-is_default": "True"})
    assert ContextPolicy.read_default().name == ""


@pytest.mark.django_db(transaction=True)
def test_two_who_mark_a_default_at_once_come_one_after_the_other():
    failures: list[Exception] = []

    def mark() -> None:
        try:
            ContextPolicy.objects.create(name="second", is_default=True)
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=mark)
    with transaction.atomic():
        ContextPolicy.objects.create(name="first", is_default=True)
        thread.start()
        while not fetch_rows(WAITING)[0][0]:
            assert thread.is_alive()
    thread.join()
    assert failures == []
    assert ContextPolicy.read_default().name == "second"
