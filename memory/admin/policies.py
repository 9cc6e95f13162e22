"""Context policies: checked when they are saved, never in a turn."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin

from memory.context import registry
from memory.models import ContextPolicy


class PolicyForm(forms.ModelForm[ContextPolicy]):
    """A policy whose strategy exists and takes these options."""

    strategy = forms.ChoiceField()

    class Meta:
        model = ContextPolicy
        fields = ("name", "strategy", "options", "budget_tokens", "budget_reserve")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chooser = self.fields["strategy"]
        assert isinstance(chooser, forms.ChoiceField)  # noqa: S101 (for types)
        chooser.choices = [(name, name) for name in registry.names()]
        self.fields["options"].required = False
        self.fields["options"].help_text = 'As JSON, for example {"window": 30}.'

    def clean(self) -> dict[str, Any]:
        """Refuse what the strategy would refuse, at the field it concerns."""
        cleaned = super().clean() or {}
        options = cleaned.get("options")
        options = {} if options is None else options
        cleaned["options"] = options
        if not isinstance(options, dict):
            self.add_error("options", "Give a JSON object, for example {}.")
        elif "strategy" in cleaned:
            try:
                registry.validate_options(cleaned["strategy"], options)
            except (ValueError, TypeError) as error:
                self.add_error("options", str(error))
        reserve, tokens = cleaned.get("budget_reserve"), cleaned.get("budget_tokens")
        if reserve is not None and tokens is not None and reserve >= tokens:
            self.add_error("budget_reserve", "Must be smaller than the budget.")
        return cleaned


class PolicyAdmin(admin.ModelAdmin[ContextPolicy]):
    """Strategy, options and budget under a name; registered where it can be tried."""

    form = PolicyForm
    list_display = ("name", "strategy", "options", "budget_tokens", "updated_at")
    list_filter = ("strategy",)
    search_fields = ("name",)
