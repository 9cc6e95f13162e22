"""The audit log as a table: nobody changes it, and it is kept for its time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import Error, connection, transaction
from django.utils import timezone
from pytest_django import Settings

from agents.models import Mysis
from memory import audit
from memory.models import AuditEntry
from tests.factories import make_mysis

pytestmark = pytest.mark.django_db


def entry(**values: Any) -> AuditEntry:
    return AuditEntry.objects.create(who="operator:ann", action="mysis.start", **values)


def run_by_hand(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize(
    "change",
    [
        lambda: AuditEntry.objects.update(who="operator:bob"),
        lambda: AuditEntry.objects.update(after={"tries": 2}),
        lambda: AuditEntry.objects.all().delete(),
        lambda: run_by_hand("DELETE FROM memory_auditentry"),
        lambda: run_by_hand("TRUNCATE memory_auditentry"),
    ],
)
@pytest.mark.parametrize("action", ["mysis.start", "sign_in.failed"])
def test_the_database_refuses_every_change(
    change: Callable[[], object], action: str
) -> None:
    kept = AuditEntry.objects.create(who="ann", action=action, after={"tries": 5})
    with pytest.raises(Error, match="append-only"), transaction.atomic():
        change()
    kept.refresh_from_db()
    assert (kept.who, kept.after) == ("ann", {"tries": 5})


@pytest.mark.django_db(transaction=True)
def test_flush_is_refused_as_a_whole() -> None:
    kept = AuditEntry.objects.create(who="ann", action="mysis.start")
    make_mysis(name="Ada")
    with pytest.raises(CommandError) as refused:
        call_command("flush", interactive=False, verbosity=0)
    assert "append-only" in str(refused.value.__cause__)
    kept.refresh_from_db()
    assert Mysis.objects.filter(name="Ada").exists()


def test_failed_sign_ins_of_a_minute_are_one_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = timezone.now().replace(second=10)
    monkeypatch.setattr(timezone, "now", lambda: now)
    for name, address in [("ann", "192.0.2.7")] * 3 + [("bob", "192.0.2.7")]:
        audit.record_failed_sign_in(name, address, f"user:{name}")
    audit.record_failed_sign_in("ann", "192.0.2.8", "user:ann")
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(minutes=1))
    audit.record_failed_sign_in("ann", "192.0.2.7", "user:ann")
    rows = AuditEntry.objects.order_by("pk")
    assert [(row.who, row.address, row.after["tries"]) for row in rows] == [
        ("ann", "192.0.2.7", 3),
        ("bob", "192.0.2.7", 1),
        ("ann", "192.0.2.8", 1),
        ("ann", "192.0.2.7", 1),
    ]


def prune(*words: str) -> str:
    out = StringIO()
    call_command("prune", *words, stdout=out)
    return out.getvalue()


def test_prune_keeps_the_audit_log_longer_and_is_in_it(settings: Settings) -> None:
    settings.ZOEA_AUDIT_DAYS = 100
    old, kept = (entry(at=timezone.now() - timedelta(days=n)) for n in (101, 99))
    assert "audit entries: 1 would be removed" in prune("--keep-days=1", "--dry-run")
    assert AuditEntry.objects.count() == 2
    assert "audit entries: 1 removed" in prune("--keep-days=1")
    left = set(AuditEntry.objects.values_list("pk", flat=True))
    assert (old.pk in left, kept.pk in left) == (False, True)
    told = AuditEntry.objects.get(action="prune")
    assert (told.action, told.after["removed"]["audit entries"]) == ("prune", 1)
    assert told.who.startswith("command line (")
    assert prune("--keep-days=200").count("audit entries: 0 removed") == 1
    # The door is closed again, also in the same transaction.
    with pytest.raises(Error, match="append-only"), transaction.atomic():
        AuditEntry.objects.all().delete()


def test_odd_characters_and_secrets_are_taken_out() -> None:
    told = {
        "text": "a\x00b \udcff",
        "nested": [{"password": "hunter2hunter2"}],
        "url": "https://me:hunter2@example.org/",
        "sealed_key": "gAAAA",
        "password": "pbkdf2",
    }
    audit.record("x.update", "x:\x00", by="operator:\udcff", before=told, after=told)
    row = AuditEntry.objects.get()
    assert (row.who, row.object) == ("operator:�", "x:")
    assert row.after == {
        "text": "ab �",
        "nested": [{"password": "[hidden]"}],
        "url": "https://[hidden]@example.org/",
        "key": "changed",
        "password": "changed",
    }
    assert row.before["key"] == "stored"
