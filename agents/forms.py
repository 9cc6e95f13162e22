"""What people type into the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django import forms
from django.utils.functional import lazy
from django.utils.http import urlencode
from django.utils.text import capfirst

from agents.actions import DEFAULT_PROMPT_NAME, MAX_TEXT, ActionError
from agents.actions.settings import SUMMARY_PROMPT_NAME
from agents.models import Mysis, Prompt
from memory.assembly.prepare import Subject
from memory.context import registry
from memory.context.offered_tools import pick_tool_options
from memory.context.sections import LONGEST_NAME, LONGEST_NOTE
from memory.context.types import TOOL_MODES, Budget
from memory.handles import parse_id
from memory.models import ContextPolicy, Origin

# The default stands first anyway, the other is for summaries and no orders.
NOT_OFFERED = (DEFAULT_PROMPT_NAME, SUMMARY_PROMPT_NAME)
# Read when a form is shown.
DEFAULT_POLICY = lazy(lambda: ContextPolicy.read_default().default_label, str)()


class MessageForm(forms.Form):
    """A message to one Mysis or several (``to``), to those ticked (``mysis``), or to all."""

    SELECTED = "selected"

    mysis = forms.Field(required=False, widget=forms.MultipleHiddenInput)
    # As many numbers as a line of the page names, with commas between.
    to = forms.CharField(required=False, max_length=10_000)
    clear = forms.BooleanField(required=False)
    text = forms.CharField(
        label="Message",
        max_length=MAX_TEXT,
        error_messages={"required": "The message is empty: write something."},
    )

    def clean_to(self) -> list[Mysis] | None:
        """Whom it is for, None for the whole fleet, or for the ``members`` named."""
        to: str = self.cleaned_data["to"]
        what, _, name = to.partition(":")
        self.members = {what: name} if name and what in ("group", "tag") else {}
        if not to or self.members:
            return None
        if to == self.SELECTED:
            ids, nobody = (
                self.cleaned_data["mysis"] or [],
                "Nobody is selected: tick some rows first.",
            )
        else:
            ids, nobody = to.split(","), "That Mysis is gone: choose another."
        found = load_chosen_myses(ids)
        if not found:
            raise forms.ValidationError(nobody)
        return found


def add_action_error(form: forms.BaseForm, error: ActionError) -> None:
    """Put an action's error at the field that it names, if it names one."""
    field, colon, words = error.detail.partition(": ")
    named = colon and field in form.fields
    form.add_error(field if named else None, words if named else error.detail)


def load_chosen_myses(ids: list[str]) -> list[Mysis]:
    """The Myses that were ticked and are still there, by name."""
    numbers = [number for text in ids if (number := parse_id(text)) is not None]
    return list(Mysis.objects.filter(pk__in=numbers).order_by("name"))


def make_name_field(
    initial: str | None = None, **attributes: object
) -> forms.CharField:
    """A name of something, as all forms ask for it."""
    return forms.CharField(
        max_length=100,
        initial=initial,
        help_text="Any language. Not a bare number; without / ? # %.",
        widget=forms.TextInput(attrs={"dir": "auto", **attributes}),
    )


def _model_field(help_text: str) -> forms.CharField:
    return forms.CharField(
        max_length=300,
        initial="pilot",
        help_text=help_text,
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
    )


def _policy_field(
    empty_label: str, **options: Any
) -> forms.ModelChoiceField[ContextPolicy]:
    rows = ContextPolicy.objects.order_by("name")
    return forms.ModelChoiceField(
        rows, required=False, empty_label=empty_label, **options
    )


def _count_field(most: int, label: str) -> forms.IntegerField:
    return forms.IntegerField(required=False, min_value=1, max_value=most, label=label)


def _share_field(label: str) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any"})
    return forms.FloatField(
        required=False, min_value=0, max_value=1, label=label, widget=widget
    )


class MysisForm(forms.Form):
    """A new Mysis. What the fields cannot know is judged by the action."""

    name = make_name_field(autofocus=True)
    model = _model_field(
        "“pilot” is the scripted pilot and costs nothing. Otherwise "
        "provider:model, as in openai:gpt-5-nano or ollama:qwen3."
    )
    prompt = forms.ModelChoiceField(
        queryset=Prompt.objects.exclude(name__in=NOT_OFFERED).order_by("name"),
        required=False,
        empty_label=f"{DEFAULT_PROMPT_NAME} (default)",
    )
    policy = _policy_field(
        capfirst(DEFAULT_POLICY),
        help_text="How its context is assembled: strategy, options, budget.",
    )
    max_iterations = forms.IntegerField(
        min_value=1, max_value=1000, initial=10, label="Model calls a turn, at most"
    )
    pins = forms.CharField(
        required=False,
        label="Standing orders",
        help_text="One a line; always in the context, word for word.",
        widget=forms.Textarea(attrs={"rows": 3, "dir": "auto"}),
    )

    def clean_pins(self) -> list[str]:
        text: str = self.cleaned_data["pins"]
        return [line.strip() for line in text.splitlines() if line.strip()]


class LinesField(forms.CharField):
    """A text with line ends as they are stored; a browser sends each as two signs."""

    def to_python(self, value: Any) -> str:
        """Join them before anything counts the text."""
        text = super().to_python(value) or ""
        return text.replace("\r\n", "\n").replace("\r", "\n")


class NoteForm(forms.Form):
    """A note of a Mysis; ``version`` is the one that it replaces, 0 for none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The composer on the same page has a text too.
        super().__init__(*args, **{"auto_id": "note-%s", **kwargs})

    name = forms.CharField(
        max_length=LONGEST_NAME, widget=forms.TextInput(attrs={"dir": "auto"})
    )
    text = LinesField(
        max_length=LONGEST_NOTE,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4, "dir": "auto"}),
    )
    version = forms.IntegerField(
        required=False,
        initial=0,
        min_value=0,
        max_value=2**31 - 1,
        widget=forms.HiddenInput,
    )


class PromptTextForm(forms.Form):
    """The orders that the first Myses get."""

    text = forms.CharField(
        max_length=MAX_TEXT,
        strip=False,
        label="System prompt",
        error_messages={
            "required": "The prompt is empty: write something, or keep what is there."
        },
        help_text="{{ name }}, {{ account }} and {{ broadcast }} are filled in "
        "when a call is made.",
        widget=forms.Textarea(attrs={"rows": 16, "dir": "auto"}),
    )


class FirstMysisForm(forms.Form):
    name = make_name_field(initial="Ada")
    model = _model_field("“pilot” is the scripted pilot and costs nothing.")
    start = forms.BooleanField(required=False, initial=True, label="Start it at once")


def list_strategies(nothing: str = "nothing") -> list[tuple[str, str]]:
    """All strategies as choices; ``nothing`` is what none of them is called."""
    return [("", nothing), *((name, name) for name in registry.list_names())]


class WhatIfForm(forms.Form):
    """What a context would be under another strategy, window, budget or list of tools.

    ``against`` is a second strategy to lay beside it, ``beside`` that one's window.
    """

    OPTIONS = ("window", "lo", "hi", "tools")

    strategy = forms.ChoiceField(required=False)
    window = _count_field(10_000, "Window, messages")
    lo = _share_field("Lower mark")
    hi = _share_field("Upper mark")
    budget = _count_field(10_000_000, "Budget, tokens")
    tools = forms.ChoiceField(
        required=False,
        choices=[("", "as it is"), *((m, m.replace("_", " ")) for m in TOOL_MODES)],
    )
    against = forms.ChoiceField(
        required=False, choices=list_strategies, label="Beside it"
    )
    beside = _count_field(10_000, "Its window")

    def __init__(self, *args: Any, own: str = "its own policy", **kwargs: Any) -> None:
        """``own`` is what its own settings are called."""
        super().__init__(*args, **kwargs)
        strategy = self.fields["strategy"]
        assert isinstance(strategy, forms.ChoiceField)  # noqa: S101 (for types)
        strategy.choices = list_strategies(own)

    def add_sliders(
        self, strategy: str, options: Mapping[str, object], tokens: int
    ) -> None:
        """Say what each number is by itself, and how far a slider beside it goes.

        What is given are the own strategy, its options, and the tokens of its budget.
        """
        used = strategy or registry.DEFAULT
        known = {name: read_numbers(name, {}) for name in registry.list_names()}
        known[used] = read_numbers(used, options)
        ends = {"window": (1, 100, 1), "lo": (0, 1, 0.01), "hi": (0, 1, 0.01)}
        for name, (least, most, step) in ends.items():
            own = {each: of[name] for each, of in known.items() if name in of}
            end = max(most, 2 * own.get(used, 0)) if name == "window" else most
            self._add_slider(name, used, own, f"{least} {end} {step}")
        ends_of_budget = f"1000 {max(32_000, 2 * tokens)} 1000"
        own = dict.fromkeys(known, tokens)
        self._add_slider("budget", used, own, ends_of_budget)
        self.fields["strategy"].widget.attrs["data-own"] = used

    def _add_slider(
        self, name: str, used: str, own: Mapping[str, float], ends: str
    ) -> None:
        """``own`` is the number by strategy; a strategy that is not in it takes none."""
        self.fields[name].widget.attrs |= {
            "data-slider": ends,
            "data-own": json.dumps(own),
            "placeholder": str(own.get(used) or ""),
        }

    def has_values(self) -> bool:
        return self.is_valid() and any(
            self.cleaned_data.get(name) not in ("", None)
            for name in ("strategy", "budget", *self.OPTIONS)
        )

    def lays_beside(self) -> bool:
        return self.is_valid() and bool(self.cleaned_data["against"])

    def read_settings(
        self, subject: Subject, *, beside: bool = False
    ) -> dict[str, Any]:
        """What an assembly takes on top of the subject's own, or that ``beside`` it."""
        given = self.cleaned_data
        strategy = given["against" if beside else "strategy"]
        found: dict[str, Any] = {}
        same = strategy in ("", subject.strategy)
        if strategy:
            found["strategy"] = strategy
        asked = {name: given[name] for name in self.OPTIONS}
        chosen = {"window": given["beside"]} if beside else asked
        chosen = {
            name: value for name, value in chosen.items() if value not in ("", None)
        }
        if chosen:
            own = subject.options if same else pick_tool_options(subject.options)
            found["options"] = {**own, **chosen}
        tokens = given["budget"]
        if tokens is not None:
            found["budget"] = Budget(tokens, min(subject.budget.reserve, tokens // 4))
        return found

    def add_refusal(self, detail: str, *, beside: bool = False) -> None:
        """Show a refusal at the field that it names."""
        name = detail.partition(":")[0].removeprefix("options.")
        if beside:
            name = "beside" if name == "window" else "against"
        self.add_error(name if name in self.fields else None, detail)

    def write_query(self) -> str:
        """What was chosen, as the query of an address."""
        given = {name: self.data.get(name) for name in self.fields}
        return urlencode({name: value for name, value in given.items() if value})


def read_numbers(strategy: str, options: Mapping[str, object]) -> dict[str, float]:
    """The numbers among a strategy's options; of an unknown strategy there are none."""
    try:
        known = registry.validate_options(strategy, options)
    except (ValueError, TypeError):
        return {}
    return {
        name: value
        for name, value in asdict(known).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


class PoliciesForm(forms.Form):
    mysis = forms.ModelChoiceField(
        queryset=Mysis.objects.order_by("name"), label="Try it on", empty_label=None
    )
    a = _policy_field("its own", label="Policy A")
    b = _policy_field(DEFAULT_POLICY, label="Policy B")


def _day_field(label: str) -> forms.DateField:
    widget = forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"})
    return forms.DateField(required=False, widget=widget, label=label)


class SearchForm(forms.Form):
    WHERE = (
        ("messages", "Messages"),
        ("reasoning", "Reasoning"),
        ("calls", "Calls"),
        ("orders", "Orders"),
        ("broadcasts", "Broadcasts"),
        ("notes", "Notes"),
        ("summaries", "Summaries"),
        ("pins", "Standing orders"),
        ("prompts", "Prompts"),
        ("events", "Events"),
        ("acts", "Acts of people"),
    )
    MODE = (("fts", "All words"), ("exact", "Exactly this text"))

    q = forms.CharField(
        label="Search for",
        max_length=500,
        widget=forms.SearchInput(attrs={"dir": "auto", "autofocus": True}),
    )
    where = forms.TypedChoiceField(
        choices=WHERE,
        required=False,
        label="In",
        empty_value="messages",
        widget=forms.HiddenInput,
    )
    mysis = forms.ModelChoiceField(
        queryset=Mysis.objects.order_by("name"),
        required=False,
        empty_label="the whole fleet",
        label="Of",
    )
    mode = forms.ChoiceField(choices=MODE, required=False, label="Match")
    origin = forms.ChoiceField(
        choices=(("", "anybody"), *Origin.choices), required=False, label="From"
    )
    since = _day_field("Since")
    until = _day_field("Until")
    before = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput
    )
    # How many hits stand before this page of them.
    passed = forms.IntegerField(
        required=False, min_value=0, max_value=10**6, widget=forms.HiddenInput
    )
