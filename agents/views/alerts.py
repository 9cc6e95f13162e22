"""The page of alerts, with its forms: what is wrong, the thresholds, who is told outside."""

from __future__ import annotations

from typing import Any

from django import forms
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
from agents.forms import add_action_error, make_name_field
from agents.models import AlertDelivery, AlertSettings, AlertTarget, Rule
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


def _rules_field(label: str, help_text: str) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        choices=Rule.choices,
        required=False,
        label=label,
        help_text=help_text,
        widget=forms.CheckboxSelectMultiple,
    )


def _version_field() -> forms.IntegerField:
    """The version that was shown: who saves an older one overwrites nobody."""
    return forms.IntegerField(
        required=False, min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput
    )


class AlertSettingsForm(forms.ModelForm[AlertSettings]):
    """What is judged, and by which thresholds."""

    version = _version_field()

    rules = _rules_field("Alerts", "Without a tick it is neither judged nor told.")

    class Meta:
        model = AlertSettings
        fields = ("rules", *AlertSettings.THRESHOLDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["version"] = self.instance.version


class AlertTargetForm(forms.Form):
    """Somebody outside who is told; address and secret are written, never shown."""

    name = make_name_field()
    kind = forms.ChoiceField(choices=AlertTarget.Kind.choices)
    url = forms.CharField(
        max_length=2_000,
        label="Address",
        widget=forms.TextInput(
            attrs={
                "autocomplete": "off",
                "spellcheck": "false",
                "placeholder": "https://ntfy.sh/my-fleet",
            }
        ),
    )
    secret = forms.CharField(
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="It signs what a webhook gets: left empty, one is made up and shown "
        "once. For ntfy an access token, if it asks for one. Slack needs none.",
    )
    clear_secret = forms.BooleanField(required=False, label="Forget the stored secret")
    rules = _rules_field("Told of", "Without a tick it is told of everything.")
    digest_hour = forms.TypedChoiceField(
        choices=[
            ("", "no digest"),
            *((hour, f"{hour:02}:00 UTC") for hour in range(24)),
        ],
        coerce=int,
        empty_value=None,
        required=False,
        label="Digest every day",
        help_text="What happened in the day before. It sends the beginning of orders and "
        "errors, the notes on prompts and the names of Myses to this address, whatever "
        "the target is told of.",
    )
    enabled = forms.BooleanField(required=False, initial=True, label="In use")
    version = _version_field()

    def __init__(self, *args: Any, target: AlertTarget, **kwargs: Any) -> None:
        columns = ("name", "kind", "rules", "enabled", "digest_hour", "version")
        kwargs["initial"] = {name: getattr(target, name) for name in columns}
        super().__init__(*args, **kwargs)
        if target.pk is None:
            del self.fields["clear_secret"]
        else:
            self.fields["url"].required = False
            self.fields[
                "url"
            ].help_text = f"Left empty, the stored one stays: {target.destination}/…"
            self.fields["secret"].help_text = "Left empty, the stored one stays."

    def read_secret(self) -> str | None:
        """The new secret, "" to forget the stored one, None to keep it."""
        if self.cleaned_data.get("clear_secret"):
            return ""
        return self.cleaned_data["secret"] or None


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
            if made:
                # In this answer alone: a notice would put it into a cookie.
                request.made_secret = made  # type: ignore[attr-defined]
                shown = {"target": target, "secret": made, "nav": "health"}
                return render(request, "agents/alert_target_made.html", shown)
            messages.success(request, f"{target.name} is told from now on.")
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
