"""Budgets in the admin: through the same actions as over REST."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import actions
from agents.budgets import all_standings, warnings_of
from agents.models import Budget, BudgetSpend
from memory.admin.readonly import ReadOnlyAdmin


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
