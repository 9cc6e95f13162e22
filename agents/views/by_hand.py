"""One tool of the game by hand: chosen, filled in, checked, run, and its result shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import HttpResponse
from django.http.request import QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import truncatechars
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from agents.actions import ActionError
from agents.actions.base import name_operator
from agents.dashboard import conversation
from agents.manual_command import run_command
from agents.models import Mysis
from agents.tool_catalogue import read_known_tools
from agents.tools.own_tools import FOR_MYSES
from agents.views.access import PageRequest, find_mysis, operator_required
from memory.context.types import Described
from memory.handles import parse_id
from memory.models import Memory

# Parameters of a tool that have a field each, and characters of a text in one.
MOST, LONGEST = 40, 2_000
# So that no parameter can be taken for the name of the tool.
PREFIX = "arg_"
# The field for the parameters past these; it begins as no other field's name does.
OTHERS = "others"
YES_NO = (("", "not said"), ("true", "yes"), ("false", "no"))


class CommandForm(forms.Form):
    """A tool, and a field for each of its parameters."""

    tool = forms.ChoiceField(label="Tool")
    # The tool whose fields stand below: another one chosen meanwhile is not run.
    shown = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, data: QueryDict | None, tools: Mapping[str, Described], chosen: str
    ) -> None:
        super().__init__(data, initial={"tool": chosen, "shown": chosen})
        self.auto_id = "by-hand-%s"
        field = self.fields["tool"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 (for types)
        field.choices = [("", "Choose a tool"), *((name, name) for name in tools)]
        tool = tools.get(chosen)
        if tool is None:
            return
        field.help_text = " ".join(tool["description"].split())[:300]
        schema = tool["parameters"]
        required = schema.get("required") or ()
        parameters = list((schema.get("properties") or {}).items())
        for name, each in parameters[:MOST]:
            self.fields[f"{PREFIX}{name}"] = _make_field(name, each, name in required)
        others = [name for name, _ in parameters[MOST:]]
        if others:
            self.fields[OTHERS] = _make_field_for_others(others)

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
        return (self.cleaned_data.get(OTHERS) or {}) | given

    def clean_others(self) -> dict[str, Any]:
        others = self.cleaned_data[OTHERS]
        if others is not None and not isinstance(others, dict):
            raise forms.ValidationError('Write an object, as in {"name": "value"}.')
        return others or {}


def _make_field_for_others(names: Sequence[str]) -> forms.Field:
    listed = ", ".join(names)
    return forms.JSONField(
        label="Other parameters",
        help_text=f"As a JSON object: {truncatechars(listed, 400)}.",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


def _make_field(name: str, schema: Any, required: bool) -> forms.Field:
    """The field that fits a JSON schema; whatever is no plain value is written as JSON."""
    schema = schema if isinstance(schema, dict) else {}
    about = " ".join(str(schema.get("description") or "").split())[:200]
    common: dict[str, Any] = {"label": name, "help_text": about, "required": required}
    listed = schema.get("enum")
    if isinstance(listed, list) and all(isinstance(one, str) for one in listed):
        choices = [("", "not said"), *((one, one) for one in listed)]
        return forms.ChoiceField(choices=choices, **common)
    if isinstance(listed, list) and all(_is_number(one) for one in listed):
        choices = [("", "not said"), *((str(one), str(one)) for one in listed)]
        # What the game gets is the number, not its digits.
        return forms.TypedChoiceField(
            choices=choices, coerce=json.loads, empty_value=None, **common
        )
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@require_http_methods(["GET", "HEAD", "POST"])
@operator_required
def command_page(request: PageRequest, key: str) -> HttpResponse:
    """The form, ``?tool=`` with that tool's parameters; a POST runs it.

    It runs the tool whose parameters were on the screen: another one chosen since is
    drawn first. With htmx the form alone, with the result below it; without, the result
    stands at an address of its own, so that a reload runs nothing again.
    """
    mysis = find_mysis(key)
    tools = {
        tool["name"]: tool
        for tool in sorted(read_known_tools(), key=lambda tool: tool["name"])
        if tool["name"] not in FOR_MYSES
    }
    sent = request.POST if request.method == "POST" else None
    chosen = (sent or request.GET).get("tool", "")
    if sent is not None and chosen in tools and sent.get("shown") != chosen:
        # Its parameters were not on the screen.
        sent = None
    form, status = CommandForm(sent, tools, chosen), 200
    lines: Sequence[conversation.Line] = ()
    if sent is None:
        line = parse_id(request.GET.get("line", ""))
        lines = conversation.load_lines(mysis, [line]) if line else ()
    elif not form.is_valid():
        status = 422
    else:
        try:
            row = _run(request, mysis, form)
        except ActionError as error:
            form.add_error(None, error.detail)
            status = error.status
        else:
            if not request.htmx:
                return redirect(_write_address(mysis, chosen, row))
            lines = conversation.load_lines(mysis, [row.pk])
    values = {
        "mysis": mysis,
        "form": form,
        "known": bool(tools),
        "lines": lines,
        "tab": "conversation",
    }
    page = "by_hand/form.html" if request.htmx else "by_hand.html"
    # Of an answer with another status htmx would draw nothing.
    return render(
        request, f"agents/{page}", values, status=200 if request.htmx else status
    )


def _run(request: PageRequest, mysis: Mysis, form: CommandForm) -> Memory:
    return run_command(
        mysis=mysis,
        tool=form.cleaned_data["tool"],
        arguments=form.read_arguments(),
        by=name_operator(request),
    )


def _write_address(mysis: Mysis, tool: str, row: Memory) -> str:
    """The form again, with a result below it."""
    query = urlencode({"tool": tool, "line": str(row.pk)})
    return f"{reverse('mysis-command', args=[mysis.page_key])}?{query}"
