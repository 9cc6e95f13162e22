"""What is set for the whole fleet, in the admin: summaries in use, tools, budgets."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import actions
from agents.actions.base import ActionError, name_operator
from agents.budgets import find_price_warnings, read_budget_statuses
from agents.models import Budget, ToolPolicy
from memory.admin.audit import AuditedAdmin
from memory.admin.read_only import MaskedSearchAdmin, MysisFilter, ReadOnlyAdmin
from memory.models import HistorySummary


@admin.register(HistorySummary)
class SummaryAdmin(ReadOnlyAdmin[HistorySummary]):
    """Summaries of parts of histories, and why some could not be made."""

    list_display = (
        *("mysis", "generation", "first_id", "through_id"),
        *("tokens_before", "tokens_after"),
        *("status", "attempts", "cost", "error", "created_at"),
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
        """Use the older summary, or the history itself, from the next call on."""
        for row in chosen.order_by("-generation"):
            try:
                older = actions.take_back_summary(
                    summary=row, by=name_operator(request)
                )
            except ActionError as error:
                self.message_user(request, f"{row}: {error}", messages.ERROR)
                continue
            instead = f"summary {older.generation}" if older else "the history itself"
            self.message_user(request, f"{row} is taken back; {instead} is used again.")

    @admin.action(description="Clear failures: try again soon", permissions=["manage"])
    def try_again(self, request: HttpRequest, chosen: QuerySet[HistorySummary]) -> None:
        """Clear failures, so that breaker and cool-down end."""
        number = actions.clear_failed_summaries(
            chosen=chosen, by=name_operator(request)
        )
        self.message_user(request, f"{number} failures are cleared.")

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Whether the user may take back summaries: who may change them."""
        return request.user.has_perm("memory.change_historysummary")


@admin.register(ToolPolicy)
class ToolPolicyAdmin(AuditedAdmin[ToolPolicy]):
    """What tools count as, set by hand for the whole fleet."""

    audited_as = "tool_policy"
    list_display = ("tool", "policy", "updated_at")
    list_filter = ("policy",)
    search_fields = ("tool",)
    fields = ("tool", "policy")
    ordering = ("tool",)


class BudgetForm(forms.ModelForm[Budget]):
    """A budget; the page shows the field that its scope needs, and hides the others."""

    def clean(self) -> dict[str, Any]:
        """Without what belongs to another scope: nobody sees that it is there."""
        found: dict[str, Any] = super().clean() or self.cleaned_data
        wanted = Budget.TARGETS.get(found.get("scope", ""))
        others = {"mysis": None, "policy": None, "label": ""}
        others.pop(wanted or "", None)
        return found | others


@admin.register(Budget)
class BudgetAdmin(MaskedSearchAdmin[Budget]):
    """Hard limits of tokens and money; they stop the next call before it is made."""

    form = BudgetForm
    list_display = ("name", "scope", "whom", "period", "tokens", "cost", "spent")
    list_filter = ("scope", "period")
    list_select_related = ("mysis", "policy")
    search_fields = ("name", "label", "mysis__name")
    fields = ("name", "scope", "mysis", "policy", "label", "period", "tokens", "cost")
    ordering = ("name",)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """The list, with what was spent read for all rows at once."""
        found = super().get_changelist_instance(request)
        rows = list(found.result_list)
        for row, status in zip(rows, read_budget_statuses(rows), strict=True):
            row.status_spent = status.spent
        found.result_list = rows
        return found

    @admin.display(description="of")
    def whom(self, row: Budget) -> str:
        """The Mysis, group, policy or provider."""
        return row.target or ""

    @admin.display(description="spent, calls under way included")
    def spent(self, row: Budget) -> str:
        """Tokens and US dollars; a budget for each Mysis has no one sum."""
        spent = (
            getattr(row, "status_spent", None) or read_budget_statuses([row])[0].spent
        )
        text = f"{spent.tokens:,} tokens, ${spent.cost:,.4f}" if spent else "by Mysis"
        warning = find_price_warnings([row]).get(row.pk)
        return f"{text}. {warning}" if warning else text

    def save_model(
        self, request: HttpRequest, obj: Budget, form: Any, change: bool
    ) -> None:
        """Save through the action; Myses that it held get a turn."""
        actions.save_budget(budget=obj)
        if warning := find_price_warnings([obj]).get(obj.pk):
            messages.warning(request, warning)

    def delete_model(self, request: HttpRequest, obj: Budget) -> None:
        actions.delete_budget(budget=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Budget]) -> None:
        for budget in queryset:
            actions.delete_budget(budget=budget)
