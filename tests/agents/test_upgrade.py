"""A worker of the version before goes on beside a new one while a deploy lasts."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.migrations.loader import MigrationLoader

BEFORE = {
    "agents": "0026_saved_views",
    "memory": "0018_note_floors",
    "zoea": "0002_idempotency_apart",
}
"""The tables as the version before knows them: set at each release, when its database
is added to `tests/upgrade/releases.py`."""

COLUMNS = """
SELECT table_name, column_name,
  is_nullable = 'YES' OR column_default IS NOT NULL
    OR is_identity = 'YES' OR is_generated = 'ALWAYS'
FROM information_schema.columns WHERE table_schema = 'public'
"""

pytestmark = pytest.mark.django_db


def columns_before() -> dict[str, set[str]]:
    """The columns by table that the version before reads and writes."""
    nodes = list(BEFORE.items())
    state = MigrationLoader(connection).project_state(nodes).apps
    known = state.get_models(include_auto_created=True)
    return {
        model._meta.db_table: {
            field.column for field in model._meta.concrete_fields if field.column
        }
        for model in known
        if model._meta.app_label in BEFORE
    }


def columns_now() -> dict[str, dict[str, bool]]:
    """The columns by table as they are, and whether a row may leave them out."""
    found: dict[str, dict[str, bool]] = {}
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        for table, column, optional in cursor.fetchall():
            found.setdefault(table, {})[column] = optional
    return found


def test_what_the_version_before_writes_and_reads_is_there() -> None:
    now = columns_now()
    gone = {
        f"{table}.{column}"
        for table, columns in columns_before().items()
        for column in columns - now.get(table, {}).keys()
    }
    assert gone == set()


def test_what_the_version_before_leaves_out_has_a_default_in_the_database() -> None:
    now = columns_now()
    wanted = {
        f"{table}.{column}"
        for table, columns in columns_before().items()
        for column, optional in now[table].items()
        if column not in columns and not optional
    }
    assert wanted == set()


def test_a_mysis_of_the_version_before_can_be_made_and_reads_as_one() -> None:
    """By the list of columns of then, as its INSERT names them."""
    state = MigrationLoader(connection).project_state(list(BEFORE.items())).apps
    old = state.get_model("agents", "Mysis").objects.create(name="Old", model="pilot")
    new = apps.get_model("agents", "Mysis").objects.get(pk=old.pk)
    assert (new.state, new.hold, new.lost_turns, new.messaging) == (
        "idle",
        "",
        0,
        False,
    )
    turns = state.get_model("agents", "Turn").objects
    turn = turns.create(mysis=old, number=1, trigger="start")
    calls = state.get_model("agents", "ModelCall").objects
    assert calls.create(turn=turn, number=1, model="pilot").pk
    memories: models.Manager[models.Model] = state.get_model("memory", "Memory").objects
    row = memories.create(mysis_id=old.pk, role="tool", origin="tool", pending=True)
    assert apps.get_model("memory", "Memory").objects.get(pk=row.pk).pending
