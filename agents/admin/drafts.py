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
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from agents import context
from agents.actions import MAX_TEXT
from agents.dashboard import changes, comparing, textdiff
from agents.models import Mysis, Prompt
from agents.summarizing import SUMMARY_PROMPT_NAME
from memory.context.summary_prompt import prompt_with
from memory.preview import Prepared, Subject, prepare

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


@dataclass(frozen=True, slots=True)
class Summarised:
    """The request for a summary that a Mysis would make if it were time now.

    ``asked`` is the last message of it; ``reason`` tells why its history is none to
    be summarised yet, ``first`` and ``last`` the span otherwise.
    """

    mysis: Mysis
    asked: str
    lines: tuple[textdiff.DiffLine, ...]
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
    found: dict[str, Any] = {"difference": textdiff.compare(before, text)}
    if mysis is None:
        return found
    if prompt.name == SUMMARY_PROMPT_NAME:
        return {**found, "summarised": _summarised(mysis, before, text)}
    return {**found, "effect": _effect(prompt, mysis, text)}


def _unified(text: str) -> str:
    """Browsers send other line ends than are stored."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def _effect(prompt: Prompt, mysis: Mysis, text: str) -> Effect:
    subject = context.subject_of(mysis)
    system = context.filled(text, mysis, subject.username)
    before, after = prepare(subject), prepare(replace(subject, system=system))
    return Effect(
        mysis=mysis,
        uses=prompt.pk is not None and mysis.prompt_id == prompt.pk,
        comparison=comparing.of(before, after),
        kept=kept(before, after),
        system=system,
        lines=textdiff.compare(subject.system or "", system),
    )


def _summarised(mysis: Mysis, before: str, text: str) -> Summarised:
    """As the runtime would ask, but without waiting for the history to be long."""
    subject = context.subject_of(mysis)
    assembly = _asking(subject, text).assembly
    wanted = assembly.summary_wanted
    limit = wanted.limit if wanted else LIMIT
    asked = prompt_with(text, limit)
    return Summarised(
        mysis=mysis,
        asked=asked,
        lines=textdiff.compare(prompt_with(before, limit), asked),
        messages=len(wanted.request) if wanted else 0,
        first=wanted.first_id if wanted else None,
        last=wanted.last_id if wanted else None,
        reason="" if wanted else assembly.reason or "There is nothing to fold yet.",
    )


def _asking(subject: Subject, text: str) -> Prepared:
    free = replace(
        subject.compaction, prompt=text, breaker_open=False, cooling_turns=0, failure=""
    )
    return prepare(
        replace(subject, strategy=SUMMARISING, options=AT_ONCE, compaction=free)
    )


def kept(before: Prepared, after: Prepared) -> int:
    """How much of the call, in per cent, a provider's cache would still know."""
    a, b = before.assembly, after.assembly
    return changes.beside(a.messages, a.system, b.messages, b.system).percent


def _system_tokens(column: comparing.Column) -> int:
    segments = column.gauge.segments if column.gauge else ()
    return sum(part.tokens for part in segments if part.category == "system")
