"""The forms that ask for a replay and for a rewind."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from agents.actions import MAX_TEXT, ActionError
from agents.forms import list_strategies
from agents.lab.kept_replays import start_replay
from agents.lab.policies import Given, read_policies
from agents.lab.rewind import MOST_STEPS, USUAL_STEPS, RewindSettings
from agents.models import Mysis, Replay
from memory.context import registry
from memory.context.types import Budget
from memory.models import ContextPolicy

FLEET = "the whole fleet"


def _moment_field(label: str, help_text: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(
        format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}
    )
    return forms.DateTimeField(
        required=False, widget=widget, label=label, help_text=help_text
    )


class ReplayForm(forms.Form):
    """What to replay. A policy that is not stored has a strategy, else there is none."""

    whom = forms.ChoiceField(required=False, label="Calls of")
    since = _moment_field("Since (UTC)", "Empty for all that is kept.")
    until = _moment_field("Until (UTC)", "Empty for now.")
    policies = forms.ModelMultipleChoiceField(
        queryset=ContextPolicy.objects.order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Beside the policy that each call was made under.",
    )
    strategy = forms.ChoiceField(
        required=False, choices=lambda: list_strategies("none")
    )
    options = forms.CharField(
        required=False,
        max_length=4_000,
        help_text='A JSON object such as {"window": 20}; empty for the defaults.',
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    budget = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=2**31 - 1,
        label="Budget, tokens",
        help_text="Empty for that of each call.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        whom = self.fields["whom"]
        assert isinstance(whom, forms.ChoiceField)  # noqa: S101 (for types)
        whom.choices = _list_subjects()

    def clean_options(self) -> dict[str, Any]:
        try:
            given = json.loads(self.cleaned_data["options"] or "{}")
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise ValidationError('Give a JSON object such as {"window": 20}.')
        return given

    def clean(self) -> None:
        given = self.cleaned_data
        strategy = given.get("strategy")
        if strategy and "options" in given:
            try:
                registry.validate_options(strategy, given["options"])
            except (ValueError, TypeError) as error:
                self.add_error("options", str(error))
        if not strategy and (given.get("options") or given.get("budget")):
            self.add_error("strategy", "Choose the strategy that these are for.")
        since, until = given.get("since"), given.get("until")
        if since and until and since >= until:
            self.add_error("until", "Give a moment after the first.")

    def list_columns(self) -> list[forms.BoundField]:
        """The fields that stand beside each other."""
        return [self[name] for name in ("whom", "since", "until")]

    def list_unstored(self) -> list[forms.BoundField]:
        """The fields of the policy that is not stored."""
        return [self[name] for name in ("strategy", "options", "budget")]

    @property
    def describes_one(self) -> bool:
        """Whether anything was typed of a policy that is not stored."""
        return any(field.value() for field in self.list_unstored())

    def start(self, *, by: str) -> Replay:
        """Ask for the replay; raises ActionError where it cannot be."""
        given = self.cleaned_data
        asked: list[Given] = [row.name for row in given["policies"]]
        if given["strategy"]:
            settings = {name: given[name] for name in ("strategy", "options")}
            if tokens := given["budget"]:
                reserve = min(Budget().reserve, tokens // 4)
                settings |= {"budget_tokens": tokens, "budget_reserve": reserve}
            asked.append(settings)
        mysis, label = self.read_subject()
        return start_replay(
            policies=read_policies(asked),
            by=by,
            mysis=mysis,
            label=label,
            since=given["since"],
            until=given["until"],
        )

    def add_refusal(self, error: ActionError) -> None:
        """Show a refusal at the field that it names."""
        where, _, words = error.detail.partition(": ")
        field = next((name for name in self.fields if where.startswith(name)), None)
        if where.startswith(f"policies[{len(self.cleaned_data['policies'])}]"):
            # The last one, which is not stored.
            field = "budget" if where.endswith("budget_tokens") else "options"
        self.add_error(field, words if field else error.detail)

    def read_subject(self) -> tuple[Mysis | None, str]:
        """The Mysis, or else the label; neither for the whole fleet."""
        kind, _, name = self.cleaned_data["whom"].partition(":")
        if kind == "mysis":
            return Mysis.objects.filter(pk=int(name)).first(), ""
        return None, name


def _list_subjects() -> list[tuple[str, Any]]:
    """The fleet, each Mysis, and each group or tag, as choices."""
    rows = Mysis.objects.order_by("name").values_list("pk", "name", "group", "tags")
    myses, labels = [], set()
    for number, name, group, tags in rows:
        myses.append((f"mysis:{number}", name))
        labels |= {*filter(None, [group]), *tags}
    labelled = [(f"label:{each}", each) for each in sorted(labels)]
    found: list[tuple[str, Any]] = [("", FLEET)]
    found += [("Myses", myses)] if myses else []
    return found + ([("Groups and tags", labelled)] if labelled else [])


class RewindForm(forms.Form):
    """What is to be otherwise from a call on; what is left as it ``had`` it is not."""

    prompt = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 10, "dir": "auto"}),
        help_text="{{ name }}, {{ account }} and {{ broadcast }} are filled in.",
    )
    model = forms.CharField(required=False, max_length=300)
    policy = forms.ModelChoiceField(
        queryset=ContextPolicy.objects.order_by("name"),
        required=False,
        empty_label="as each call had it",
    )
    order = forms.CharField(
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "dir": "auto"}),
        help_text="Stands in the place of the newest order that the call had.",
    )
    steps = forms.IntegerField(
        label="Calls at most", min_value=1, max_value=MOST_STEPS, initial=USUAL_STEPS
    )

    def __init__(self, data: Any, *, had: dict[str, str]) -> None:
        super().__init__(data, initial=had)
        self._had = {name: _one_line_end(text) for name, text in had.items()}
        if not had["order"]:
            del self.fields["order"]

    def read_settings(self) -> RewindSettings:
        """Those of the form; before it was sent, those that the call had."""
        given = self.cleaned_data if self.is_bound else {}
        changed = {
            name: text
            for name, had in self._had.items()
            if (text := _one_line_end(given.get(name) or "")) != had
        }
        return RewindSettings(
            **changed,
            policy=given.get("policy"),
            most_steps=given.get("steps", USUAL_STEPS),
        )


def _one_line_end(text: str) -> str:
    return text.replace("\r\n", "\n").strip()
