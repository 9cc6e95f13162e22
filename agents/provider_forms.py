"""Providers as people type them: a key goes only where it was given for."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from agents.llm.endpoints import find_key_destination
from agents.models import Provider
from agents.validators import KEY

PROVIDER_ERRORS = {
    "name": {"unique": "There is a provider of this name: choose another name."},
    "base_url": {
        "invalid": "This is no web address: write one such as "
        "http://127.0.0.1:11434/v1, or leave it empty."
    },
}
# What a form says of a provider that is not made yet, in the place of its number.
NEW = "new"


def secret_field(help_text: str) -> forms.CharField:
    """A field for a key: what is in it is never sent back to a browser."""
    return forms.CharField(
        label="API key",
        required=False,
        max_length=4000,
        validators=[KEY],
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=help_text,
    )


def read_held_key(row: Provider) -> dict[str, str]:
    """The key of a row, sealed, and what it was given for; it need not be saved."""
    return {name: getattr(row, name) for name in ("sealed_key", "kind", "base_url")}


class KeyedForm(forms.ModelForm[Provider]):
    """A provider whose stored key stays where the field for it is left empty.

    Not where scheme, host, port or kind change: then it must be typed again, or the
    next request would hand it to whoever is there.
    """

    key_field: ClassVar[str]

    clear_key = forms.BooleanField(label="Forget the stored key", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["base_url"] = self.instance.shown_address
        # Cleaning writes the new values into the row.
        self.held = read_held_key(self.instance)

    def clean(self) -> dict[str, Any]:
        """Ask for the key again where it would go elsewhere."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        whole = {self.key_field, "kind", "base_url"} <= values.keys()
        if not whole or not self.held["sealed_key"]:
            return values
        if values[self.key_field] or values["clear_key"]:
            return values
        before = find_key_destination(self.held["kind"], self.held["base_url"])
        if find_key_destination(values["kind"], values["base_url"]) != before:
            self.add_error(
                self.key_field,
                "The stored key was given for another address or kind, and goes to no "
                "other by itself: type the key again, or forget the stored one.",
            )
        return values


class EndpointForm(KeyedForm):
    """The first LLM endpoint; its key is written, never shown.

    ``typed`` is the held key of the form the time before: a browser does not send what
    it is not shown again. ``insist`` offers to save what could not be used yet. ``row``
    is the number of the provider that the form was opened for: it changes no other.
    """

    key_field = "key"

    key = secret_field("Stored sealed, never shown again. Ollama needs none.")
    row = forms.CharField(required=False, widget=forms.HiddenInput)
    insist = False

    class Meta:
        model = Provider
        fields = ("name", "kind", "base_url", "key", "clear_key", "default_model")
        labels = {"base_url": "Address", "default_model": "Model"}
        help_texts = {
            "name": "Your word for it: models are then named name:model.",
            "base_url": "Empty for the provider's own. With /v1 where it is "
            "OpenAI-compatible.",
            "default_model": "As the endpoint names it, for example gpt-5-nano.",
        }
        error_messages = PROVIDER_ERRORS

    def __init__(
        self, *args: Any, typed: dict[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.held = typed or self.held
        self.initial["row"] = str(self.instance.pk or NEW)
        if self.held["sealed_key"]:
            kept = "Leave it empty to keep the one that you gave."
            self.fields["key"].help_text = kept
        else:
            self.fields["clear_key"].widget = forms.HiddenInput()

    def clean_key(self) -> str:
        """Without the spaces that come with copying."""
        key: str = self.cleaned_data["key"].strip()
        return key

    def clean(self) -> dict[str, Any]:
        """Refuse what was opened for another row; seal the key into this one."""
        values = super().clean()
        if self.instance.pk is None:
            if values.get("row", NEW) not in ("", NEW):
                raise ValidationError(
                    "This provider was deleted meanwhile, so nothing was saved. Open "
                    "this step again."
                )
            if Provider.objects.exists():
                raise ValidationError(
                    "Meanwhile there is another provider, so nothing was saved. Open "
                    "this step again to see it, or add a second one in the admin."
                )
        if values.get("key"):
            self.instance.api_key = values["key"]
        else:
            forget = values["clear_key"]
            self.instance.sealed_key = "" if forget else self.held["sealed_key"]
        return values
