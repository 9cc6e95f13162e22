"""The first three steps on an empty database: a provider, a prompt, a Mysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from agents import actions
from agents.actions.base import ActionError, name_operator
from agents.forms import FirstMysisForm, PromptTextForm, add_action_error
from agents.models import Mysis, Provider
from agents.provider_forms import NEW, EndpointForm, read_held_key
from agents.provider_trial import try_provider
from agents.views.access import PageRequest, admin_required
from memory.handles import parse_id

PROVIDER, PROMPT, MYSIS = "provider", "prompt", "mysis"
# Where a session keeps, sealed, the key of a provider that is not saved yet.
TYPED = "typed-key"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it is for, whether it is done, and whether it can wait."""

    name: str
    title: str
    about: str
    done: bool
    optional: bool


def list_steps() -> list[Step]:
    return [
        Step(
            PROVIDER,
            "A provider",
            "Where the models are. The scripted pilot needs none and costs nothing.",
            Provider.objects.exists(),
            optional=True,
        ),
        Step(
            PROMPT,
            "A prompt",
            "What every Mysis is told first. A good one is there already.",
            actions.get_default_prompt().versions.count() > 1,
            optional=True,
        ),
        Step(
            MYSIS,
            "The first Mysis",
            "One agent that plays the game by itself.",
            Mysis.objects.exists(),
            optional=False,
        ),
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def welcome(request: PageRequest, step: str = "") -> HttpResponse:
    """One step with its form; without a name the first that is not done."""
    known = list_steps()
    names = [one.name for one in known]
    here = step if step in names else next((s.name for s in known if not s.done), MYSIS)
    form = FORMS[here](request)
    if request.method == "POST" and form.is_valid():
        try:
            saved = SAVES[here](request, form)
        except ActionError as error:
            add_action_error(form, error)
        else:
            if saved is not None:
                return saved
    # Begin at the first field that is wrong.
    wrong = next((name for name in form.fields if name in form.errors), None)
    if wrong is not None:
        form.fields[wrong].widget.attrs["autofocus"] = True
    after = names[names.index(here) + 1 :]
    context = {
        "steps": known,
        "here": known[names.index(here)],
        "number": names.index(here) + 1,
        "form": form,
        "skip": reverse("welcome-step", args=[after[0]]) if after else "",
    }
    status = 422 if form.errors else 200
    return render(request, "agents/welcome.html", context, status=status)


def _provider_form(request: PageRequest) -> forms.BaseForm:
    """Of the newest provider, where there is one: who comes back mends it.

    What is sent back is of the one that the form was opened for.
    """
    newest = Provider.objects.order_by("-pk")
    if request.method == "POST":
        row = newest.filter(pk=parse_id(request.POST.get("row", NEW)) or 0).first()
    else:
        request.session.pop(TYPED, None)
        row = newest.first()
    return EndpointForm(
        request.POST or None,
        instance=row,
        initial={} if row else {"name": "openai", "kind": "openai"},
        typed=request.session.get(TYPED),
    )


def _prompt_form(request: PageRequest) -> forms.BaseForm:
    current = actions.get_default_prompt().current
    return PromptTextForm(
        request.POST or None, initial={"text": current.text if current else ""}
    )


def _mysis_form(request: PageRequest) -> forms.BaseForm:
    return FirstMysisForm(
        request.POST or None, initial={"model": request.GET.get("model", "pilot")}
    )


def _save_provider(request: PageRequest, form: forms.BaseForm) -> HttpResponse | None:
    """Saved once it answers, or when somebody insists."""
    assert isinstance(form, EndpointForm)  # noqa: S101 (for types)
    if "insist" not in request.POST:
        trial = try_provider(form.instance)
        if not trial.good:
            request.session[TYPED] = read_held_key(form.instance)
            form.insist = True
            form.add_error(trial.field or None, trial.words)
            return None
        messages.success(request, trial.words)
    actions.save_provider(provider=form.instance)
    request.session.pop(TYPED, None)
    return redirect("welcome-step", PROMPT)


def _save_prompt(request: PageRequest, form: forms.BaseForm) -> HttpResponse:
    prompt, text = actions.get_default_prompt(), form.cleaned_data["text"]
    text = actions.check_text(text, "The prompt")
    if prompt.current is None or prompt.current.text != text:
        actions.save_prompt(prompt=prompt, text=text, by=name_operator(request))
    provider = Provider.objects.order_by("-pk").first()
    model = provider.name if provider else "pilot"
    address = reverse("welcome-step", args=[MYSIS])
    return redirect(f"{address}?{urlencode({'model': model})}")


def _save_mysis(request: PageRequest, form: forms.BaseForm) -> HttpResponse:
    values, by = form.cleaned_data, name_operator(request)
    mysis = actions.create_mysis(name=values["name"], model=values["model"], by=by)
    if values["start"]:
        actions.start_mysis(mysis=mysis, by=by)
    return redirect(mysis)


FORMS: dict[str, Callable[[PageRequest], forms.BaseForm]] = {
    PROVIDER: _provider_form,
    PROMPT: _prompt_form,
    MYSIS: _mysis_form,
}
SAVES: dict[str, Callable[[PageRequest, forms.BaseForm], HttpResponse | None]] = {
    PROVIDER: _save_provider,
    PROMPT: _save_prompt,
    MYSIS: _save_mysis,
}
