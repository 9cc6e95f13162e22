"""One tool of the game by hand: chosen, filled in, checked, run, and its result shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpResponse
from django.http.request import QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from agents.actions import ActionError
from agents.actions.base import name_operator
from agents.context_inputs import read_inputs
from agents.dashboard import conversation
from agents.manual_command import run_command
from agents.models import Mysis
from agents.tool_catalogue import list_tools
from agents.tools.own_tools import FOR_MYSES
from agents.views.access import PageRequest, find_mysis, operator_required
from memory.context.types import Described

# Parameters of a tool that the form has fields for, and characters of a text in one.
MOST, LONGEST = 40, 2_000
# So that no parameter can be taken for the name of the tool.
PREFIX = "arg_"
YES_NO = (("", "not said"), ("true", "yes"), ("false", "no"))


class CommandForm(forms.Form):
    """A tool, and a field for each of its parameters."""

    tool = forms.ChoiceField(label="Tool")

    def __init__(
        self, data: QueryDict | None, tools: Mapping[str, Described], chosen: str
    ) -> None:
        super().__init__(data, initial={"tool": chosen})
        field = self.fields["tool"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 (for types)
        field.choices = [("", "Choose a tool"), *((name, name) for name in tools)]
        schema = tools[chosen]["parameters"] if chosen in tools else {}
        required = schema.get("required") or ()
        for name, each in list((schema.get("properties") or {}).items())[:MOST]:
            self.fields[f"{PREFIX}{name}"] = _make_field(name, each, name in required)

    def read_arguments(self) -> dict[str, Any]:
        """What was filled in; what was left empty is not given."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in self.cleaned_data.items()
            if name.startswith(PREFIX) and value not in ("", None)
        }
        for name, value in given.items():
            if getattr(self.fields[f"{PREFIX}{name}"], "choices", None) == [*YES_NO]:
                given[name] = value == "true"
        return given


def _make_field(name: str, schema: Any, required: bool) -> forms.Field:
    """The field that fits a JSON schema; whatever is no plain value is written as JSON."""
    schema = schema if isinstance(schema, dict) else {}
    about = " ".join(str(schema.get("description") or "").split())[:200]
    common: dict[str, Any] = {"label": name, "help_text": about, "required": required}
    listed = schema.get("enum")
    if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
        choices = [("", "not said"), *((one, one) for one in listed)]
        return forms.ChoiceField(choices=choices, **common)
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kind = next((one for one in kinds if one != "null"), None)
    if kind == "boolean":
        return forms.ChoiceField(choices=YES_NO, **common)
    if kind == "integer":
        return forms.IntegerField(**common)
    if kind == "number":
        return forms.FloatField(**common)
    if kind == "string":
        return forms.CharField(max_length=LONGEST, **common)
    return forms.JSONField(widget=forms.Textarea(attrs={"rows": 2}), **common)


@require_http_methods(["GET", "HEAD", "POST"])
@operator_required
def command_page(request: PageRequest, key: str) -> HttpResponse:
    """The form, ``?tool=`` with that tool's parameters; a POST runs it.

    With htmx the form alone, with the result below it.
    """
    mysis = find_mysis(key)
    listed = list_tools(read_inputs(mysis).catalogue, more=())
    tools = {
        tool["name"]: tool
        for tool in sorted(listed, key=lambda tool: tool["name"])
        if tool["name"] not in FOR_MYSES
    }
    posted = request.POST if request.method == "POST" else None
    chosen = (posted or request.GET).get("tool", "")
    form = CommandForm(posted, tools, chosen)
    line = None
    if posted is not None and form.is_valid():
        line = _run(request, mysis, form)
    values = {
        "mysis": mysis,
        "form": form,
        "known": bool(tools),
        "about": tools[chosen]["description"] if chosen in tools else "",
        "lines": [line] if line else [],
        "tab": "conversation",
    }
    # With an answer of 422 htmx would leave the form as it is.
    status = 422 if form.errors and not request.htmx else 200
    page = "by_hand/form.html" if request.htmx else "by_hand.html"
    return render(request, f"agents/{page}", values, status=status)


def _run(
    request: PageRequest, mysis: Mysis, form: CommandForm
) -> conversation.Line | None:
    """The result as a line of the log; a refusal stands in the form."""
    try:
        row = run_command(
            mysis=mysis,
            tool=form.cleaned_data["tool"],
            arguments=form.read_arguments(),
            by=name_operator(request),
        )
    except ActionError as error:
        form.add_error(None, error.detail)
        return None
    return next(iter(conversation.load_lines(mysis, [row.pk])), None)
