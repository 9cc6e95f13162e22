"""Myses in the admin: edit, start, stop, and preview the next context.

The preview shows every message of the next call, and why. Its parameters come by GET,
nothing is written, and it is assembled by the function that will make the call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone

from agents import actions, context_inputs
from agents.actions.base import ActionError, act_on_each, check_text, name_operator
from agents.actions.pins import delete_pin, save_pin
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.dashboard import context
from agents.forms import list_strategies
from agents.lab.prices import PRICED, predict_price
from agents.lab.retaken import Setting
from agents.models import Mysis, Pin, Prompt
from memory.admin.read_only import MaskedSearchAdmin, NewestValuesFilter
from memory.context.types import Budget

SMALLEST_BUDGET = 100


class OptionsField(forms.JSONField):
    """JSON that may be left out; the stock field would show null for that."""

    def prepare_value(self, value: Any) -> Any:
        return "" if value in (None, "") else super().prepare_value(value)


class PreviewForm(forms.Form):
    """What to try instead of the Mysis's own policy."""

    strategy = forms.ChoiceField(
        required=False, choices=partial(list_strategies, "as the policy says")
    )
    options = OptionsField(
        required=False,
        widget=forms.TextInput,
        help_text='As JSON, for example {"window": 10}.',
    )
    budget = forms.IntegerField(
        required=False, min_value=SMALLEST_BUDGET, label="Budget (tokens)"
    )

    def clean_options(self) -> dict[str, Any] | None:
        """A JSON object or nothing."""
        options = self.cleaned_data["options"]
        if options in (None, ""):
            return None
        if not isinstance(options, dict):
            raise forms.ValidationError("Give a JSON object, for example {}.")
        return options

    def clean_budget(self) -> Budget | None:
        """The budget of so many tokens, with the usual reserve."""
        tokens = self.cleaned_data["budget"]
        if tokens is None:
            return None
        share = tokens // context_inputs.RESERVE_SHARE
        return Budget(tokens, min(context_inputs.RESERVE, share))


def _try_variant(mysis: Mysis, form: PreviewForm) -> dict[str, Any]:
    wanted = form.cleaned_data
    try:
        prepared = context_inputs.preview_context(
            mysis,
            strategy=wanted["strategy"] or None,
            options=wanted["options"],
            budget=wanted["budget"],
        )
    except ActionError as error:
        return {"problem": error.detail}
    shown = context.show_preview(prepared)
    sent, system = shown.payload
    raw = sent if system is None else {"system": system, "messages": sent}
    return {
        "prepared": prepared,
        "assembly": prepared.assembly,
        "lines": [(block, _write_block(block)) for block in shown.blocks],
        "left_out": [x for x in shown.ledger if x.disposition != "kept"],
        "categories": shown.document["stats"]["tokens_by_category"].items(),
        "raw": json.dumps(raw, indent=2, ensure_ascii=False),
    }


def _write_block(block: context.Block) -> str:
    """What a message says, and its calls with every argument."""
    calls = [
        f"{call['function']['name']}({call['function']['arguments']})"
        for call in block.message.get("tool_calls", [])
    ]
    return "\n".join(part for part in (block.content, *calls) if part)


EDITABLE = (
    "name",
    "model",
    "model_settings",
    "prompt",
    "policy",
    "max_iterations",
    "messaging",
    "group",
    "tags",
)
SHOWN = ("activity", "hold", "stuck", "last_error", "nudges")
AFTERWARDS = ("model_settings", "messaging", "group", "tags")


# What Django asks of a deletion: rows, their counts, missing permissions, protected rows.
Deletion = tuple[list[Any], dict[str, int], set[str], list[Any]]


def summarise_deletion(objs: Any, also: str) -> Deletion:
    """What Django's confirmation page of a deletion shows, without reading every row."""
    rows = list(objs)
    name = rows[0]._meta.verbose_name_plural if rows else "rows"
    return [f"{row}, with {also}" for row in rows], {str(name): len(rows)}, set(), []


class PinForm(forms.ModelForm[Pin]):
    """A standing order; without a state it is active."""

    class Meta:
        model = Pin
        fields = ("text", "state")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["state"].required = False

    def clean_text(self) -> str:
        """Refuse a text that the actions refuse, at its field."""
        try:
            return check_text(self.cleaned_data["text"], "A pin")
        except ActionError as error:
            raise forms.ValidationError(error.detail) from error

    def clean_state(self) -> str:
        return self.cleaned_data["state"] or Pin.State.ACTIVE


class PinFormSet(BaseInlineFormSet[Pin, Mysis, forms.ModelForm[Pin]]):
    """The standing orders of one Mysis, of which none stands twice."""

    def clean(self) -> None:
        """Refuse the second of two orders that say the same, at its text."""
        super().clean()
        seen = set()
        for form in self.forms:
            wanted = getattr(form, "cleaned_data", {})
            text = wanted.get("text")
            stands = wanted.get("state") in Pin.STANDING and not wanted.get("DELETE")
            if text and stands and text in seen:
                form.add_error("text", "This order stands already.")
            seen |= {text} if stands else set()


class PinInline(admin.TabularInline[Pin, Mysis]):
    """The standing orders of one Mysis."""

    model = Pin
    form = PinForm
    formset = PinFormSet
    extra = 0
    fields = ("text", "state", "hash")
    readonly_fields = ("hash",)

    @admin.display(description="SHA-256")
    def hash(self, row: Pin) -> str:
        return row.known_hash[:12] if row.pk else ""


class MysisForm(forms.ModelForm[Mysis]):
    """A Mysis whose provider exists."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "prompt" in self.fields:
            orders = Prompt.objects.exclude(name=SUMMARY_PROMPT_NAME)
            self.fields["prompt"].queryset = orders  # type: ignore[attr-defined]

    def clean_model(self) -> str:
        """Refuse a provider that is not configured, at its field."""
        model: str = self.cleaned_data["model"].strip()
        try:
            actions.check_provider(model)
        except ActionError as error:
            raise forms.ValidationError(error.detail) from error
        return model


class TagFilter(admin.SimpleListFilter):
    """By a tag; one Mysis may have several."""

    title = "tag"
    parameter_name = "tag"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(tag, tag) for tag in Mysis.list_tags()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        tag = self.value()
        return queryset.filter(tags__contains=[tag]) if tag else queryset


PriceForm = forms.modelform_factory(Mysis, fields=PRICED)


@admin.register(Mysis)
class MysisAdmin(MaskedSearchAdmin[Mysis]):
    """The fleet, through the same actions as the dashboard."""

    form = MysisForm
    list_display = (
        "name",
        "state",
        "model",
        "prompt",
        "policy",
        "account",
        "turn_count",
        "spent",
        "last_memory_at",
    )
    list_filter = (
        "state",
        ("group", NewestValuesFilter),
        TagFilter,
        "policy",
        "prompt",
    )
    list_select_related = ("policy", "account", "prompt")
    search_fields = ("name", "model")
    fields = (*EDITABLE, "state", "account", *SHOWN)
    readonly_fields = ("state", "account", *SHOWN)
    inlines = (PinInline,)
    actions = ("start_selected", "stop_selected")
    ordering = ("name",)
    view_on_site = False

    @admin.display(description="cost", ordering="cost")
    def spent(self, row: Mysis) -> str:
        """In US dollars."""
        return f"${row.cost:,.4f}"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.preview_view)
        price = self.admin_site.admin_view(self.price_view)
        own = [
            path("<int:pk>/preview/", view, name="agents_mysis_preview"),
            path("<int:pk>/price/", price, name="agents_mysis_price"),
        ]
        return [*own, *super().get_urls()]

    def price_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """What model, prompt and policy of a form would cost an hour; saves nothing."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        mysis = get_object_or_404(Mysis.objects.select_related(*PRICED[1:]), pk=pk)
        if not self.has_change_permission(request, mysis):
            raise PermissionDenied
        form = PriceForm(request.POST, instance=copy(mysis))
        price = None
        if form.is_valid():
            changed = {name: form.cleaned_data[name] for name in form.changed_data}
            price = predict_price([mysis], Setting(**changed), timezone.now())
        return TemplateResponse(request, "admin/price.html", {"price": price})

    def preview_view(self, request: HttpRequest, pk: int) -> TemplateResponse:
        """What the next call of this Mysis would be sent."""
        mysis = get_object_or_404(Mysis, pk=pk)
        if not self.has_view_permission(request, mysis):
            raise PermissionDenied
        form = PreviewForm(request.GET)
        page = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Next context of {mysis.name}",
            "mysis": mysis,
            "form": form,
        }
        if form.is_valid():
            page |= _try_variant(mysis, form)
        return TemplateResponse(request, "admin/agents/mysis/preview.html", page)

    def save_model(
        self, request: HttpRequest, obj: Mysis, form: Any, change: bool
    ) -> None:
        """Create or change through the actions, which write the events."""
        values = {field: form.cleaned_data[field] for field in EDITABLE}
        by = name_operator(request)
        if change:
            actions.update_mysis(mysis=obj, by=by, **values)
            return
        more = {field: values.pop(field) for field in AFTERWARDS}
        made = actions.create_mysis(by=by, **values)
        obj.pk = made.pk
        if any(more.values()):
            actions.update_mysis(mysis=made, by=by, **more)

    def save_formset(
        self, request: HttpRequest, form: Any, formset: Any, change: bool
    ) -> None:
        """Save pins through the actions; say which were refused meanwhile."""
        by = name_operator(request)
        changed = formset.save(commit=False)
        for gone in formset.deleted_objects:
            delete_pin(pin=gone, by=by)
        for pin in changed:
            try:
                save_pin(pin=pin, by=by)
            except ActionError as error:
                self.message_user(request, error.detail, messages.ERROR)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Deletion:
        """What is deleted with it; a long history is not listed row by row."""
        return summarise_deletion(objs, "its turns, messages and contexts")

    def delete_model(self, request: HttpRequest, obj: Mysis) -> None:
        actions.delete_mysis(mysis=obj, by=name_operator(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Mysis]) -> None:
        for mysis in queryset:
            actions.delete_mysis(mysis=mysis, by=name_operator(request))

    @admin.action(description="Start the selected Myses")
    def start_selected(self, request: HttpRequest, queryset: QuerySet[Mysis]) -> None:
        """Start each; name those that could not be started."""
        self._each(request, queryset, actions.start_mysis, "Started")

    @admin.action(description="Stop the selected Myses")
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Mysis]) -> None:
        self._each(request, queryset, actions.stop_mysis, "Stopped")

    def _each(
        self,
        request: HttpRequest,
        queryset: QuerySet[Mysis],
        action: Callable[..., Mysis],
        verb: str,
    ) -> None:
        act = partial(action, by=name_operator(request))
        done, refused = act_on_each(act, queryset)
        for words in refused:
            self.message_user(request, words, messages.WARNING)
        if done:
            self.message_user(request, f"{verb} {done}.", messages.SUCCESS)
