"""Prompts and context policies, tried on a Mysis before they are saved.

Nothing is written: the text or the values come with the form, and the context is
assembled by the function that will make the call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from agents import context_inputs
from agents.actions import MAX_TEXT, ActionError
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.dashboard import context_diff
from agents.lab.prices import Prediction, predict_price
from agents.lab.retaken import Setting
from agents.llm.prompts import render_prompt
from agents.models import Mysis, Prompt
from memory.admin.audit import AuditedAdmin
from memory.admin.records import PolicyAdmin, PolicyForm
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.context.summary_prompt import build_summary_prompt
from memory.context.types import Compaction
from memory.models import ContextPolicy

M = TypeVar("M", bound=Model)
NAMED = 12
ROWS = 60
# By which a request for a summary can be made of any history that is long enough.
SUMMARISING = "summary"
AT_ONCE = {"threshold": 1}
LIMIT = 2_000
TRY_ON = forms.ModelChoiceField(
    queryset=Mysis.objects.order_by("name"), required=False, label="Try it on"
)


class DraftAdmin(AuditedAdmin[M]):
    """Rows that can be tried on a Mysis before they are saved.

    ``used_as`` is the field of a Mysis that names such a row.
    """

    used_as: ClassVar[str]
    draft_form: ClassVar[type[Any]]

    def try_draft(self, form: Any) -> dict[str, Any]:
        """What the page shows of a valid form."""
        raise NotImplementedError

    def select_users(self, pk: int | None) -> QuerySet[Mysis]:
        """The Myses that have a stored row; none for None."""
        return Mysis.objects.filter(**{f"{self.used_as}_id": pk or 0})

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.draft_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_preview"
        price = self.admin_site.admin_view(self.price_view)
        own = [
            path("preview/", view, name=f"{name}_new"),
            path("<int:pk>/preview/", view, name=name),
            path("preview/price/", price, name=f"{name}_new_price"),
            path("<int:pk>/preview/price/", price, name=f"{name}_price"),
        ]
        return [*own, *super().get_urls()]

    def draft_view(self, request: HttpRequest, pk: int | None = None) -> HttpResponse:
        """The page; it takes the values by POST, since an address cannot hold a text.

        ``pk`` None is a row that is not there yet.
        """
        row = self._find_row(request, pk)
        address = f"admin:{self.opts.app_label}_{self.opts.model_name}"
        back = reverse(f"{address}_add")
        if pk:
            back = reverse(f"{address}_change", args=[pk])
        if request.method != "POST":
            return redirect(back)
        users = self.select_users(pk).order_by("name")
        form = self.draft_form(_fill_in_mysis(request, users), instance=row)
        page = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{row.name or f'A new {self.used_as}'}, before it is saved",
            self.used_as: row,
            "back": back,
            "form": form,
            "users": list(users[: NAMED + 1]),
            "count": users.count(),
            "named": NAMED,
        }
        if form.is_valid():
            with context_inputs.previews.taken():
                page |= self.try_draft(form)
            page["price"] = self.predict_price(form, users)
        folder = f"admin/{self.opts.app_label}/{self.opts.model_name}"
        return TemplateResponse(request, f"{folder}/draft.html", page)

    def price_view(self, request: HttpRequest, pk: int | None = None) -> HttpResponse:
        """What the values of a form would cost an hour; saves nothing."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        row = self._find_row(request, pk)
        users = self.select_users(pk).order_by("name")
        form = self.draft_form(_fill_in_mysis(request, users), instance=row)
        price = self.predict_price(form, users) if form.is_valid() else None
        return TemplateResponse(request, "admin/price.html", {"price": price})

    def _find_row(self, request: HttpRequest, pk: int | None) -> Any:
        """The row, or a new one; raises Http404 and PermissionDenied."""
        row = get_object_or_404(self.model, pk=pk) if pk else self.model()
        if pk:
            allowed = self.has_change_permission(request, row)
        else:
            allowed = self.has_add_permission(request)
        if not allowed:
            raise PermissionDenied
        return row

    def predict_price(self, form: Any, users: QuerySet[Mysis]) -> Prediction | None:
        """The last hour of all who have such a row, else of whom it is tried on."""
        chosen = form.cleaned_data["mysis"]
        rows = users.select_related("account", "policy", "prompt")
        myses = list(rows) or [chosen] * bool(chosen)
        setting = self.read_setting(form)
        return predict_price(myses, setting, timezone.now()) if setting else None

    def read_setting(self, form: Any) -> Setting | None:
        """What a valid form would set; None for what no call is sent."""
        raise NotImplementedError


def _fill_in_mysis(request: HttpRequest, users: QuerySet[Mysis]) -> Any:
    """What was sent; without a choice the first Mysis that is concerned."""
    sent = request.POST.copy()
    first = users.first() or Mysis.objects.order_by("name").first()
    if not sent.get("mysis") and first is not None:
        sent["mysis"] = str(first.pk)
    return sent


class DraftForm(forms.Form):
    """The text as it would be saved, and on whom to try it."""

    name = forms.CharField(max_length=100, required=False)
    text = forms.CharField(
        max_length=MAX_TEXT,
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 16, "class": "vLargeTextField", "dir": "auto"}
        ),
    )
    note = forms.CharField(required=False, max_length=300)
    mysis = TRY_ON

    def __init__(self, *args: Any, instance: Prompt) -> None:
        super().__init__(*args)
        self.instance = instance
        self.summarises = instance.name == SUMMARY_PROMPT_NAME
        if self.summarises:
            # The template of summaries is found by its name, so it has no field for it.
            del self.fields["name"]

    def read_text(self) -> str:
        """The text as it would be stored: browsers send other line ends."""
        text: str = self.cleaned_data["text"]
        return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def try_prompt(form: DraftForm) -> dict[str, Any]:
    """The difference of the texts, and of what the Mysis would be sent."""
    prompt, mysis = form.instance, form.cleaned_data["mysis"]
    text = form.read_text()
    current = prompt.current if prompt.pk else None
    before = current.text if current else ""
    found: dict[str, Any] = {"difference": context_diff.compare_texts(before, text)}
    if mysis is None:
        return found
    if form.summarises:
        return {**found, "summarised": _draft_summary(mysis, before, text)}
    return {**found, "effect": _measure_prompt(prompt, mysis, text)}


def read_prompt_setting(form: DraftForm) -> Setting | None:
    """The text as it would be; the template of summaries is in no call of a turn."""
    return None if form.summarises else Setting(text=form.read_text())


def _measure_prompt(prompt: Prompt, mysis: Mysis, text: str) -> dict[str, Any]:
    """A Mysis's next call with the prompt as it is, and as it would be.

    ``words`` say how many tokens more or fewer each call would have.
    """
    subject = context_inputs.build_subject(mysis)
    broadcast = context_inputs.read_inputs(mysis).broadcast
    system = render_prompt(
        text, name=mysis.name, account=subject.username, broadcast=broadcast
    )
    before = prepare_request(subject)
    after = prepare_request(replace(subject, system=system))
    comparison = context_diff.compare_strategies(before, after)
    more = _count_system_tokens(comparison.b) - _count_system_tokens(comparison.a)
    return {
        "mysis": mysis,
        "uses": prompt.pk is not None and mysis.prompt_id == prompt.pk,
        "comparison": comparison,
        "words": f"{abs(more):,} tokens {'fewer' if more < 0 else 'more'}",
        "kept": _measure_kept(before, after),
        "system": system,
        "lines": context_diff.compare_texts(subject.system or "", system),
    }


def _draft_summary(mysis: Mysis, before: str, text: str) -> dict[str, Any]:
    """The request for a summary that a Mysis would make if it were time now.

    ``asked`` is the last message of it; ``reason`` tells why its history is none to
    be summarised yet, ``first`` and ``last`` the span otherwise.
    """
    assembly = _assemble_summary(context_inputs.build_subject(mysis), text).assembly
    wanted = assembly.summary_wanted
    limit = wanted.limit if wanted else LIMIT
    asked = build_summary_prompt(text, limit)
    return {
        "mysis": mysis,
        "asked": asked,
        "lines": context_diff.compare_texts(build_summary_prompt(before, limit), asked),
        "messages": len(wanted.request) if wanted else 0,
        "first": wanted.first_id if wanted else None,
        "last": wanted.last_id if wanted else None,
        "reason": assembly.reason or "There is nothing to fold yet.",
    }


def _assemble_summary(subject: Subject, text: str) -> PreparedRequest:
    # As if it were time now, whatever it costs.
    free = Compaction(prompt=text)
    return prepare_request(
        replace(subject, strategy=SUMMARISING, options=AT_ONCE, compaction=free)
    )


def _measure_kept(before: PreparedRequest, after: PreparedRequest) -> int:
    """How much of the call, in per cent, a provider's cache would still know."""
    a, b = before.assembly, after.assembly
    return context_diff.compare_requests(
        (a.messages, a.system), (b.messages, b.system)
    ).percent


def _count_system_tokens(column: context_diff.StrategyColumn) -> int:
    segments = column.gauge.segments if column.gauge else ()
    return sum(part.tokens for part in segments if part.category == "system")


class PolicyDraftForm(PolicyForm):
    """The values as they would be saved, and on whom to try them."""

    mysis = TRY_ON


@admin.register(ContextPolicy)
class PolicyDraftAdmin(DraftAdmin[ContextPolicy], PolicyAdmin):
    """Strategy, options and budget under a name."""

    used_as = audited_as = "policy"
    draft_form = PolicyDraftForm

    def select_users(self, pk: int | None) -> QuerySet[Mysis]:
        return Mysis.select_users(pk)

    def read_setting(self, form: PolicyDraftForm) -> Setting:
        return Setting(policy=form.instance)

    def try_draft(self, form: PolicyDraftForm) -> dict[str, Any]:
        mysis = form.cleaned_data["mysis"]
        if not mysis:
            return {}
        try:
            return {"effect": _measure_policy(mysis, form.instance)}
        except ActionError as error:
            return {"problem": error.detail}


def _measure_policy(mysis: Mysis, policy: ContextPolicy) -> dict[str, Any]:
    """A Mysis's next call as it is, and under the policy as it would be.

    ``rest`` counts the differing messages beyond those in ``rows``.
    """
    uses = policy.pk is not None and mysis.effective_policy.pk == policy.pk
    before = context_inputs.assemble_preview(mysis)
    mysis.policy = policy
    after = context_inputs.assemble_preview(mysis)
    comparison = context_diff.compare_strategies(before, after)
    found = [row for run in comparison.runs if not run.same for row in run.rows]
    return {
        "mysis": mysis,
        "uses": uses,
        "comparison": comparison,
        "kept": _measure_kept(before, after),
        "rows": found[-ROWS:],
        "rest": max(0, len(found) - ROWS),
    }
