"""Databases of other releases: which are gone on from, and what the others are told."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from zoea.commandline import DatabaseError
from zoea.middleware import readiness
from zoea.releases import OLDEST, find_refusal

RECORDED = MigrationRecorder(connection).migration_qs

pytestmark = pytest.mark.django_db


def test_a_database_of_the_oldest_release_is_gone_on_from() -> None:
    """It knows none of the names of now."""
    assert RECORDED.filter(name__contains="_squashed_").delete()[0] == 4
    assert find_refusal() == ""
    call_command("migrate", verbosity=0)
    assert RECORDED.filter(name__contains="_squashed_").count() == 4


def test_one_that_has_forgotten_what_was_replaced_is_gone_on_from() -> None:
    """As `migrate --prune` leaves it."""
    RECORDED.filter(app__in=["agents", "memory", "zoea"]).exclude(
        name__contains="_squashed_"
    ).delete()
    assert find_refusal() == ""


def test_one_whose_first_start_was_cut_short_is_gone_on_from() -> None:
    """As Django records it until the last migration: by the names that were replaced."""
    RECORDED.filter(app__in=["memory", "zoea"]).delete()
    RECORDED.filter(app="agents", name__contains="_squashed_").delete()
    RECORDED.filter(app="agents", name="0002_initial").delete()
    assert find_refusal() == ""


@pytest.mark.parametrize("missing", ["0001_initial", "0031_credit_changes"])
def test_an_older_one_is_told_which_release_brings_it_up_to_date(missing: str) -> None:
    RECORDED.filter(name__contains="_squashed_").delete()
    RECORDED.filter(app="agents", name=missing).delete()
    said = find_refusal()
    assert f"agents.{missing} is not applied" in said
    assert f"of the release of 2026-11-28 (commit {OLDEST})" in said
    with pytest.raises(DatabaseError, match=missing):
        call_command("migrate", verbosity=0)
    readiness.forget()
    waiting = Client().get("/readyz")
    readiness.forget()
    assert (waiting.status_code, waiting.json()["detail"]) == (503, said)
