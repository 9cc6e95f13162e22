"""Prompts and context policies, tried on a Mysis before they are saved.

Nothing is written: the text or the values come with the form, and the context is
assembled by the function that will make the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from agents import context_inputs
from agents.actions import MAX_TEXT, ActionError
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.dashboard import context_diff
from agents.models import Mysis, Prompt
from memory.admin.records import PolicyAdmin, PolicyForm
from memory.assembly.prepare import PreparedRequest, Subject, prepare_request
from memory.context.summary_prompt import build_summary_prompt
from memory.models import ContextPolicy

NAMED = 12
# By which a request for a summary can be made of any history that is long enough.
SUMMARISING = "summary"
AT_ONCE = {"threshold": 1}
LIMIT = 2_000


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
    mysis = forms.ModelChoiceField(
        queryset=Mysis.objects.order_by("name"), required=False, label="Try it on"
    )


@dataclass(frozen=True, slots=True)
class PromptEffect:
    """One Mysis's next call with the prompt as it is, and as it would be."""

    mysis: Mysis
    uses: bool
    comparison: context_diff.Comparison
    kept: int
    system: str
    lines: tuple[context_diff.DiffLine, ...]

    @property
    def tokens(self) -> int:
        """How many tokens more each call would have; negative for fewer."""
        before, after = self.comparison.a, self.comparison.b
        return _system_tokens(after) - _system_tokens(before)

    @property
    def words(self) -> str:
        """The same in words."""
        count = f"{abs(self.tokens):,} tokens"
        return f"{count} {'fewer' if self.tokens < 0 else 'more'}"


@dataclass(frozen=True, slots=True)
class Summarised:
    """The request for a summary that a Mysis would make if it were time now.

    ``asked`` is the last message of it; ``reason`` tells why its history is none to
    be summarised yet, ``first`` and ``last`` the span otherwise.
    """

    mysis: Mysis
    asked: str
    lines: tuple[context_diff.DiffLine, ...]
    messages: int
    first: int | None
    last: int | None
    reason: str


def draft_view(
    site_admin: admin.ModelAdmin[Prompt], request: HttpRequest, pk: int | None
) -> HttpResponse:
    """The page; it takes the text by POST, since an address cannot hold it.

    ``pk`` None is a prompt that is not there yet.
    """
    prompt = get_object_or_404(Prompt, pk=pk) if pk else Prompt()
    if not _may(site_admin, request, prompt):
        raise PermissionDenied
    if request.method != "POST":
        return redirect(_back(prompt))
    users = prompt.myses.order_by("name") if prompt.pk else Mysis.objects.none()
    form = DraftForm(given(request, users))
    summarises = prompt.name == SUMMARY_PROMPT_NAME
    if summarises:
        # The template of summaries is found by its name, so it has no field for it.
        del form.fields["name"]
    page = {
        **site_admin.admin_site.each_context(request),
        "opts": site_admin.opts,
        "title": f"{prompt.name or 'A new prompt'}, before it is saved",
        "prompt": prompt,
        "back": _back(prompt),
        "form": form,
        "users": list(users[: NAMED + 1]),
        "count": users.count(),
        "named": NAMED,
        "summarises": summarises,
    }
    if form.is_valid():
        page |= _tried(prompt, form.cleaned_data["mysis"], form.cleaned_data["text"])
    return TemplateResponse(request, "admin/agents/prompt/draft.html", page)


def _may(
    site_admin: admin.ModelAdmin[Prompt], request: HttpRequest, prompt: Prompt
) -> bool:
    if prompt.pk:
        return site_admin.has_change_permission(request, prompt)
    return site_admin.has_add_permission(request)


def _back(prompt: Prompt) -> str:
    if prompt.pk:
        return reverse("admin:agents_prompt_change", args=[prompt.pk])
    return reverse("admin:agents_prompt_add")


def given(request: HttpRequest, users: QuerySet[Mysis]) -> Any:
    """What was sent; without a choice the first Mysis that is concerned."""
    sent = request.POST.copy()
    first = users.first() or Mysis.objects.order_by("name").first()
    if not sent.get("mysis") and first is not None:
        sent["mysis"] = str(first.pk)
    return sent


def _tried(prompt: Prompt, mysis: Mysis | None, text: str) -> dict[str, Any]:
    """The difference of the texts, and of what the Mysis would be sent."""
    text = _unified(text)
    current = prompt.current if prompt.pk else None
    before = current.text if current else ""
    found: dict[str, Any] = {"difference": context_diff.compare_texts(before, text)}
    if mysis is None:
        return found
    if prompt.name == SUMMARY_PROMPT_NAME:
        return {**found, "summarised": _summarised(mysis, before, text)}
    return {**found, "effect": _effect(prompt, mysis, text)}


def _unified(text: str) -> str:
    """Browsers send other line ends than are stored."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _effect(prompt: Prompt, mysis: Mysis, text: str) -> PromptEffect:
    subject = context_inputs.build_subject(mysis)
    broadcast = context_inputs.read_inputs(mysis).broadcast
    system = context_inputs.fill_prompt(text, mysis, subject.username, broadcast)
    before, after = (
        prepare_request(subject),
        prepare_request(replace(subject, system=system)),
    )
    return PromptEffect(
        mysis=mysis,
        uses=prompt.pk is not None and mysis.prompt_id == prompt.pk,
        comparison=context_diff.compare_strategies(before, after),
        kept=kept(before, after),
        system=system,
        lines=context_diff.compare_texts(subject.system or "", system),
    )


def _summarised(mysis: Mysis, before: str, text: str) -> Summarised:
    """As the runtime would ask, but without waiting for the history to be long."""
    subject = context_inputs.build_subject(mysis)
    assembly = _asking(subject, text).assembly
    wanted = assembly.summary_wanted
    limit = wanted.limit if wanted else LIMIT
    asked = build_summary_prompt(text, limit)
    return Summarised(
        mysis=mysis,
        asked=asked,
        lines=context_diff.compare_texts(build_summary_prompt(before, limit), asked),
        messages=len(wanted.request) if wanted else 0,
        first=wanted.first_id if wanted else None,
        last=wanted.last_id if wanted else None,
        reason="" if wanted else assembly.reason or "There is nothing to fold yet.",
    )


def _asking(subject: Subject, text: str) -> PreparedRequest:
    free = replace(
        subject.compaction, prompt=text, breaker_open=False, cooling_turns=0, failure=""
    )
    return prepare_request(
        replace(subject, strategy=SUMMARISING, options=AT_ONCE, compaction=free)
    )


def kept(before: PreparedRequest, after: PreparedRequest) -> int:
    """How much of the call, in per cent, a provider's cache would still know."""
    a, b = before.assembly, after.assembly
    return context_diff.compare_requests(
        a.messages, a.system, b.messages, b.system
    ).percent


def _system_tokens(column: context_diff.StrategyColumn) -> int:
    segments = column.gauge.segments if column.gauge else ()
    return sum(part.tokens for part in segments if part.category == "system")


ROWS = 60


class TriedForm(PolicyForm):
    """The values as they would be saved, and on whom to try them."""

    mysis = forms.ModelChoiceField(
        queryset=Mysis.objects.order_by("name"), required=False, label="Try it on"
    )


@dataclass(frozen=True, slots=True)
class PolicyEffect:
    """One Mysis's next call as it is, and under the policy as it would be.

    ``kept`` is how much of it, in per cent, a provider's cache would still know;
    ``rest`` counts the differing messages beyond those in ``rows``.
    """

    mysis: Mysis
    uses: bool
    comparison: context_diff.Comparison
    kept: int
    rows: tuple[context_diff.ComparedMessage, ...]
    rest: int


@admin.register(ContextPolicy)
class TriedPolicyAdmin(PolicyAdmin):
    """Strategy, options and budget under a name."""

    def get_urls(self) -> list[URLPattern]:
        """The stock addresses, and those of trying a policy before it is saved."""
        view = self.admin_site.admin_view(self.draft_view)
        own = [
            path("preview/", view, name="memory_contextpolicy_preview_new"),
            path("<int:pk>/preview/", view, name="memory_contextpolicy_preview"),
        ]
        return [*own, *super().get_urls()]

    def draft_view(self, request: HttpRequest, pk: int | None = None) -> HttpResponse:
        """The page; the values come by POST, as to the form that saves them."""
        policy = get_object_or_404(ContextPolicy, pk=pk) if pk else ContextPolicy()
        changing = pk is not None and self.has_change_permission(request, policy)
        if not changing and not (pk is None and self.has_add_permission(request)):
            raise PermissionDenied
        if request.method != "POST":
            return redirect(_policy_back(pk))
        users = Mysis.objects.filter(policy_id=pk or 0).order_by("name")
        form = TriedForm(given(request, users), instance=policy)
        page = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{policy.name or 'A new policy'}, before it is saved",
            "back": _policy_back(pk),
            "form": form,
            "users": list(users[: NAMED + 1]),
            "count": users.count(),
            "named": NAMED,
        }
        if form.is_valid() and form.cleaned_data["mysis"]:
            page |= _policy_tried(form, form.cleaned_data["mysis"])
        return TemplateResponse(request, "admin/memory/contextpolicy/draft.html", page)


def _policy_back(pk: int | None) -> str:
    if pk:
        return reverse("admin:memory_contextpolicy_change", args=[pk])
    return reverse("admin:memory_contextpolicy_add")


def _policy_tried(form: TriedForm, mysis: Mysis) -> dict[str, Any]:
    try:
        return {"effect": _policy_effect(mysis, form.instance)}
    except ActionError as error:
        return {"problem": error.detail}


def _policy_effect(mysis: Mysis, policy: ContextPolicy) -> PolicyEffect:
    uses = policy.pk is not None and mysis.policy_id == policy.pk
    before = context_inputs.preview_context(mysis)
    mysis.policy = policy
    after = context_inputs.preview_context(mysis)
    comparison = context_diff.compare_strategies(before, after)
    found = [row for run in comparison.runs if not run.same for row in run.rows]
    return PolicyEffect(
        mysis=mysis,
        uses=uses,
        comparison=comparison,
        kept=kept(before, after),
        rows=tuple(found[-ROWS:]),
        rest=max(0, len(found) - ROWS),
    )
