"""Where the policy of a Mysis is shown or counted, the fleet's default counts too."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from agents import budgets
from agents.dashboard.troubles import find_fix
from agents.models import Budget, ErrorCode, Mysis
from agents.tools.fleet_answers import answer_list_myses
from agents.tools.own_tool_answers import Scope
from memory.api import state
from memory.models import ContextPolicy, fetch_rows
from tests.factories import make_mysis
from tests.programs import Program

pytestmark = pytest.mark.django_db


@pytest.fixture
def default() -> ContextPolicy:
    options = {"state_block": False}
    return ContextPolicy.objects.create(name="all", options=options, is_default=True)


@pytest.fixture
def fleet(default: ContextPolicy) -> list[Mysis]:
    """Two under the default, one under its own."""
    own = ContextPolicy.objects.create(name="own")
    given = {"Ada": None, "Eve": None, "Ivy": own}
    return [make_mysis(name=name, policy=policy) for name, policy in given.items()]


def _read_policies(rows: list[dict[str, Any]]) -> list[tuple[object, object]]:
    return [(row["policy"], row["effective_policy"]) for row in rows]


SHOWN = [(None, "all"), (None, "all"), ("own", "own")]


def test_rest_tells_its_own_and_the_one_in_effect(
    fleet: list[Mysis],
    admin_program: Program,
    django_assert_max_num_queries: DjangoAssertNumQueries,
):
    admin_program.get("/myses")
    with django_assert_max_num_queries(6):
        rows = admin_program.get("/myses").json()["items"]
    assert _read_policies(rows) == SHOWN
    assert admin_program.get("/myses/Ada").json()["effective_policy"] == "all"
    ContextPolicy.objects.filter(name="all").delete()
    assert admin_program.get("/myses/Ada").json()["effective_policy"] is None


def test_programs_are_told_the_same_with_one_more_statement(
    fleet: list[Mysis], django_assert_num_queries: DjangoAssertNumQueries
):
    scope = Scope(mysis_id=None, by="a program")
    # Why each idles takes one of them.
    with django_assert_num_queries(4):
        answer = answer_list_myses({}, scope)
    assert _read_policies(answer.value["myses"]) == SHOWN


def test_only_the_default_is_said_to_be_it(fleet: list[Mysis], admin_program: Program):
    rows = admin_program.get("/policies").json()["items"]
    assert [row.get("is_default", "left out") for row in rows] == [True, "left out"]
    refused = admin_program.patch("/policies/own", {"is_default": True})
    assert refused.status_code == 422


def test_a_budget_of_the_default_misses_models_of_those_without_a_policy(
    fleet: list[Mysis], default: ContextPolicy
):
    budget = Budget(scope=Budget.Scope.POLICY, policy=default)
    model = fleet[0].model
    assert budgets._select_models(budget, [model]) == [model]
    default.is_default = False
    default.save()
    assert budgets._select_models(budget, [model]) == []


def test_a_context_error_is_mended_in_the_default(
    fleet: list[Mysis], default: ContextPolicy
):
    ada = fleet[0]
    ada.last_error_code = ErrorCode.CONTEXT
    fix = find_fix(ada, {})
    assert fix.label == "The fleet's default (all)"
    assert fix.link == reverse("admin:memory_contextpolicy_change", args=[default.pk])


def test_pages_name_and_count_it(
    fleet: list[Mysis], default: ContextPolicy, admin_client: Client
):
    page = admin_client.get(reverse("policies")).content.decode()
    assert "the fleet&#x27;s default (all)</option>" in page
    assert '<td class="num end">2</td>' in page
    new = admin_client.get(reverse("mysis-new")).content.decode()
    assert "The fleet&#x27;s default (all)</option>" in new
    head = admin_client.get(fleet[0].get_absolute_url()).content.decode()
    assert "the fleet&#x27;s default (all)</bdi>" in head
    url = reverse("admin:memory_contextpolicy_preview", args=[default.pk])
    form = {"name": "all", "strategy": "window", "options": "{}", "is_default": "on"}
    form |= {"budget_tokens": "90000", "budget_reserve": "900"}
    draft = admin_client.post(url, form).content.decode()
    assert "2 Myses use" in draft
    assert "It uses another policy now" not in draft


def test_a_summary_is_made_under_the_default(fleet: list[Mysis]):
    wanted = {"number": None, "name": "Ada", "events": 1}
    [row] = fetch_rows(state.SOURCES, wanted)
    assert row[2] == '{"state_block": false}'
