"""The context-assembly preview: every message of the next call, and why.

Parameters come by GET and nothing is written; it is assembled by the function
that will make the call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse

from agents import context
from agents.actions import ActionError
from agents.models import Mysis
from memory.context import registry
from memory.context.types import Budget, LedgerLine
from memory.preview import Prepared

SMALLEST_BUDGET = 100


class OptionsField(forms.JSONField):
    """JSON that may be left out; the stock field would show null for that."""

    def prepare_value(self, value: Any) -> Any:
        """Nothing stays an empty box."""
        return "" if value in (None, "") else super().prepare_value(value)


class PreviewForm(forms.Form):
    """What to try instead of the Mysis's own policy."""

    strategy = forms.ChoiceField(required=False)
    options = OptionsField(
        required=False,
        widget=forms.TextInput,
        help_text='As JSON, for example {"window": 10}.',
    )
    budget = forms.IntegerField(
        required=False, min_value=SMALLEST_BUDGET, label="Budget (tokens)"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chooser = self.fields["strategy"]
        assert isinstance(chooser, forms.ChoiceField)  # noqa: S101 (for types)
        names = [(name, name) for name in registry.names()]
        chooser.choices = [("", "as the policy says"), *names]

    def clean_options(self) -> dict[str, Any] | None:
        """A JSON object or nothing."""
        options = self.cleaned_data["options"]
        if options in (None, ""):
            return None
        if not isinstance(options, dict):
            raise forms.ValidationError("Give a JSON object, for example {}.")
        return options


@dataclass(frozen=True, slots=True)
class Line:
    """One message of the view, with where it came from and what it costs."""

    number: int
    role: str
    source: str
    text: str
    reason: str
    tokens: int | None


def preview_view(
    site_admin: admin.ModelAdmin[Mysis], request: HttpRequest, pk: int
) -> TemplateResponse:
    """The page."""
    mysis = get_object_or_404(Mysis, pk=pk)
    if not site_admin.has_view_permission(request, mysis):
        raise PermissionDenied
    form = PreviewForm(request.GET)
    prepared, problem = _try(mysis, form)
    page = {
        **site_admin.admin_site.each_context(request),
        "opts": site_admin.opts,
        "title": f"Next context of {mysis.name}",
        "mysis": mysis,
        "form": form,
        "problem": problem,
    }
    if prepared is not None:
        page |= _shown(prepared)
    return TemplateResponse(request, "admin/agents/mysis/preview.html", page)


def _try(mysis: Mysis, form: PreviewForm) -> tuple[Prepared | None, str]:
    if not form.is_valid():
        return None, ""
    wanted = form.cleaned_data
    budget = _budget(wanted["budget"])
    try:
        prepared = context.preview(
            mysis,
            strategy=wanted["strategy"] or None,
            options=wanted["options"],
            budget=budget,
        )
    except ActionError as error:
        return None, error.detail
    return prepared, ""


def _budget(tokens: int | None) -> Budget | None:
    if tokens is None:
        return None
    return Budget(tokens, min(context.RESERVE, tokens // context.RESERVE_SHARE))


def _shown(prepared: Prepared) -> dict[str, Any]:
    assembly = prepared.assembly
    ledger = {line.id: line for line in assembly.ledger}
    kinds = {item.position + 1: item.kind for item in assembly.synthetic}
    lines = [
        _line(number, message, source, kinds.get(number), ledger)
        for number, (message, source) in enumerate(
            zip(assembly.messages, assembly.sources, strict=True), 1
        )
    ]
    system = assembly.stats["tokens_by_category"]["system"]
    if assembly.system is not None:
        # Anthropic's dialect carries the system text beside the messages.
        why = "made for this call (prompt)"
        lines.insert(0, Line(0, "system", "prompt", assembly.system, why, system))
    elif lines and lines[0].role == "system":
        lines[0] = replace(lines[0], tokens=system)
    return {
        "prepared": prepared,
        "assembly": assembly,
        "lines": lines,
        "left_out": [x for x in assembly.ledger if x.disposition != "kept"],
        "categories": assembly.stats["tokens_by_category"].items(),
        "raw": json.dumps(
            _payload(assembly.system, assembly.messages), indent=2, ensure_ascii=False
        ),
    }


def _payload(system: str | None, messages: list[dict[str, Any]]) -> Any:
    return messages if system is None else {"system": system, "messages": messages}


def _line(
    number: int,
    message: dict[str, Any],
    source: Any,
    kind: str | None,
    ledger: dict[int, LedgerLine],
) -> Line:
    ids = source if isinstance(source, list) else [source]
    found = [ledger[i] for i in ids if i in ledger]
    why = "; ".join(dict.fromkeys(f"{x.disposition}: {x.reason}" for x in found))
    return Line(
        number=number,
        role=message["role"],
        source=", ".join(
            [*(f"#{i}" for i in ids if i is not None), *filter(None, [kind])]
        ),
        text=_text(message),
        reason=why or f"made for this call ({kind})",
        tokens=sum(x.tokens_out for x in found) if found else None,
    )


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, str):
        content = json.dumps(content, indent=2, ensure_ascii=False) if content else ""
    calls = [
        f"{call['function']['name']}({call['function']['arguments']})"
        for call in message.get("tool_calls", [])
    ]
    return "\n".join(part for part in (content, *calls) if part)
