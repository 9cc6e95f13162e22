"""Small forms that change a Mysis from its own page, each in a dialog there.

Without a script each is a page of its own. What somebody else changed since a form was
opened is never written over unseen: the form says what stands now, and keeps what was
typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from django.contrib import messages
from django.db.models import Count, Model
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)
from django_htmx.http import retarget, trigger_client_event

from agents import actions
from agents.actions import ActionError
from agents.actions.base import CHANGED, name_operator
from agents.actions.pins import NOT_STANDING
from agents.dashboard import mysis as dashboard_mysis
from agents.dashboard.budget_bars import load_limits
from agents.dashboard.live import fragments
from agents.edit_forms import (
    NEXT_CALL,
    BudgetForm,
    EditForm,
    GroupForm,
    ModelNameForm,
    PinForm,
    PinTextForm,
    PolicyForm,
    PromptForm,
    SettingForm,
)
from agents.forms import add_action_error
from agents.lab.prices import PRICED, Prediction, predict_price
from agents.lab.retaken import Setting
from agents.llm.model_list import list_models
from agents.models import Budget, Mysis, Pin
from agents.views.access import (
    PageRequest,
    admin_required,
    ask_first,
    find_mysis,
    is_confirmed,
    notify_success,
)
from memory.handles import MAX_ID, parse_id

F = TypeVar("F", bound=EditForm)
# Names that are offered beside those that providers list.
MOST_OFFERED = 100


SETTINGS: Mapping[str, type[SettingForm]] = {
    "model": ModelNameForm,
    "prompt": PromptForm,
    "policy": PolicyForm,
    "group": GroupForm,
}


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def edit_setting(request: PageRequest, key: str, part: str) -> HttpResponse:
    """Model, prompt, policy, or group and tags; what was refused keeps what was typed."""
    mysis = find_mysis(key)
    if part not in SETTINGS:
        raise Http404("There is no such form.")
    sent = request.POST if request.method == "POST" else None
    form, status = SETTINGS[part](sent, instance=copy(mysis)), 200
    if sent is not None and "price" in sent:
        price = _predict(mysis, part, form)
        return _render(request, mysis, part, form, 200 if price else 422, price=price)
    if sent is not None:
        status = 422
        if form.is_valid() and _may_save(request, mysis, form):
            try:
                _save_setting(request, mysis, form)
            except ActionError as error:
                form, status = _refuse(form, error, find_mysis(str(mysis.pk)))
            else:
                words = f"{form.title} of {mysis.name}: saved. {form.counts}"
                return _answer_saved(request, mysis, words)
    return _render(request, mysis, part, form, status)


@require_POST
@admin_required
def setting_price(request: PageRequest, key: str, part: str) -> HttpResponse:
    """What stands in such a form beside its price in the last hour; saves nothing."""
    mysis = find_mysis(key)
    if part not in PRICED:
        raise Http404("There is no such form.")
    form = SETTINGS[part](request.POST, instance=copy(mysis))
    context = {"price": _predict(mysis, part, form)}
    return render(request, "agents/edit/price.html", context)


def _predict(mysis: Mysis, part: str, form: SettingForm) -> Prediction | None:
    """What it would cost; None where what was typed cannot be, or costs nothing."""
    if part not in PRICED or not form.is_valid():
        return None
    setting = Setting(**{part: form.cleaned_data[part]})
    return predict_price([mysis], setting, timezone.now())


def _may_save(request: PageRequest, mysis: Mysis, form: SettingForm) -> bool:
    """Whether nothing speaks against what was typed, or somebody insists on just that."""
    if request.POST.get("insist") != form.warned:
        form.problems = form.find_problems(mysis)
    return not form.problems


def _save_setting(request: PageRequest, mysis: Mysis, form: SettingForm) -> None:
    actions.update_mysis(
        mysis=mysis,
        by=name_operator(request),
        version=form.cleaned_data["version"],
        **form.values,
    )


def _refuse(form: F, error: ActionError, present: Model) -> tuple[F, int]:
    """The form with what was typed and why it was refused, and the status.

    Where somebody else changed it, it says what stands in ``present``; saved again, it
    puts what was typed in the place of that.
    """
    if error.code != CHANGED:
        add_action_error(form, error)
        return form, error.status
    assert isinstance(form.data, QueryDict)  # noqa: S101 (it was sent)
    typed = form.data.copy()
    # Of one that was deleted there is none: it is made anew.
    typed["version"] = form.write_version(present) if present.pk else ""
    again = type(form)(typed, instance=copy(present))
    stands = _describe_values(present, form.columns)
    again.add_error(
        form.columns[0],
        f"Somebody else changed this meanwhile. Now it is: {stands}. Nothing is saved "
        "yet: Save puts yours in its place.",
    )
    return again, error.status


def _describe_values(row: Model, columns: Sequence[str]) -> str:
    found = []
    for name in columns:
        value = getattr(row, name)
        words = ", ".join(value) if isinstance(value, list) else value
        told = "none" if words in (None, "") else str(words)
        found.append(told if len(columns) == 1 else f"{name} {told}")
    return "; ".join(found)


@require_safe
@admin_required
def model_names(request: PageRequest, key: str) -> HttpResponse:
    """The models that can be chosen from, as their providers list them now."""
    mysis = find_mysis(key)
    lists = list_models()
    listed = [name for one in lists for name in one.names]
    names = list(dict.fromkeys([*_list_used_models(), *listed]))
    context = {"mysis": mysis, "names": names, "lists": lists}
    return render(request, "agents/edit/model_names.html", context)


def _list_used_models() -> list[str]:
    """The pilot, and the models that most Myses have, by name."""
    used = Mysis.objects.values("model").annotate(myses=Count("pk"))
    names = [row["model"] for row in used.order_by("-myses", "model")[:MOST_OFFERED]]
    return list(dict.fromkeys(["pilot", *sorted(names)]))


# --- Standing orders


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def edit_pins(request: PageRequest, key: str) -> HttpResponse:
    """Add a standing order, or say what became of one."""
    mysis, by = find_mysis(key), name_operator(request)
    adds = request.method == "POST" and "pin" not in request.POST
    form, status = PinForm(request.POST if adds else None), 200
    said = problem = ""
    try:
        if adds and form.is_valid():
            actions.add_pin(mysis=mysis, text=form.cleaned_data["text"], by=by)
            form, said = PinForm(), f"The order stands. {NEXT_CALL}"
        elif request.method == "POST" and not adds:
            pin = _mark_pin(request, mysis, by)
            said = f"The order is {pin.state}. {NEXT_CALL}"
    except ActionError as error:
        status = error.status
        if adds:
            add_action_error(form, error)
        else:
            problem = error.detail
    if form.errors and status == 200:
        status = 422
    if said and not request.htmx:
        messages.success(request, said)
        return redirect("mysis-pins", mysis.page_key)
    told = {"said": said, "problem": problem}
    return _render(request, mysis, "pins", form, status, **told)


def _mark_pin(request: PageRequest, mysis: Mysis, by: str) -> Pin:
    """Set the state of the pin that a button names, as it was seen there."""
    number = parse_id(request.POST.get("pin", ""))
    pin = mysis.pins.select_related("mysis").filter(pk=number or 0).first()
    if pin is None:
        raise ActionError(
            "This order was deleted meanwhile.", code="not_found", status=404
        )
    return actions.set_pin_state(
        pin=pin,
        state=request.POST.get("state", ""),
        by=by,
        before=request.POST.get("before"),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def edit_pin(request: PageRequest, key: str, pin_id: int) -> HttpResponse:
    """Write a standing order anew; what was typed for one that is gone is offered anew."""
    mysis = find_mysis(key)
    pin = get_object_or_404(mysis.pins, pk=min(pin_id, MAX_ID))
    if pin.state not in Pin.STANDING:
        return _offer_new_pin(request, mysis, "This order stands no longer.")
    sent = request.POST if request.method == "POST" else None
    form, status = PinTextForm(sent, instance=copy(pin)), 200
    if sent is not None and form.is_valid():
        try:
            actions.rewrite_pin(
                pin=pin,
                text=form.cleaned_data["text"],
                by=name_operator(request),
                version=form.cleaned_data["version"],
            )
        except ActionError as error:
            if error.code == NOT_STANDING:
                return _offer_new_pin(request, mysis, error.detail)
            present = mysis.pins.filter(pk=pin.pk).first() or pin
            form, status = _refuse(form, error, present)
        else:
            return _answer_saved(request, mysis, f"The order is saved. {NEXT_CALL}")
    elif sent is not None:
        status = 422
    return _render(request, mysis, "pin", form, status)


def _offer_new_pin(request: PageRequest, mysis: Mysis, problem: str) -> HttpResponse:
    """The standing orders, with what was typed as a new one that is not added yet."""
    form = PinForm(initial={"text": request.POST.get("text", "")})
    return _render(request, mysis, "pins", form, 409, problem=problem)


# --- Its own budget


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def edit_budget(request: PageRequest, key: str) -> HttpResponse:
    """The budget of this Mysis alone: make one, change it, take it away."""
    mysis = find_mysis(key)
    budget = _find_budget(mysis)
    sent = request.POST if request.method == "POST" else None
    form, status = BudgetForm(sent, instance=copy(budget)), 200
    if "remove" in request.POST and not is_confirmed(request):
        back = reverse("mysis-budget", args=[mysis.page_key])
        question = _ask_of_removal(mysis)
        return ask_first(request, question, label="Remove this budget", back=back)
    if sent is not None:
        status = 422
        try:
            words = _change_budget(form, budget, removes="remove" in sent)
        except ActionError as error:
            present = _find_budget(mysis)
            form, status = _refuse(form, error, present)
        else:
            if words:
                return _answer_saved(request, mysis, f"{words} {NEXT_CALL}")
    return _render(request, mysis, "budget", form, status)


def _ask_of_removal(mysis: Mysis) -> str:
    """What is asked before its budget is removed."""
    return f"Remove this budget? {mysis.name} may then spend up to the limits that are left."


def _find_budget(mysis: Mysis) -> Budget:
    """Its own budget, the oldest of several, else a new one."""
    own = mysis.budgets.filter(scope=Budget.Scope.MYSIS).order_by("pk").first()
    name = f"{mysis.name} alone"[:100]
    return own or Budget(name=name, scope=Budget.Scope.MYSIS, mysis=mysis)


def _change_budget(form: BudgetForm, budget: Budget, *, removes: bool) -> str:
    """Store or delete it; what to say, or nothing where what was typed cannot be."""
    if not removes and not form.is_valid():
        return ""
    version = form.data.get("version", "")
    if bool(version) != bool(budget.pk):
        raise ActionError("It was made or deleted meanwhile.", code=CHANGED)
    if removes:
        if budget.pk:
            actions.delete_budget(budget=budget, version=version)
        return f"The budget {budget.name} is removed."
    actions.save_budget(budget=form.instance, version=version or None)
    return f"The budget {form.instance.name} is saved."


# --- How each of them answers


def _answer_saved(request: PageRequest, mysis: Mysis, words: str) -> HttpResponse:
    """A notice and the head as it is now; the dialog closes."""
    if not request.htmx:
        messages.success(request, words)
        return redirect(mysis)
    present = find_mysis(str(mysis.pk))
    head = fragments.draw_mysis_head(dashboard_mysis.load_head(present, timezone.now()))
    answer = notify_success(request, words)
    answer.write(fragments.swap_fragment(head))
    return trigger_client_event(retarget(answer, "#notices"), "edited")


def _render(
    request: PageRequest, mysis: Mysis, part: str, form: Any, status: int, **told: Any
) -> HttpResponse:
    context: dict[str, Any] = {"mysis": mysis, "part": part, "form": form, **told}
    context["action"] = request.path
    context["priced"] = part in PRICED
    if part == "pins":
        context["action"] = reverse("mysis-pins", args=[mysis.page_key])
        standing = mysis.pins.filter(state__in=Pin.STANDING)
        context["pins"] = standing.order_by("pk")
    if part == "model":
        context["names"] = _list_used_models()
    if part == "group":
        named = Mysis.objects.exclude(group="").order_by("group")
        context["groups"] = named.values_list("group", flat=True).distinct()
    if part == "budget":
        context["limits"] = load_limits(mysis)
        context["question"] = _ask_of_removal(mysis)
    template = "agents/edit/dialog.html" if request.htmx else "agents/edit.html"
    return render(request, template, context, status=status)
