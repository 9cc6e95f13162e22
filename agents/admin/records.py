"""Turns, calls, events and deliveries: shown, never edited."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest

from agents.models import (
    Broadcast,
    Delivery,
    Event,
    ModelCall,
    Mysis,
    Pin,
    ToolCatalogue,
    Turn,
    Usage,
)
from memory.admin.readonly import ReadOnlyAdmin


@admin.register(Turn)
class TurnAdmin(ReadOnlyAdmin[Turn]):
    """What each turn came to."""

    list_display = (
        "id",
        "mysis",
        "number",
        "trigger",
        "outcome",
        "iterations",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cost",
        "latency_ms",
        "started_at",
    )
    list_filter = ("outcome", "trigger")
    list_select_related = ("mysis",)
    ordering = ("-id",)


@admin.register(ModelCall)
class CallAdmin(ReadOnlyAdmin[ModelCall]):
    """Each request to a model."""

    list_display = (
        "id",
        "turn",
        "kind",
        "number",
        "model",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cost",
        "latency_ms",
        "finish_reason",
        "created_at",
    )
    list_filter = ("kind", "finish_reason")
    list_select_related = ("turn",)
    ordering = ("-id",)


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin[Usage]):
    """What each Mysis used on each day; kept when its turns are gone."""

    list_display = (
        "day",
        "mysis_name",
        "policy",
        "model",
        "calls",
        "summaries",
        "errors",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cost",
        "latency_ms",
    )
    list_filter = ("policy", "model")
    date_hierarchy = "day"
    ordering = ("-day", "mysis_id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """With the names, looked up so that deleted Myses are not left out."""
        names = Mysis.objects.filter(pk=OuterRef("mysis_id")).values("name")
        return super().get_queryset(request).annotate(name=Subquery(names))

    @admin.display(description="Mysis", ordering="mysis_id")
    def mysis_name(self, row: Usage) -> str:
        """Its name; the number of one that was deleted."""
        name: str | None = getattr(row, "name", None)
        return name or f"{row.mysis_id} (deleted)"


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin[Delivery]):
    """Which call each message was first shown in, and when it was done."""

    list_display = (
        "memory_id",
        "mysis",
        "turn_number",
        "call_number",
        "shown",
        "shown_at",
        "done_at",
    )
    list_filter = ("shown",)
    list_select_related = ("mysis",)
    ordering = ("-memory_id",)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin[Event]):
    """The event log."""

    list_display = ("id", "kind", "mysis_id", "data", "created_at")
    list_filter = ("kind",)
    ordering = ("-id",)


@admin.register(Broadcast)
class BroadcastAdmin(ReadOnlyAdmin[Broadcast]):
    """Messages to the fleet."""

    list_display = ("id", "text", "sender", "created_at")
    search_fields = ("text",)
    ordering = ("-id",)


@admin.register(ToolCatalogue)
class ToolsAdmin(ReadOnlyAdmin[ToolCatalogue]):
    """The tools that each game server offered last."""

    list_display = ("url", "count", "updated_at")

    @admin.display(description="tools")
    def count(self, row: ToolCatalogue) -> int:
        """How many tools."""
        return len(row.tools)


@admin.register(Pin)
class PinAdmin(admin.ModelAdmin[Pin]):
    """Standing orders that no strategy may lose."""

    list_display = ("text", "mysis", "author", "created_at")
    list_select_related = ("mysis",)
    search_fields = ("text", "mysis__name")
