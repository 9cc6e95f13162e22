"""Summaries in the admin: read, taken back, and let be tried again."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import actions
from agents.actions import ActionError
from memory.admin.filters import MysisFilter
from memory.admin.readonly import ReadOnlyAdmin
from memory.models import HistorySummary

from .myses import asker


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
