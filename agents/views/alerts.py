"""The page of alerts: what is wrong, by which thresholds, and who is told outside."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import (
    require_http_methods,
    require_POST,
    require_safe,
)

from agents.actions import ActionError, alerts
from agents.actions.base import name_operator
from agents.alerts.trial import try_target
from agents.dashboard.live import pages
from agents.forms import AlertSettingsForm, AlertTargetForm, add_action_error
from agents.models import AlertDelivery, AlertSettings, AlertTarget
from agents.views.access import (
    PageRequest,
    admin_required,
    is_operator,
    notify_error,
    notify_success,
    operator_required,
)

# Deliveries that the page of a target lists.
SHOWN = 30
# What the form of a target sets as it is typed.
FIELDS = ("name", "kind", "rules", "enabled", "digest_hour")


@require_safe
def alerts_page(request: PageRequest) -> HttpResponse:
    """Open alerts and those that are over, targets, thresholds."""
    return _render_page(request, AlertSettingsForm(instance=AlertSettings.load()))


@require_POST
@operator_required
def save_settings(request: PageRequest) -> HttpResponse:
    """Store the thresholds; errors stand at their fields."""
    form = AlertSettingsForm(request.POST, instance=AlertSettings.load())
    if form.is_valid():
        try:
            values = dict(form.cleaned_data)
            version = values.pop("version")
            alerts.save_alert_settings(
                values=values, by=name_operator(request), version=version
            )
        except ActionError as error:
            add_action_error(form, error)
        else:
            messages.success(request, "The alerts are judged by this from now on.")
            return redirect("alerts")
    return _render_page(request, form)


def _render_page(request: PageRequest, form: AlertSettingsForm) -> HttpResponse:
    now = timezone.now()
    if not is_operator(request):
        for field in form.fields.values():
            field.disabled = True
    context = {
        "parts": {part.id: part for part in pages.draw_alert_parts(now)},
        "form": form,
        "now": now,
        "nav": "health",
    }
    status = 422 if form.errors else 200
    return render(request, "agents/alerts.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@admin_required
def edit_target(request: PageRequest, target_id: int | None = None) -> HttpResponse:
    """A new target, or one that is there, with what it was told."""
    target = _find_target(target_id) if target_id else AlertTarget()
    form = AlertTargetForm(request.POST or None, target=target)
    if request.method == "POST" and form.is_valid():
        try:
            made = _save(target, form)
        except ActionError as error:
            add_action_error(form, error)
        else:
            messages.success(request, f"{target.name} is told from now on.")
            if made:
                words = f"Its secret, shown this once: {made}"
                messages.warning(request, words)
            return redirect("alert-target", target.pk)
    context: dict[str, Any] = {
        "form": form,
        "target": target if target_id else None,
        "nav": "health",
    }
    if target_id:
        rows = target.deliveries.order_by("-pk").defer("body")
        context["deliveries"] = rows[:SHOWN]
        context["waiting"] = rows.filter(state__in=AlertDelivery.OPEN).count()
    status = 422 if form.errors else 200
    return render(request, "agents/alert_target.html", context, status=status)


def _save(target: AlertTarget, form: AlertTargetForm) -> str:
    given = form.cleaned_data
    return alerts.save_alert_target(
        target=target,
        values={name: given[name] for name in FIELDS},
        url=given["url"] or None,
        secret=form.read_secret(),
        version=given["version"] if target.pk else None,
    )


@require_POST
@admin_required
def delete_target(request: PageRequest, target_id: int) -> HttpResponse:
    """Remove a target with what it was still to be told."""
    target = _find_target(target_id)
    alerts.delete_alert_target(target=target)
    messages.success(request, f"{target.name} is told no more.")
    return redirect("alerts")


@require_POST
@operator_required
def test_target(request: PageRequest, target_id: int) -> HttpResponse:
    """Send a test alert and say what the target answered."""
    target = _find_target(target_id)
    trial = try_target(target, name_operator(request))
    words = f"{target.name}: {trial.words}"
    if trial.answer.ok:
        return notify_success(request, words)
    # An answer of 502 would be taken for one of this server.
    return notify_error(request, words, 409)


def _find_target(target_id: int) -> AlertTarget:
    return get_object_or_404(AlertTarget, pk=min(target_id, 2**63 - 1))
