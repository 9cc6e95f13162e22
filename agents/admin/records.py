"""Turns, calls, events and deliveries: shown, never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import Max, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest

from agents import actions
from agents.actions import ActionError
from agents.admin.myses import asker
from agents.budgets import all_standings, warnings_of
from agents.models import (
    Broadcast,
    Budget,
    BudgetSpend,
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
from memory.admin.read_only import (
    MysisFilter,
    MysisOfTurnFilter,
    NewestValuesFilter,
    ReadOnlyAdmin,
)
from memory.models import HistorySummary

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


# SECTION Summaries in the admin: read, taken back, and let be tried again.


@admin.register(HistorySummary)
class SummaryAdmin(ReadOnlyAdmin[HistorySummary]):
    """What stands for folded parts of histories, and why some could not be made."""

    list_display = (
        "mysis",
        "generation",
        "first_id",
        "through_id",
        "tokens_before",
        "tokens_after",
        "status",
        "attempts",
        "cost",
        "error",
        "created_at",
    )
    list_filter = (MysisFilter, "status")
    list_select_related = ("mysis",)
    search_fields = ("mysis__name", "text", "error")
    ordering = ("-id",)
    actions = ("take_back", "try_again")

    @admin.action(
        description="Take back: use the summary before again", permissions=["manage"]
    )
    def take_back(self, request: HttpRequest, chosen: QuerySet[HistorySummary]) -> None:
        """Use the summary before, or the history itself, from the next call on."""
        for row in chosen.order_by("-generation"):
            try:
                older = actions.take_back_summary(summary=row, by=asker(request))
            except ActionError as error:
                self.message_user(request, f"{row}: {error}", messages.ERROR)
                continue
            instead = f"summary {older.generation}" if older else "the history itself"
            self.message_user(request, f"{row} is taken back; {instead} is used again.")

    @admin.action(description="Clear failures: try again soon", permissions=["manage"])
    def try_again(self, request: HttpRequest, chosen: QuerySet[HistorySummary]) -> None:
        """Let failures count no more, so that breaker and cool-down end."""
        number = actions.clear_failed_summaries(chosen=chosen, by=asker(request))
        self.message_user(request, f"{number} failures are cleared.")

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Who may change a history may also take its summary back."""
        return request.user.has_perm("memory.change_historysummary")


# SECTION Budgets in the admin: through the same actions as over REST.


@admin.register(Budget)
class BudgetAdmin(admin.ModelAdmin[Budget]):
    """Hard limits of tokens and money; they stop the next call before it is made."""

    list_display = ("name", "scope", "whom", "period", "tokens", "cost", "spent")
    list_filter = ("scope", "period")
    list_select_related = ("mysis", "policy")
    search_fields = ("name", "label", "mysis__name")
    fields = ("name", "scope", "mysis", "policy", "label", "period", "tokens", "cost")
    ordering = ("name",)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list, with what was spent read for all its rows at once."""
        found = super().get_changelist_instance(request)
        rows = list(found.result_list)
        for row, standing in zip(rows, all_standings(rows), strict=True):
            row.told = standing.spent
        found.result_list = rows
        return found

    @admin.display(description="of")
    def whom(self, row: Budget) -> str:
        """The Mysis, group, policy or provider."""
        return row.target or ""

    @admin.display(description="spent, calls under way included")
    def spent(self, row: Budget) -> str:
        """Tokens and US dollars; a budget of each Mysis has no one sum."""
        spent = getattr(row, "told", None) or all_standings([row])[0].spent
        said = f"{spent.tokens:,} tokens, ${spent.cost:,.4f}" if spent else "by Mysis"
        return (
            f"{said}. {missed}" if (missed := warnings_of([row]).get(row.pk)) else said
        )

    def save_model(
        self, request: HttpRequest, obj: Budget, form: Any, change: bool
    ) -> None:
        """Save through the action: whom it held looks again."""
        actions.save_budget(budget=obj)
        if missed := warnings_of([obj]).get(obj.pk):
            messages.warning(request, missed)

    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        """Delete through the action."""
        actions.delete_budget(budget=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Budget]) -> None:
        """Delete each through the action."""
        for budget in queryset:
            actions.delete_budget(budget=budget)


@admin.register(BudgetSpend)
class SpendAdmin(ReadOnlyAdmin[BudgetSpend]):
    """The counters: one a budget, and for a budget of each one a Mysis."""

    list_display = ("budget", "subject", "day", "tokens", "cost")
    list_filter = ("budget",)
    list_select_related = ("budget",)
    ordering = ("budget", "subject")
