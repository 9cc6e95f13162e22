"""Summaries in the admin: taken back, and let be tried again."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from agents.models import Event, Mysis
from memory.assembly import history_summaries
from memory.context.types import Compaction
from memory.models import HistorySummary
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db
LIST = "admin:memory_historysummary_changelist"


def stored(mysis: Mysis, generation: int, status: str) -> HistorySummary:
    return HistorySummary.objects.create(
        mysis=mysis,
        first_id=generation * 10,
        through_id=generation * 10 + 9,
        generation=generation,
        text=f"Summary {generation}.",
        status=status,
        history_hash="x",
        turn_number=generation,
    )


def act(client: Client, action: str, *rows: HistorySummary) -> str:
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    return client.post(reverse(LIST), chosen, follow=True).content.decode()


def test_a_summary_is_taken_back_and_the_one_before_is_used(admin_client: Client):
    mysis = make_mysis()
    older, newer = stored(mysis, 1, "replaced"), stored(mysis, 2, "active")
    assert "summary 1 is used again" in act(admin_client, "take_back", newer)
    older.refresh_from_db()
    newer.refresh_from_db()
    assert (older.status, newer.status) == ("active", "reverted")
    assert "Only the summary in use" in act(admin_client, "take_back", newer)
    told = Event.objects.filter(kind="context.compacted")
    assert [line.data["status"] for line in told] == ["reverted"]
    assert "the history itself is used" in act(admin_client, "take_back", older)


def test_failures_are_cleared_and_nothing_else(admin_client: Client):
    mysis = make_mysis()
    rows = [stored(mysis, 1, "active"), *(stored(mysis, 2, "failed") for _ in "abc")]
    assert history_summaries.check_compaction(mysis.pk, turn=3).breaker_open
    assert "3 failures are cleared" in act(admin_client, "try_again", *rows)
    assert history_summaries.check_compaction(mysis.pk, turn=3) == Compaction()
    statuses = HistorySummary.objects.order_by("pk").values_list("status", flat=True)
    assert list(statuses) == ["active", *["cleared"] * 3]
    told = Event.objects.filter(kind="context.compacted")
    assert {line.data["by"] for line in told} == {"operator:admin"}


def test_a_viewer_of_the_admin_may_do_neither(client: Client, django_user_model):
    user = django_user_model.objects.create_user("eva", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_historysummary"))
    client.force_login(user)
    row = stored(make_mysis(), 1, "active")
    act(client, "take_back", row)
    row.refresh_from_db()
    assert row.status == "active"
