"""Prompts in the admin: every edit is a new version, and any version can come back."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from agents import actions
from agents.actions.base import ActionError, name_operator
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.admin.drafts import (
    DraftAdmin,
    DraftForm,
    read_prompt_setting,
    try_prompt,
)
from agents.admin.myses import Deletion, summarise_deletion
from agents.dashboard import context_diff
from agents.models import Prompt, PromptVersion

SUMMARY_HELP = (
    "What a summary of a history is to hold. The rules of the answer are added when "
    "it is asked for; nothing is filled in."
)


class PromptForm(forms.ModelForm[Prompt]):
    """The name, and the text of the next version."""

    text = forms.CharField(
        widget=forms.Textarea(
            attrs={"rows": 24, "class": "vLargeTextField", "dir": "auto"}
        ),
        max_length=actions.MAX_TEXT,
        strip=False,
        help_text="{{ name }}, {{ account }} and {{ broadcast }} are filled in "
        "when a call is made.",
    )
    note = forms.CharField(
        required=False,
        max_length=300,
        widget=forms.TextInput(attrs={"class": "vTextField", "dir": "auto"}),
        help_text="What changed, and why.",
    )

    class Meta:
        model = Prompt
        fields = ("name",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        current = self.instance.current if self.instance.pk else None
        if current is not None:
            self.fields["text"].initial = current.text
        if self.instance.name == SUMMARY_PROMPT_NAME:
            self.fields["text"].help_text = SUMMARY_HELP

    def clean_text(self) -> str:
        """The text as it is stored: browsers send other line ends."""
        try:
            return actions.check_text(self.cleaned_data["text"], "The prompt")
        except ActionError as error:
            raise forms.ValidationError(error.detail) from error


@admin.register(Prompt)
class PromptAdmin(DraftAdmin[Prompt]):
    """System prompts. The newest version is what every next call is sent (A10)."""

    form = PromptForm
    used_as = audited_as = "prompt"
    draft_form = DraftForm
    try_draft = staticmethod(try_prompt)
    read_setting = staticmethod(read_prompt_setting)
    list_display = ("name", "version", "users", "created_at")
    search_fields = ("name", "versions__text")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Prompt]:
        """The rows with the newest version's number and the users, by two queries."""
        rows = super().get_queryset(request)
        newest = PromptVersion.objects.filter(prompt=OuterRef("pk")).order_by("-number")
        number = Subquery(newest.values("number")[:1])
        return rows.annotate(newest=number).prefetch_related("myses")

    @admin.display(description="version")
    def version(self, row: Prompt) -> int:
        return getattr(row, "newest", None) or 0

    @admin.display(description="used by")
    def users(self, row: Prompt) -> str:
        if row.name == SUMMARY_PROMPT_NAME:
            return "every summary"
        names = sorted(mysis.name for mysis in row.myses.all())[:6]
        return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")

    def get_readonly_fields(
        self, request: HttpRequest, obj: Prompt | None = None
    ) -> tuple[str, ...]:
        """The prompt for summaries is found by its name, which is read-only."""
        return ("name",) if obj and obj.name == SUMMARY_PROMPT_NAME else ()

    def get_urls(self) -> list[URLPattern]:
        own = [
            path(
                f"<int:pk>/{name}/<int:number>/",
                self.admin_site.admin_view(view),
                name=f"agents_prompt_{name}",
            )
            for name, view in (
                ("diff", self.diff_view),
                ("rollback", self.rollback_view),
            )
        ]
        return [*own, *super().get_urls()]

    def save_model(
        self, request: HttpRequest, obj: Prompt, form: Any, change: bool
    ) -> None:
        """Save the name, and a new version if the text has changed."""
        super().save_model(request, obj, form, change)
        text = form.cleaned_data["text"]
        current = obj.current
        if current is None or text != current.text:
            actions.save_prompt(
                prompt=obj,
                text=text,
                by=name_operator(request),
                note=form.cleaned_data["note"],
            )

    def record_form(self, form: Any) -> None:
        """Another name alone: the action tells of the versions, also of the first."""
        if form.audited:
            super().record_form(form)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Deletion:
        """What is deleted with it; a prompt that a Mysis uses is protected."""
        listed, counts, lacking, _ = summarise_deletion(objs, "all its versions")
        used = [f"{m.name} uses it" for p in objs for m in p.myses.all()[:20]]
        return listed, counts, lacking, used

    def diff_view(self, request: HttpRequest, pk: int, number: int) -> HttpResponse:
        """Compare a version with the one before it and with the current one."""
        prompt = get_object_or_404(Prompt, pk=pk)
        if not self.has_view_permission(request, prompt):
            raise PermissionDenied
        version = get_object_or_404(PromptVersion, prompt=prompt, number=number)
        before = prompt.versions.filter(number=number - 1).first()
        current = prompt.current
        page = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"{prompt.name}, version {number}",
            "prompt": prompt,
            "version": version,
            "current": current,
            "since_before": context_diff.compare_texts(
                before.text if before else "", version.text
            ),
            "to_current": context_diff.compare_texts(version.text, current.text)
            if current
            else (),
            "may_change": self.has_change_permission(request, prompt),
        }
        return TemplateResponse(request, "admin/agents/prompt/diff.html", page)

    def rollback_view(self, request: HttpRequest, pk: int, number: int) -> HttpResponse:
        """Make an old version current again, as a new one."""
        prompt = get_object_or_404(Prompt, pk=pk)
        if not self.has_change_permission(request, prompt):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        get_object_or_404(PromptVersion, prompt=prompt, number=number)
        try:
            made = actions.rollback_prompt(
                prompt=prompt, number=number, by=name_operator(request)
            )
        except ActionError as error:
            self.message_user(request, error.detail, messages.WARNING)
        else:
            words = f"Version {number} is current again, as version {made.number}."
            self.message_user(request, words, messages.SUCCESS)
        return redirect("admin:agents_prompt_change", pk)
