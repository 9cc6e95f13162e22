"""What the fleet did, in the admin: rows to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from django.contrib import admin
from django.db.models import Max, Model, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from procrastinate.contrib.django.admin import ProcrastinateJobAdmin
from procrastinate.contrib.django.models import ProcrastinateJob

from agents.models import (
    Broadcast,
    BudgetSpend,
    CreditChange,
    Delivery,
    Event,
    Fence,
    GameGate,
    ModelCall,
    Mysis,
    Order,
    OrderRecipient,
    Pin,
    PromptVersion,
    Replay,
    ReplayCall,
    Rewind,
    RewindStep,
    SavedView,
    ToolCatalogue,
    Turn,
    UnknownOutcome,
    Usage,
    Visit,
    WorkerLock,
)
from agents.models.llm import AskedWindow
from agents.tool_catalogue import CLASHES
from memory.admin.read_only import (
    SEARCHED,
    MaskedSearchAdmin,
    MysisFilter,
    MysisOfTurnFilter,
    NewestValuesFilter,
    ReadOnlyAdmin,
)
from memory.redaction import hide_secrets_in_row

# A search looks at the newest events only: no index helps it.
SEARCHED_EVENTS = 20_000
SPENT = ("input_tokens", "output_tokens", "cached_tokens", "cost", "latency_ms")
M = TypeVar("M", bound=Model)

# Rows that need no more than their columns; the models say what they are.
COLUMNS: Mapping[type[Model], Mapping[str, Any]] = {
    Turn: {
        "list_display": (
            *("id", "mysis", "number", "trigger", "outcome", "iterations"),
            *SPENT,
            "started_at",
        ),
        "list_filter": (MysisFilter, "outcome", ("trigger", NewestValuesFilter)),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "error"),
        "ordering": ("-id",),
    },
    Delivery: {
        "list_display": (
            "memory_id",
            "mysis",
            "turn_number",
            "call_number",
            "shown",
            "shown_at",
            "done_at",
        ),
        "list_filter": (MysisFilter, "shown"),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "=memory__id"),
        "ordering": ("-memory_id",),
    },
    Broadcast: {
        "list_display": ("id", "text", "sender", "group", "tag", "created_at"),
        "list_filter": (("group", NewestValuesFilter), ("tag", NewestValuesFilter)),
        "search_fields": ("text",),
        "ordering": ("-id",),
    },
    Order: {
        "list_display": ("id", "text", "sender", "to", "created_at"),
        "search_fields": ("text", "sender"),
        "ordering": ("-id",),
    },
    OrderRecipient: {
        "list_display": ("order_id", "mysis", "state", "note", "changed_by"),
        "list_filter": (MysisFilter, "state"),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "note", "=order__id"),
        "ordering": ("-id",),
    },
    UnknownOutcome: {
        "list_display": ("mysis", "username", "tool", "tick", "created_at"),
        "list_filter": (MysisFilter,),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "username", "tool"),
        "ordering": ("-id",),
    },
    CreditChange: {
        "list_display": ("username", "mysis", "turn_id", "amount", "credits", "at"),
        "list_filter": (MysisFilter,),
        "list_select_related": ("mysis",),
        "search_fields": ("username", "=turn__id"),
        "ordering": ("-id",),
    },
    SavedView: {
        "list_display": ("name", "user", "query", "is_default"),
        "list_select_related": ("user",),
        "search_fields": ("name", "user__username"),
        "ordering": ("user", "name"),
    },
    Rewind: {
        "list_display": (
            *("id", "mysis", "turn_number", "call_number", "state", "end", "done"),
            *("cost", "by", "created_at"),
        ),
        "list_filter": (MysisFilter, "state", "end"),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "by"),
        "ordering": ("-id",),
    },
    RewindStep: {
        "list_display": ("rewind_id", "place", "turn_number", "call_number", "differs"),
        "search_fields": ("=rewind__id",),
        "ordering": ("-rewind_id", "place"),
    },
    Replay: {
        "list_display": (
            *("id", "mysis", "label", "state", "done", "total"),
            *("by", "created_at", "finished_at"),
        ),
        "list_filter": (MysisFilter, "state"),
        "list_select_related": ("mysis",),
        "search_fields": ("mysis__name", "label", "by"),
        "ordering": ("-id",),
    },
    ReplayCall: {
        "list_display": ("replay_id", "place", "call_id", "differs"),
        "search_fields": ("=replay__id",),
        "ordering": ("-replay_id", "place"),
    },
    GameGate: {"list_display": ("host", "full_at")},
    WorkerLock: {"list_display": ("number",)},
    Fence: {"list_display": ("game", "seconds_per_tick"), "exclude": ("key_check",)},
    Visit: {
        "list_display": ("user", "seen_at", "since"),
        "list_select_related": ("user",),
        "search_fields": ("user__username",),
    },
    BudgetSpend: {
        "list_display": ("budget", "subject", "day", "tokens", "cost"),
        "list_filter": ("budget",),
        "list_select_related": ("budget",),
        "ordering": ("budget", "subject"),
    },
    PromptVersion: {
        "list_display": ("prompt", "number", "author", "note", "created_at"),
        "list_filter": ("prompt",),
        "list_select_related": ("prompt",),
        "search_fields": ("text", "note"),
    },
    AskedWindow: {
        "list_display": (
            "model",
            "kind",
            "shown_address",
            "tokens",
            "source",
            "asked_at",
            "limit",
            "limited_at",
        ),
        "exclude": ("base_url",),
        "readonly_fields": ("shown_address",),
        "list_filter": ("kind",),
        "search_fields": ("model", "base_url"),
        "ordering": ("kind", "base_url", "model"),
    },
}
for model, shown in COLUMNS.items():
    admin.site.register(model, ReadOnlyAdmin, **shown)
admin.site.register(
    Pin,
    # Written on the page of its Mysis, with its hash, its checks and an event.
    ReadOnlyAdmin,
    list_display=("text", "mysis", "state", "author", "created_at", "changed_at"),
    list_filter=("state",),
    list_select_related=("mysis",),
    search_fields=("text", "mysis__name"),
)
admin.site.unregister(ProcrastinateJob)


@admin.register(ProcrastinateJob)
class JobAdmin(MaskedSearchAdmin[ProcrastinateJob], ProcrastinateJobAdmin):
    """The queue's own list, to look at: a turn is started and stopped at its Mysis."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}


@admin.register(ModelCall)
class CallAdmin(ReadOnlyAdmin[ModelCall]):
    """Each request to a model."""

    list_display = (
        *("id", "mysis", "turn_number", "kind", "number", "model"),
        *SPENT,
        *("finish_reason", "created_at"),
    )
    list_filter = (
        MysisOfTurnFilter,
        "kind",
        ("finish_reason", NewestValuesFilter),
        ("model", NewestValuesFilter),
    )
    list_select_related = ("turn__mysis",)
    search_fields = ("turn__mysis__name", "model", "error")
    ordering = ("-id",)

    @admin.display(description="Mysis", ordering="turn__mysis__name")
    def mysis(self, row: ModelCall) -> str:
        return row.turn.mysis.name

    @admin.display(description="turn", ordering="turn")
    def turn_number(self, row: ModelCall) -> int:
        """Which of its turns, as the pages count them."""
        return row.turn.number


class NamedMysisAdmin(ReadOnlyAdmin[M]):
    """Rows that stay when their Mysis is deleted, with its name."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """The rows with the names, by a subquery: a join leaves deleted Myses out."""
        names = Mysis.objects.filter(pk=OuterRef("mysis_id")).values("name")
        rows = super().get_queryset(request)
        return rows.annotate(name=Subquery(names[:1]))

    @admin.display(description="Mysis", ordering="mysis_id")
    def mysis_name(self, row: Any) -> str:
        """Its name; the number of a deleted one; empty for an event of all of them."""
        if row.mysis_id is None:
            return ""
        return getattr(row, "name", None) or f"{row.mysis_id} (deleted)"


@admin.register(Usage)
class UsageAdmin(NamedMysisAdmin[Usage]):
    """What each Mysis used on each day; stays when its turns are deleted."""

    list_display = (
        *("day", "mysis_name", "policy", "model", "calls", "summaries", "errors"),
        *SPENT,
    )
    list_filter = (
        MysisFilter,
        ("policy", NewestValuesFilter),
        ("model", NewestValuesFilter),
    )
    date_hierarchy = "day"
    ordering = ("-day", "mysis_id")


def _write(event: Event) -> str:
    """The data of an event as PostgreSQL writes it."""
    return json.dumps(event.data, ensure_ascii=False)


@admin.register(Event)
class EventAdmin(NamedMysisAdmin[Event]):
    """The event log."""

    list_display = ("id", "kind", "mysis_name", "data", "created_at")
    list_filter = (MysisFilter, ("kind", NewestValuesFilter))
    # Not the field that is searched (see below): it makes the box appear.
    search_fields = ("kind",)
    search_help_text = "Any text of the newest 20,000 events."
    ordering = ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search the text of the data of the newest events."""
        wanted = search_term.replace("\x00", "").strip()
        if not wanted:
            return queryset, False
        newest = Event.objects.aggregate(last=Max("pk"))["last"] or 0
        recent = queryset.filter(pk__gt=newest - SEARCHED_EVENTS)
        texts = recent.annotate(text=Cast("data", TextField()))
        found = texts.filter(text__icontains=wanted).order_by("-pk")[:SEARCHED]
        # Nothing is found by what is hidden in it.
        masked = [hide_secrets_in_row(row) for row in found]
        shown = [row.pk for row in masked if wanted.lower() in _write(row).lower()]
        return queryset.filter(pk__in=shown), False


@admin.register(ToolCatalogue)
class ToolsAdmin(ReadOnlyAdmin[ToolCatalogue]):
    """The tools that each game server offered last."""

    list_display = ("url", "count", "updated_at")

    @admin.display(description="tools")
    def count(self, row: ToolCatalogue) -> int:
        return sum(CLASHES not in tool for tool in row.tools)
