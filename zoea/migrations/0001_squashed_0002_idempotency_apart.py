"""The tables of the doors."""

from __future__ import annotations

from django.db import migrations
from django.db.models import (
    BooleanField,
    CharField,
    DateTimeField,
    F,
    Index,
    PositiveSmallIntegerField,
    TextField,
)

from memory.migrations._tables import create, labelled, table, unique

TABLES = {
    "ApiToken": table(
        name=CharField(max_length=100, unique=True),
        role=CharField(choices=labelled("viewer", "operator", "admin"), max_length=10),
        digest=CharField(editable=False, max_length=64, unique=True),
        created_at=DateTimeField(auto_now_add=True),
        expires_at=DateTimeField(blank=True, null=True),
        last_used_at=DateTimeField(blank=True, editable=False, null=True),
        revoked_at=DateTimeField(blank=True, null=True),
        meta={"verbose_name": "API token"},
    ),
    "SignInLink": table(
        digest=CharField(max_length=64, unique=True),
        created_at=DateTimeField(auto_now_add=True),
        used_at=DateTimeField(blank=True, null=True),
    ),
    "IdempotencyRecord": table(
        actor=CharField(max_length=200),
        key=CharField(max_length=200),
        request_digest=CharField(max_length=64),
        status=PositiveSmallIntegerField(null=True),
        body=TextField(blank=True),
        apart=BooleanField(db_default=False, default=False),
        created_at=DateTimeField(auto_now_add=True),
        indexes=[Index(F("created_at"), name="idempotency_age")],
        constraints=[unique("idempotency_key_once", "actor", "key")],
    ),
}


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [*create(TABLES)]
    replaces = [("zoea", name) for name in ("0001_initial", "0002_idempotency_apart")]
