"""The policy that every Mysis without one of its own has."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from agents.models import Mysis, Usage
from agents.runtime import turn_rows
from bench.loop.arms import ARMS
from memory.context import registry
from memory.models import ContextPolicy, SentContext
from sandbox.game.testing import SandboxServer
from tests.agents.runtime.conftest import fly
from tests.agents.runtime.logs import in_db
from tests.agents.runtime.test_edits_in_mid_turn import begin, held
from tests.factories import make_mysis
from tests.fakes.openai import FakeProvider


@pytest.mark.django_db
def test_a_new_default_takes_the_place_of_the_one_before():
    first = ContextPolicy.objects.create(name="first", is_default=True)
    second = ContextPolicy(name="second", is_default=True)
    second.full_clean()
    second.save()
    first.refresh_from_db()
    assert not first.is_default
    assert make_mysis(name="Ada").effective_policy == second
    own = make_mysis(name="Eve", policy=first)
    assert own.effective_policy == first
    with pytest.raises(IntegrityError), transaction.atomic():
        ContextPolicy.objects.filter(name="first").update(is_default=True)


@pytest.mark.django_db
def test_a_new_installation_begins_with_a_lean_one():
    [arm] = [arm for arm in ARMS if arm.letter == "i"]
    first = import_module("memory.migrations.0001_squashed_0021_audit_truncate")
    with connection.cursor() as cursor:
        cursor.execute(first.LEAN_DEFAULT)
    policy = ContextPolicy.read_default()
    assert (policy.strategy, policy.options) == (arm.strategy, arm.options)
    assert policy.budget_tokens == arm.budget
    policy.full_clean()
    registry.validate_options(policy.strategy, policy.options)


@pytest.mark.django_db
def test_without_one_there_is_the_built_in_policy():
    policy = make_mysis(name="Ada").effective_policy
    assert policy.name == ""
    assert policy.strategy == ContextPolicy().strategy


@pytest.mark.django_db
def test_it_is_set_in_the_admin(admin_client: Client):
    ContextPolicy.objects.create(name="before", is_default=True)
    row = ContextPolicy.objects.create(name="a")
    page = reverse("admin:memory_contextpolicy_change", args=[row.pk])
    form = {"name": "a", "strategy": "window", "options": "{}", "is_default": "on"}
    form |= {"budget_tokens": "9000", "budget_reserve": "900"}
    assert admin_client.post(page, form).status_code == 302
    assert ContextPolicy.read_default() == row
    listed = admin_client.get(reverse("policies")).content.decode()
    assert listed.count("the fleet's default") == 1


async def test_turns_are_flown_under_it(
    eve: Mysis, provider: FakeProvider, sandbox: SandboxServer
):
    def set_default() -> None:
        ContextPolicy.objects.create(name="all", strategy="window", is_default=True)

    await in_db(set_default)()
    await fly(eve)

    def kept() -> tuple[str, str]:
        return SentContext.objects.get().strategy, Usage.objects.get().policy

    assert await in_db(kept)() == ("window", "all")


def test_one_that_is_given_while_a_step_waits_is_not_taken_for_the_default(ada: Mysis):
    """PostgreSQL gives what was joined to the row before."""
    ContextPolicy.objects.create(name="all", is_default=True)
    own = ContextPolicy.objects.create(name="own")
    handle = begin(ada)
    seen: list[Mysis] = []

    def step() -> None:
        with transaction.atomic():
            seen.append(turn_rows.lock_for_call(handle)[0])

    with held(ada, step):
        Mysis.objects.filter(pk=ada.pk).update(policy=own)
    assert [mysis.effective_policy.name for mysis in seen] == ["own"]


@pytest.mark.parametrize("default", ["all", ""])
def test_one_that_is_taken_away_while_a_step_waits_leaves_the_default(
    ada: Mysis, default: str
):
    if default:
        ContextPolicy.objects.create(name=default, is_default=True)
    own = ContextPolicy.objects.create(name="own")
    Mysis.objects.filter(pk=ada.pk).update(policy=own)
    handle = begin(ada)
    seen: list[Mysis] = []

    def step() -> None:
        with transaction.atomic():
            seen.append(turn_rows.lock_for_call(handle)[0])

    with held(ada, step):
        Mysis.objects.filter(pk=ada.pk).update(policy=None)
    assert [mysis.effective_policy.name for mysis in seen] == [default]


@pytest.mark.django_db
def test_a_row_that_is_read_again_has_the_default_of_now():
    mysis = make_mysis(name="Ada")
    assert mysis.effective_policy.name == ""
    ContextPolicy.objects.create(name="all", is_default=True)
    mysis.refresh_from_db()
    assert mysis.effective_policy.name == "all"


@pytest.mark.django_db
def test_the_default_is_read_once_for_many(
    django_assert_num_queries: DjangoAssertNumQueries,
):
    own = ContextPolicy.objects.create(name="own")
    ContextPolicy.objects.create(name="all", is_default=True)
    for name, policy in (("Ada", None), ("Eve", None), ("Ivy", own)):
        make_mysis(name=name, policy=policy)
    rows = list(Mysis.objects.select_related("policy").order_by("pk"))
    with django_assert_num_queries(1):
        Mysis.share_fleet_policy(rows)
        names = [row.effective_policy.name for row in rows]
    assert names == ["all", "all", "own"]
    with django_assert_num_queries(0):
        Mysis.share_fleet_policy([rows[2]])
