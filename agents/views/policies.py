"""Context policies, two of them tried on one Mysis."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents import context
from agents.actions import ActionError
from agents.dashboard import comparing
from agents.dashboard.addresses import page_key
from agents.forms import PoliciesForm
from agents.models import Mysis
from memory.context import registry
from memory.models import ContextPolicy
from memory.preview import Prepared


@require_safe
def policies_page(request: HttpRequest) -> HttpResponse:
    """Every policy, and any two of them side by side; nothing is written."""
    asked = bool(request.GET.get("mysis"))
    form = PoliciesForm(request.GET if asked else None, initial=request.GET.dict())
    rows = ContextPolicy.objects.annotate(users=Count("myses")).order_by("name")
    values = {"form": form, "policies": rows, "nav": "prompts"}
    if asked and form.is_valid():
        values |= _compared(form)
    status = 422 if form.errors else 200
    return render(request, "agents/policies.html", values, status=status)


def _compared(form: PoliciesForm) -> dict[str, object]:
    mysis: Mysis = form.cleaned_data["mysis"]
    a, b = form.cleaned_data["a"], form.cleaned_data["b"]
    try:
        first = _prepared(mysis, a) if a else context.preview(mysis)
        second = _prepared(mysis, b or ContextPolicy(strategy=registry.DEFAULT))
    except ActionError as error:
        form.add_error(None, error.detail)
        return {}
    comparison = comparing.of(first, second)
    return {
        "comparison": comparison,
        "sides": (comparison.a, comparison.b),
        "mysis": mysis,
        "key": page_key(mysis),
    }


def _prepared(mysis: Mysis, policy: ContextPolicy) -> Prepared:
    """The next call under a policy: the budget is never more than the model reads."""
    mysis.policy = policy
    return context.preview(mysis)
