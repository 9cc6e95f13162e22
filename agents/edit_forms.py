"""The small forms that change a Mysis from its own page.

Each knows what its row held when it was opened, so that what somebody else changed since
is not written over unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar

from django import forms
from django.db.models import Model, QuerySet
from django.utils.text import capfirst

from agents.actions.base import MAX_TEXT, write_version
from agents.actions.settings import BUDGET_COLUMNS, SUMMARY_PROMPT_NAME
from agents.context_inputs import build_subject
from agents.forms import DEFAULT_POLICY, LinesField
from agents.llm.endpoints import resolve
from agents.llm.model_list import find_model_problem
from agents.llm.model_types import ModelError, UnknownProviderError
from agents.models import Budget, Mysis, Pin, Prompt
from memory.models import ContextPolicy

NEXT_CALL = "It counts from its next call on."


class EditForm(forms.ModelForm[Any]):
    """Some columns of a row; ``version`` is what they held when it was opened."""

    title: ClassVar[str]
    counts: ClassVar[str] = NEXT_CALL
    # What the version is written of where that is not what the fields hold.
    guarded: ClassVar[Sequence[str]] = ()
    # What the fields cannot say: warnings before it is saved all the same.
    problems: Sequence[str] = ()

    version = forms.CharField(
        required=False, max_length=20_000, widget=forms.HiddenInput
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The composer on the same page has a text too.
        super().__init__(*args, **{"auto_id": "edit-%s", **kwargs})
        self.columns = [name for name in self.fields if name != "version"]
        if self.instance.pk:
            self.initial["version"] = self.write_version(self.instance)
        self.fields[self.columns[0]].widget.attrs["autofocus"] = True

    def write_version(self, row: Model) -> str:
        """What a row holds of what the form guards, as one text."""
        return write_version(row, self.guarded or self.columns)

    @property
    def values(self) -> dict[str, Any]:
        """What was typed, by column."""
        return {name: self.cleaned_data[name] for name in self.columns}


class SettingForm(EditForm):
    """One thing that is set of a Mysis."""

    @property
    def warned(self) -> str:
        """What the problems are about: who insists, insists on this alone."""
        return self.write_version(self.instance)

    def find_problems(self, mysis: Mysis) -> list[str]:
        """Why what was typed may not work; it can be saved all the same."""
        return []


class ModelNameForm(SettingForm):
    title = "Model"
    counts = "It counts from its next turn on."

    class Meta:
        model = Mysis
        fields = ("model",)
        help_texts = {
            "model": "provider:model, as in openai:gpt-5-nano, or a provider alone for "
            "its default. “pilot” costs nothing."
        }
        widgets = {
            "model": forms.TextInput(
                attrs={
                    "list": "model-names",
                    "spellcheck": "false",
                    "autocapitalize": "off",
                    "autocomplete": "off",
                }
            )
        }

    def find_problems(self, mysis: Mysis) -> list[str]:
        model = self.cleaned_data["model"]
        try:
            found = [find_model_problem(model), find_room_problem(mysis, model)]
        except UnknownProviderError:
            # Refused when it is saved, at its field.
            return []
        return [problem for problem in found if problem]


def find_room_problem(mysis: Mysis, model: str) -> str:
    """That a call of this model would have no room for the tools; empty where it has."""
    try:
        endpoint = resolve(model)
    except ModelError:
        return ""
    tried = copy(mysis)
    tried.model = model
    subject = build_subject(tried, endpoint=endpoint)
    room = subject.budget.tokens - subject.budget.reserve
    if subject.tools_tokens < room:
        return ""
    known = "" if endpoint.window_source != "unknown" else ", which is a guess"
    return (
        f"There is no room for the tools: they take {subject.tools_tokens:,} tokens, and "
        f"a call has {room:,} of a window of {endpoint.window:,}{known}. Give it a "
        "policy with tools on demand, or set the window of the provider."
    )


class PromptForm(SettingForm):
    title = "Prompt"

    class Meta:
        model = Mysis
        fields = ("prompt",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        orders = Prompt.objects.exclude(name=SUMMARY_PROMPT_NAME).order_by("name")
        _set_choices(self.fields["prompt"], orders, "the built-in prompt")


class PolicyForm(SettingForm):
    title = "Policy"

    class Meta:
        model = Mysis
        fields = ("policy",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policies = ContextPolicy.objects.order_by("name")
        _set_choices(self.fields["policy"], policies, capfirst(str(DEFAULT_POLICY)))


def _set_choices(field: forms.Field, rows: QuerySet[Any], nothing: str) -> None:
    assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 (for types)
    field.queryset = rows
    field.empty_label = nothing


class GroupForm(SettingForm):
    title = "Group and tags"

    class Meta:
        model = Mysis
        fields = ("group", "tags")
        help_texts = {
            "group": "One word: budgets, broadcasts and the chips on Fleet name it.",
            "tags": "Words with commas between, to find and to address it by.",
        }
        widgets = {
            "group": forms.TextInput(
                attrs={"list": "group-names", "dir": "auto", "autocomplete": "off"}
            )
        }


class PinForm(forms.Form):
    """A new standing order."""

    title = "Standing orders"
    counts = NEXT_CALL

    text = LinesField(
        label="New order",
        max_length=MAX_TEXT,
        help_text="Always in the context, word for word.",
        widget=forms.Textarea(attrs={"rows": 3, "dir": "auto", "autofocus": True}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "edit-%s", **kwargs})


class PinTextForm(EditForm):
    """The text of a standing order; saved, it is a new one in the place of the old."""

    title = "Standing order"
    counts = f"The text as it was is kept as superseded. {NEXT_CALL}"

    # The text itself may be long.
    guarded = ("digest",)

    text = LinesField(
        label="Order",
        max_length=MAX_TEXT,
        help_text="Always in the context, word for word.",
        widget=forms.Textarea(attrs={"rows": 5, "dir": "auto"}),
    )

    class Meta:
        model = Pin
        fields = ("text",)


class BudgetForm(EditForm):
    title = "Budget"

    class Meta:
        model = Budget
        fields = BUDGET_COLUMNS
        help_texts = {
            "tokens": "Of requests and answers together; empty for no limit.",
            "cost": "Empty for no limit.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cost = self.instance.cost
        if cost is not None:
            # As it was typed: "2" is stored as 2.000000.
            self.initial["cost"] = f"{cost.normalize():f}"
        self.fields["tokens"].widget.attrs["min"] = 0
        self.fields["cost"].widget.attrs |= {"min": 0, "step": "any"}
