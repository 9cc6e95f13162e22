"""Context policies in the admin: tried on a Mysis before they are saved.

Nothing is written: the values come with the form, and the context is assembled by
the function that will make the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from agents import context
from agents.actions import ActionError
from agents.dashboard import comparing
from agents.models import Mysis
from memory.admin.policies import PolicyAdmin, PolicyForm
from memory.models import ContextPolicy

from .drafts import given, kept

NAMED = 12
ROWS = 60


class TriedForm(PolicyForm):
    """The values as they would be saved, and on whom to try them."""

    mysis = forms.ModelChoiceField(
        queryset=Mysis.objects.order_by("name"), required=False, label="Try it on"
    )


@dataclass(frozen=True, slots=True)
class Effect:
    """One Mysis's next call as it is, and under the policy as it would be.

    ``kept`` is how much of it, in per cent, a provider's cache would still know;
    ``rest`` counts the differing messages beyond those in ``rows``.
    """

    mysis: Mysis
    uses: bool
    comparison: comparing.Comparison
    kept: int
    rows: tuple[comparing.Row, ...]
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
            return redirect(_back(pk))
        users = Mysis.objects.filter(policy_id=pk or 0).order_by("name")
        form = TriedForm(given(request, users), instance=policy)
        page = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{policy.name or 'A new policy'}, before it is saved",
            "back": _back(pk),
            "form": form,
            "users": list(users[: NAMED + 1]),
            "count": users.count(),
            "named": NAMED,
        }
        if form.is_valid() and form.cleaned_data["mysis"]:
            page |= _tried(form, form.cleaned_data["mysis"])
        return TemplateResponse(request, "admin/memory/contextpolicy/draft.html", page)


def _back(pk: int | None) -> str:
    if pk:
        return reverse("admin:memory_contextpolicy_change", args=[pk])
    return reverse("admin:memory_contextpolicy_add")


def _tried(form: TriedForm, mysis: Mysis) -> dict[str, Any]:
    try:
        return {"effect": _effect(mysis, form.instance)}
    except ActionError as error:
        return {"problem": error.detail}


def _effect(mysis: Mysis, policy: ContextPolicy) -> Effect:
    uses = policy.pk is not None and mysis.policy_id == policy.pk
    before = context.preview(mysis)
    mysis.policy = policy
    after = context.preview(mysis)
    comparison = comparing.of(before, after)
    found = [row for run in comparison.runs if not run.same for row in run.rows]
    return Effect(
        mysis=mysis,
        uses=uses,
        comparison=comparison,
        kept=kept(before, after),
        rows=tuple(found[-ROWS:]),
        rest=max(0, len(found) - ROWS),
    )
