"""Turns, calls, events and deliveries: shown, never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Max, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest

from agents.models import (
    Broadcast,
    Delivery,
    Event,
    GameGate,
    ModelCall,
    Mysis,
    Pin,
    ToolCatalogue,
    Turn,
    UnknownOutcome,
    Usage,
)
from memory.admin.filters import MysisFilter, MysisOfTurnFilter, NewestValuesFilter
from memory.admin.readonly import ReadOnlyAdmin

#: Events that a search goes through, the newest ones: no index helps it.
SEARCHED_EVENTS = 20_000


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
    list_filter = (MysisFilter, "outcome", ("trigger", NewestValuesFilter))
    list_select_related = ("mysis",)
    search_fields = ("mysis__name", "error")
    ordering = ("-id",)


@admin.register(ModelCall)
class CallAdmin(ReadOnlyAdmin[ModelCall]):
    """Each request to a model."""

    list_display = (
        "id",
        "mysis",
        "turn_number",
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
        """Whose call it was."""
        return row.turn.mysis.name

    @admin.display(description="turn", ordering="turn")
    def turn_number(self, row: ModelCall) -> int:
        """Which of its turns, as the pages count them."""
        return row.turn.number


def with_names(rows: QuerySet[Any]) -> QuerySet[Any]:
    """With the name of the Mysis that each row has the number of."""
    names = Mysis.objects.filter(pk=OuterRef("mysis_id")).values("name")
    found: QuerySet[Any] = rows.annotate(name=Subquery(names[:1]))
    return found


def named(row: Any) -> str:
    """A Mysis's name; the number of one that was deleted."""
    return getattr(row, "name", None) or f"{row.mysis_id} (deleted)"


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
    list_filter = (
        MysisFilter,
        ("policy", NewestValuesFilter),
        ("model", NewestValuesFilter),
    )
    date_hierarchy = "day"
    ordering = ("-day", "mysis_id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """With the names, looked up so that deleted Myses are not left out."""
        return with_names(super().get_queryset(request))

    @admin.display(description="Mysis", ordering="mysis_id")
    def mysis_name(self, row: Usage) -> str:
        """Its name; the number of one that was deleted."""
        return named(row)


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
    list_filter = (MysisFilter, "shown")
    list_select_related = ("mysis",)
    search_fields = ("mysis__name", "=memory__id")
    ordering = ("-memory_id",)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin[Event]):
    """The event log."""

    list_display = ("id", "kind", "mysis_name", "data", "created_at")
    list_filter = (MysisFilter, ("kind", NewestValuesFilter))
    # What is searched for is told below; the field makes the box appear.
    search_fields = ("kind",)
    search_help_text = "Any text of the newest 20,000 events."
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        """With the names, looked up so that deleted Myses are not left out."""
        return with_names(super().get_queryset(request))

    @admin.display(description="Mysis", ordering="mysis_id")
    def mysis_name(self, row: Event) -> str:
        """Its name; empty where it concerns all of them."""
        return named(row) if row.mysis_id is not None else ""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """In the text of the data; no further back than an answer may take."""
        wanted = search_term.replace("\x00", "").strip()
        if not wanted:
            return queryset, False
        newest = Event.objects.aggregate(last=Max("pk"))["last"] or 0
        recent = queryset.filter(pk__gt=newest - SEARCHED_EVENTS)
        texts = recent.annotate(text=Cast("data", TextField()))
        return texts.filter(text__icontains=wanted), False


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


@admin.register(UnknownOutcome)
class UnknownAdmin(ReadOnlyAdmin[UnknownOutcome]):
    """Actions of which nobody knows yet whether they happened."""

    list_display = ("mysis", "username", "tool", "tick", "created_at")
    list_filter = (MysisFilter,)
    list_select_related = ("mysis",)
    search_fields = ("mysis__name", "username", "tool")
    ordering = ("-id",)


@admin.register(GameGate)
class GateAdmin(ReadOnlyAdmin[GameGate]):
    """Until when each game server is left alone."""

    list_display = ("host", "full_at")


@admin.register(Pin)
class PinAdmin(admin.ModelAdmin[Pin]):
    """Standing orders that no strategy may lose."""

    list_display = ("text", "mysis", "author", "created_at")
    list_select_related = ("mysis",)
    search_fields = ("text", "mysis__name")
