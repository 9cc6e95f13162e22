"""Providers and game accounts in the admin: secrets can be written, never read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import linebreaksbr

from agents.encryption import SecretUnreadableError
from agents.models import Account, Provider
from agents.provider_forms import PROVIDER_ERRORS, KeyedForm, secret_field
from agents.provider_trial import try_provider
from memory import audit
from memory.admin.audit import AuditedAdmin
from memory.admin.read_only import NewestValuesFilter

# The label of the button that saves a provider and checks it.
CHECK_LABEL = "Save and check"
MAX_CHECKS = 3


class ProviderForm(KeyedForm):
    """An endpoint; an empty key field keeps the stored key."""

    key_field = "new_key"

    new_key = secret_field("Never shown. Leave empty to keep the stored key.")

    class Meta:
        model = Provider
        fields = ("name", "kind", "base_url", "default_model", "window")
        help_texts = {
            "window": "Tokens; empty: asked of the endpoint (see Asked windows), "
            "anew after each change here."
        }
        error_messages = PROVIDER_ERRORS


@admin.register(Provider)
class ProviderAdmin(AuditedAdmin[Provider]):
    """LLM endpoints; a row here wins over the environment."""

    audited_as = "provider"
    form = ProviderForm
    fields = (
        "name",
        "kind",
        "base_url",
        "new_key",
        "clear_key",
        "default_model",
        "window",
    )
    list_display = (
        "name",
        "kind",
        "shown_address",
        "default_model",
        "window",
        "has_key",
    )
    list_filter = ("kind",)
    search_fields = ("name", "base_url", "default_model")
    actions = ("check_selected",)

    @admin.display(boolean=True, description="key")
    def has_key(self, row: Provider) -> bool:
        return bool(row.sealed_key)

    def save_model(
        self, request: HttpRequest, obj: Provider, form: Any, change: bool
    ) -> None:
        """Store the row, with a new key where one was typed."""
        if form.cleaned_data["new_key"]:
            obj.api_key = form.cleaned_data["new_key"].strip()
        elif form.cleaned_data["clear_key"]:
            obj.api_key = ""
        super().save_model(request, obj, form, change)
        if request.POST.get("_continue") == CHECK_LABEL:
            request.saved_provider = obj  # type: ignore[attr-defined]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The form; after the commit, check the provider if that was asked for.

        The result decides nothing: the provider may be down for an hour.
        """
        answer = super().changeform_view(request, object_id, form_url, extra_context)
        if hasattr(request, "saved_provider"):
            self._check(request, request.saved_provider)
        return answer

    @admin.action(description="Check: ask the models for one word")
    def check_selected(
        self, request: HttpRequest, queryset: QuerySet[Provider]
    ) -> None:
        """Check one after the other, a few at most: somebody waits for it."""
        for row in queryset[:MAX_CHECKS]:
            self._check(request, row)
        if (rest := queryset.count() - MAX_CHECKS) > 0:
            words = f"{rest} more were not checked: choose {MAX_CHECKS} at most."
            self.message_user(request, words, messages.WARNING)

    def _check(self, request: HttpRequest, row: Provider) -> None:
        audit.record("provider.check", self.name_audited(row))
        trial = try_provider(row)
        if trial.good:
            self.message_user(request, trial.words, messages.SUCCESS)
        else:
            words = f"Provider {row} does not work: {trial.words}"
            self.message_user(request, words, messages.WARNING)


class AccountForm(forms.ModelForm[Account]):
    """A game account; an empty password field keeps the stored one."""

    new_password = forms.CharField(
        label="Password",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Never shown. Leave empty to keep the stored password.",
    )

    class Meta:
        model = Account
        fields = ("username", "empire", "player_id", "assigned_to")


@admin.register(Account)
class AccountAdmin(AuditedAdmin[Account]):
    """The pool of game accounts."""

    audited_as = "account"
    form = AccountForm
    list_display = ("username", "empire", "assigned_to", "in_use", "has_password")
    list_filter = (("empire", NewestValuesFilter),)
    list_select_related = ("assigned_to", "active_mysis")
    search_fields = ("username",)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Account | None = None
    ) -> list[str]:
        """The game's answer to registering, while it is all that holds the password."""
        kept = obj is not None and obj.sealed_answer
        return ["answer"] if kept and self.has_change_permission(request) else []

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Account | None:
        """The row; whoever may change it reads the answer in clear (`answer`)."""
        row = super().get_object(request, object_id, from_field)
        if row is not None and "answer" in self.get_readonly_fields(request, row):
            shown = linebreaksbr(self.answer(row))
            request.told_html = str(shown)  # type: ignore[attr-defined]
        return row

    @admin.display(description="answer to registering")
    def answer(self, row: Account) -> str:
        """In clear: the password is somewhere in it."""
        try:
            return str(row.registration_answer)
        except SecretUnreadableError as error:
            return str(error)

    @admin.display(boolean=True, description="logged in")
    def in_use(self, row: Account) -> bool:
        """Whether a Mysis plays it now."""
        return hasattr(row, "active_mysis")

    @admin.display(boolean=True, description="password")
    def has_password(self, row: Account) -> bool:
        return bool(row.sealed_password)

    def save_model(
        self, request: HttpRequest, obj: Account, form: Any, change: bool
    ) -> None:
        """Store the row; a new password voids the session of the old one."""
        if form.cleaned_data["new_password"]:
            obj.password = form.cleaned_data["new_password"].strip()
            obj.game_session = ""
            obj.registration_answer = ""
        super().save_model(request, obj, form, change)
