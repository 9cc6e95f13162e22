"""Providers and game accounts: their secrets can be written, never read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from agents.models import Account, Provider
from agents.windows import AskedWindow
from memory.admin.readonly import ReadOnlyAdmin


class ProviderForm(forms.ModelForm[Provider]):
    """An endpoint; an empty key field keeps the stored key."""

    new_key = forms.CharField(
        label="API key",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Never shown. Leave empty to keep the stored key.",
    )
    clear_key = forms.BooleanField(label="Forget the stored key", required=False)

    class Meta:
        model = Provider
        fields = ("name", "kind", "base_url", "default_model", "window")
        help_texts = {
            "window": "Tokens; empty: asked of the endpoint (see Asked windows), "
            "anew after each change here."
        }


@admin.register(Provider)
class ProviderAdmin(admin.ModelAdmin[Provider]):
    """LLM endpoints; a row here wins over the environment."""

    form = ProviderForm
    list_display = ("name", "kind", "base_url", "default_model", "window", "has_key")
    list_filter = ("kind",)
    search_fields = ("name", "base_url", "default_model")

    @admin.display(boolean=True, description="key")
    def has_key(self, row: Provider) -> bool:
        """Whether a key is stored."""
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


@admin.register(AskedWindow)
class WindowAdmin(ReadOnlyAdmin[AskedWindow]):
    """What endpoints said their models can read, and where a refusal named less."""

    list_display = (
        "model",
        "kind",
        "base_url",
        "tokens",
        "source",
        "asked_at",
        "limit",
        "limited_at",
    )
    list_filter = ("kind",)
    search_fields = ("model", "base_url")
    ordering = ("kind", "base_url", "model")


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
class AccountAdmin(admin.ModelAdmin[Account]):
    """The pool of game accounts."""

    form = AccountForm
    list_display = ("username", "empire", "assigned_to", "in_use", "has_password")
    list_filter = ("empire",)
    list_select_related = ("assigned_to", "active_mysis")
    search_fields = ("username",)

    @admin.display(boolean=True, description="logged in")
    def in_use(self, row: Account) -> bool:
        """Whether a Mysis plays it now."""
        return hasattr(row, "active_mysis")

    @admin.display(boolean=True, description="password")
    def has_password(self, row: Account) -> bool:
        """Whether a password is stored."""
        return bool(row.sealed_password)

    def save_model(
        self, request: HttpRequest, obj: Account, form: Any, change: bool
    ) -> None:
        """Store the row; a new password voids the session of the old one."""
        if form.cleaned_data["new_password"]:
            obj.password = form.cleaned_data["new_password"].strip()
            obj.game_session = ""
        super().save_model(request, obj, form, change)
