"""The admin's long lists: filters that read little, searches, counts with an end."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.db.models import CharField, JSONField, TextField
from django.test import Client
from django.urls import reverse

from agents import actions, events
from agents.context_inputs import preview_context
from agents.events import Kind
from agents.models import ModelCall, Mysis, Prompt, PromptVersion, Turn
from memory.admin import read_only
from memory.admin.read_only import QuickPaginator
from memory.assembly.prepare import record_call
from memory.models import HistorySummary, Memory
from tests.browser import scenes
from tests.factories import make_account, make_memory, make_mysis, make_turn
from tests.statements import record_statements

pytestmark = pytest.mark.django_db


def listed(client: Client, name: str, **query: Any) -> list[Any]:
    """The rows of a list."""
    answer = client.get(reverse(f"admin:{name}_changelist"), query)
    assert answer.status_code == 200, (name, query)
    return list(answer.context["cl"].result_list)


@pytest.fixture
def pair() -> tuple[Mysis, Mysis]:
    """Two Myses of which each has done the same."""
    made = make_mysis(name="Ada"), make_mysis(name="Brahe")
    for mysis in made:
        turn = make_turn(mysis, error=f"{mysis.name} fell asleep")
        ModelCall.objects.create(turn=turn, number=1, model="pilot")
        make_memory(mysis, content="iron ore")
        HistorySummary.objects.create(
            mysis=mysis, first_id=1, through_id=2, generation=1, history_hash="x"
        )
        events.append(Kind.ERROR, mysis_id=mysis.pk, data={"detail": "a leak"})
    return made


def test_every_long_list_can_be_of_one_mysis(
    admin_client: Client, pair: tuple[Mysis, Mysis]
):
    ada, _ = pair
    for name in (
        "agents_turn", "agents_modelcall", "agents_event", "agents_delivery",
        "agents_usage", "memory_memory", "memory_sentcontext", "memory_historysummary",
    ):  # fmt: skip
        everything = listed(admin_client, name)
        mine = listed(admin_client, name, of=ada.pk)
        assert len(mine) * 2 == len(everything), name
        assert listed(admin_client, name, of="x") == []
        assert len(listed(admin_client, name, of="")) == len(everything)


def test_calls_and_events_name_their_mysis(
    admin_client: Client, pair: tuple[Mysis, Mysis]
):
    for name in ("agents_modelcall", "agents_event"):
        url = reverse(f"admin:{name}_changelist")
        text = admin_client.get(url).content.decode()
        assert text.count(">Ada<") > 1, name
    assert str(Turn.objects.get(mysis=pair[0])) == "turn 1 of Ada"


def test_they_are_searched(admin_client: Client, pair: tuple[Mysis, Mysis]):
    assert len(listed(admin_client, "agents_turn", q="Ada fell")) == 1
    assert len(listed(admin_client, "agents_modelcall", q="Brahe")) == 1
    assert len(listed(admin_client, "agents_event", q="a leak")) == 2
    assert listed(admin_client, "agents_event", q="a lake") == []
    for name in ("agents_delivery", "memory_sentcontext"):
        assert listed(admin_client, name, q="Ada") == []


def test_a_filter_without_choices_reads_the_newest_rows_only(
    admin_client: Client, pair: tuple[Mysis, Mysis]
):
    url = reverse("admin:agents_event_changelist")
    with record_statements() as asked:
        text = admin_client.get(url).content.decode()
    assert "kind=error" in text
    assert not [sql for sql in asked if "DISTINCT" in sql]
    assert len(listed(admin_client, "agents_event", kind="error")) == 2
    assert listed(admin_client, "agents_event", kind="nonsense") == []


def test_counts_of_filtered_lists_have_an_end(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[Mysis, Mysis]
):
    ada, _ = pair
    for number in range(7):
        make_memory(ada, content=f"order {number}")
    monkeypatch.setattr(read_only, "EXACT_UP_TO", 5)
    rows = Memory.objects.order_by("-id")
    assert QuickPaginator(rows.filter(mysis=ada), 50).count == 5
    assert QuickPaginator(rows.filter(content="order 3"), 50).count == 1


def test_snapshots_are_filtered_by_how_far_to_believe_them(admin_client: Client):
    scenes.add_account(make_mysis(name="Ada"), stale=True)
    name = "memory_gamesnapshot"
    everything = {row.tool_name for row in listed(admin_client, name)}
    parts = [
        {row.tool_name for row in listed(admin_client, name, belief=level)}
        for level in ("fresh", "ageing", "stale", "invalidated", "partly invalidated")
    ]
    assert set().union(*parts) == everything
    assert sum(map(len, parts)) == len(everything)
    assert parts[0]
    assert parts[3] | parts[4]


def test_the_search_page_counts_whose_and_what_the_matches_are(
    admin_client: Client, pair: tuple[Mysis, Mysis]
):
    make_memory(pair[0], content="iron again", role="assistant")
    url = reverse("admin:memory_memory_search")
    answer = admin_client.get(url, {"q": "iron"})
    facets = dict(answer.context["facets"])
    assert [(f.label, f.count) for f in facets["mysis"]] == [("Ada", 2), ("Brahe", 1)]
    assert sorted(f.count for f in facets["origin"]) == [1, 2]
    agent = next(f for f in facets["origin"] if f.count == 1)
    assert len(admin_client.get(f"{url}?{agent.query}").context["found"]) == 1


@pytest.mark.parametrize("address", ["provider/?kind__exact=%00", "mysis/%00/change/"])
def test_what_no_column_can_hold_is_no_page(admin_client: Client, address: str):
    assert admin_client.get(f"/admin/agents/{address}").status_code == 404


def test_days_in_the_address_of_a_list(admin_client: Client):
    for query, status in (
        ("day__year__gte=0", 404),
        ("day__iso_year=99999", 404),
        ("day__year__in=2026,99999", 404),
        ("day__year=2026&day__month=2&day__day=31", 404),
        ("day__year=2026&day__month=2&day__day=28", 200),
        ("day__year=9999", 404),
        ("day__year=9998", 200),
        ("day__year=1", 200),
        ("day__year=never", 302),
    ):
        answer = admin_client.get(f"/admin/agents/usage/?{query}")
        assert answer.status_code == status, query


def test_an_empty_list_says_what_to_do_next(admin_client: Client):
    def said(name: str, query: str = "") -> str:
        url = reverse(f"admin:{name}_changelist") + query
        return admin_client.get(url).content.decode()

    assert 'href="add/">Add the first' in said("agents_provider")
    assert "as the fleet plays" in said("agents_turn")
    make_mysis(name="Ada")
    assert "Nothing matches." in said("agents_mysis", "?q=nobody")
    assert "Nothing matches." not in said("agents_mysis")


def test_no_job_is_made_anew_or_ended_past_its_mysis(admin_client: Client) -> None:
    actions.start_mysis(mysis=make_mysis(name="Ada"), by="test")
    address = reverse("admin:procrastinate_procrastinatejob_changelist")
    shown = admin_client.get(address).content.decode()
    assert len(listed(admin_client, "procrastinate_procrastinatejob")) == 1
    assert 'name="action"' not in shown


def test_no_list_is_filtered_by_a_text_that_it_does_not_offer(
    admin_client: Client,
) -> None:
    asked = 0
    admin.autodiscover()
    for model, kept in admin.site._registry.items():
        name = model._meta.label_lower.replace(".", "_")
        address = reverse(f"admin:{name}_changelist")
        offered = {
            one[0] if isinstance(one, tuple) else one for one in kept.list_filter
        }
        for field in model._meta.concrete_fields:
            holds_text = isinstance(field, CharField | TextField | JSONField)
            if holds_text and not field.primary_key and field.name not in offered:
                asked += 1
                answer = admin_client.get(address, {f"{field.name}__startswith": "x"})
                assert answer.status_code in (400, 404), (name, field.name)
    assert asked > 40


def test_by_a_related_row_is_filtered_by_which_one_it_is(admin_client: Client) -> None:
    for query, status in (
        ("agents/mysis/?prompt__versions__text__startswith=x", 400),
        ("agents/mysis/?prompt__id__exact=1", 200),
        ("agents/mysis/?policy__isnull=True", 200),
        ("agents/alertdelivery/?target__last_error__regex=x", 400),
        ("agents/alertdelivery/?target__id__exact=1", 200),
        ("auth/user/?groups__user__email__startswith=x", 400),
        ("auth/user/?groups__id__exact=1", 200),
    ):
        assert admin_client.get(f"/admin/{query}").status_code == status, query


def test_prompts_are_searched_in_their_versions_without_what_is_hidden(
    admin_client: Client,
) -> None:
    make_account(password="opensesame-4711")
    prompt = Prompt.objects.create(name="captain")
    PromptVersion.objects.create(
        prompt=prompt, number=1, text="Say opensesame-4711 to land."
    )
    assert listed(admin_client, "agents_prompt", q="to land") == [prompt]
    assert listed(admin_client, "agents_prompt", q="opensesame-4") == []


def test_a_recorded_call_is_found_by_the_beginning_of_its_hash(
    admin_client: Client,
) -> None:
    ada = make_mysis(name="Ada")
    call = ModelCall.objects.create(turn=make_turn(ada), number=1, model="pilot")
    sent = record_call(call_id=call.pk, prepared=preview_context(ada))
    assert listed(admin_client, "memory_sentcontext", q=sent.digest[:12]) == [sent]
