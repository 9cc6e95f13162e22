"""What alerts are kept as: seen here, set on their own page and over REST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Model

from agents.models import (
    AlarmEvidence,
    Alert,
    AlertDelivery,
    AlertSettings,
    AlertTarget,
    KnownBase,
)
from memory.admin.read_only import MysisFilter, ReadOnlyAdmin

COLUMNS: Mapping[type[Model], Mapping[str, Any]] = {
    AlertSettings: {"list_display": ("judged_at", "changed_by", "changed_at")},
    Alert: {
        "list_display": ("rule", "name", "text", "raised_at", "cleared_at"),
        "list_filter": (MysisFilter, "rule"),
        "search_fields": ("name", "text"),
        "ordering": ("-id",),
    },
    AlarmEvidence: {
        "list_display": (
            "mysis",
            "account",
            "credits",
            "earned_at",
            "place",
            "moved_at",
        ),
        "list_filter": (MysisFilter,),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "account"),
    },
    KnownBase: {
        "list_display": ("system", "seen_at"),
        "search_fields": ("system",),
        "ordering": ("system",),
    },
    AlertTarget: {
        "list_display": (
            "name",
            "kind",
            "enabled",
            "failures",
            "last_error",
            "told_at",
        ),
        "list_filter": ("kind", "enabled"),
        "search_fields": ("name",),
        # Their address may hold a token: it is never shown in full.
        "exclude": ("sealed_url", "sealed_secret"),
        "ordering": ("name",),
    },
    AlertDelivery: {
        "list_display": ("event", "target", "kind", "state", "attempts", "sent_at"),
        "list_filter": ("target", "state"),
        "list_select_related": ("target",),
        "search_fields": ("body", "=event"),
        "ordering": ("-id",),
    },
}
for model, shown in COLUMNS.items():
    admin.site.register(model, ReadOnlyAdmin, **shown)
