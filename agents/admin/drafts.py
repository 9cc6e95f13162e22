"""A prompt before it is saved: who uses it, and what the next call would be.

Nothing is written: the text comes with the form, and the context is assembled by the
function that will make the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse

from agents import context
from agents.actions import MAX_TEXT
from agents.dashboard import changes, comparing, textdiff
from agents.models import Mysis, Prompt
from memory.preview import Prepared, prepare

NAMED = 12


class DraftForm(forms.Form):
    """The text as it would be saved, and on whom to try it."""

    name = forms.CharField(max_length=100, widget=forms.HiddenInput)
    text = forms.CharField(
        max_length=MAX_TEXT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 16, "class": "vLargeTextField"}),
    )
    note = forms.CharField(required=False, max_length=300)
    mysis = forms.ModelChoiceField(
        queryset=Mysis.objects.order_by("name"), required=False, label="Try it on"
    )


@dataclass(frozen=True, slots=True)
class Effect:
    """One Mysis's next call with the prompt as it is, and as it would be."""

    mysis: Mysis
    uses: bool
    comparison: comparing.Comparison
    kept: int
    system: str
    lines: tuple[textdiff.DiffLine, ...]

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


def draft_view(
    site_admin: admin.ModelAdmin[Prompt], request: HttpRequest, pk: int
) -> HttpResponse:
    """The page; it takes the text by POST, since an address cannot hold it."""
    prompt = get_object_or_404(Prompt, pk=pk)
    if not site_admin.has_change_permission(request, prompt):
        raise PermissionDenied
    if request.method != "POST":
        return redirect("admin:agents_prompt_change", pk)
    form = DraftForm(_given(request, prompt))
    current = prompt.current
    page = {
        **site_admin.admin_site.each_context(request),
        "opts": site_admin.opts,
        "title": f"{prompt.name}, before it is saved",
        "prompt": prompt,
        "form": form,
        "users": list(prompt.myses.order_by("name")[: NAMED + 1]),
        "count": prompt.myses.count(),
        "named": NAMED,
    }
    if form.is_valid():
        text = _unified(form.cleaned_data["text"])
        before = current.text if current else ""
        page["difference"] = textdiff.compare(before, text)
        page["effect"] = _effect(prompt, form.cleaned_data["mysis"], text)
    return TemplateResponse(request, "admin/agents/prompt/draft.html", page)


def _given(request: HttpRequest, prompt: Prompt) -> Any:
    """What was sent; without a choice the first Mysis that uses the prompt."""
    given = request.POST.copy()
    first = prompt.myses.order_by("name").first() or Mysis.objects.first()
    if not given.get("mysis") and first is not None:
        given["mysis"] = str(first.pk)
    return given


def _unified(text: str) -> str:
    """Browsers send other line ends than are stored."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _effect(prompt: Prompt, mysis: Mysis | None, text: str) -> Effect | None:
    if mysis is None:
        return None
    subject = context.subject_of(mysis)
    system = context.filled(text, mysis, subject.username)
    before, after = prepare(subject), prepare(replace(subject, system=system))
    return Effect(
        mysis=mysis,
        uses=mysis.prompt_id == prompt.pk,
        comparison=comparing.of(before, after),
        kept=_kept(before, after),
        system=system,
        lines=textdiff.compare(subject.system or "", system),
    )


def _kept(before: Prepared, after: Prepared) -> int:
    """How much of the call, in per cent, a provider's cache would still know."""
    a, b = before.assembly, after.assembly
    return changes.beside(a.messages, a.system, b.messages, b.system).percent


def _system_tokens(column: comparing.Column) -> int:
    segments = column.gauge.segments if column.gauge else ()
    return sum(part.tokens for part in segments if part.category == "system")
