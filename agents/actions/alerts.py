"""Actions on alerts: their thresholds, and the targets outside that are told."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from copy import copy
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.db import transaction
from django.utils import timezone

from agents import events
from agents.actions.base import ActionError, validate_row
from agents.encryption import SecretUnreadableError
from agents.models import AlertDelivery, AlertSettings, AlertTarget
from memory import audit

LONGEST_URL, LONGEST_SECRET, SHORTEST_SECRET = 2_000, 500, 8
MOST_TARGETS = 50
Kind = AlertTarget.Kind
# What the audit log tells of a target, and of the thresholds.
TOLD = (
    *("name", "kind", "sealed_url", "sealed_secret"),
    *("rules", "enabled", "digest_hour"),
)
SETTINGS = [field.name for field in AlertSettings._meta.fields if field.editable]


@transaction.atomic
def save_alert_settings(
    *, values: Mapping[str, Any], by: str, version: int | None = None
) -> AlertSettings:
    """Change what is given; it counts from the next look on, seconds later.

    ``version`` is the one that was read. Raises ActionError: 422 for a value out of its
    range, naming the field, 409 where another version stands.
    """
    AlertSettings.objects.bulk_create([AlertSettings(pk=1)], ignore_conflicts=True)
    row = AlertSettings.objects.select_for_update().get(pk=1)
    _check_version(row.version, version)
    old = audit.read_columns(row, SETTINGS)
    for name, value in values.items():
        setattr(row, name, value)
    row.rules = list(dict.fromkeys(row.rules))
    row.changed_by, row.changed_at = by, timezone.now()
    row.version += 1
    validate_row(row)
    row.save()
    told = audit.read_columns(row, SETTINGS)
    audit.record_change(
        "alerts.update", "alerts:settings", by=by, before=old, after=told
    )
    return row


@transaction.atomic
def save_alert_target(
    *,
    target: AlertTarget,
    values: Mapping[str, Any] | None = None,
    url: str | None = None,
    secret: str | None = None,
    version: int | None = None,
) -> str:
    """Store a new target, or set the given values on one that is there.

    It is told what happens from now on. What is not given stays as it is stored, whatever
    ``target`` holds: somebody may have changed it since; ``target`` is as stored
    afterwards. Returns the secret that was made up for a webhook without one, to be shown
    once, else "". ``version`` is the one that was read. Raises ActionError: 422 that names
    the field, 409 where another version stands.
    """
    row = AlertTarget.objects.select_for_update().filter(pk=target.pk).first()
    before = copy(row)
    if row is None and AlertTarget.objects.count() >= MOST_TARGETS:
        raise _refuse("name", f"there are {MOST_TARGETS} targets: delete one first.")
    if before is not None:
        _check_version(before.version, version)
    row = row or target
    for name, value in (values or {}).items():
        setattr(row, name, value)
    row.rules = list(dict.fromkeys(row.rules))
    _set_url(row, before, url, kept_secret=secret is None)
    made = _set_secret(row, secret)
    validate_row(row)
    if before is None or (row.enabled and not before.enabled):
        _skip_old_news(row)
    _set_digest(row, before)
    row.version += before is not None
    row.failures, row.retry_at, row.failing_since = 0, None, None
    row.last_error = ""
    row.save()
    audit.record_change(
        "alert_target.update" if before else "alert_target.create",
        f"alert_target:{(before or row).name}",
        before=audit.read_columns(before, TOLD),
        after=audit.read_columns(row, TOLD),
    )
    # What it refused may be taken now.
    refused = row.deliveries.filter(state__in=AlertDelivery.OPEN, refusals__gt=0)
    refused.update(due_at=timezone.now())
    target.refresh_from_db()
    return made


@transaction.atomic
def delete_alert_target(*, target: AlertTarget) -> None:
    """Delete a target with what it was still to be told."""
    told = audit.read_columns(target, TOLD)
    audit.record_change(
        "alert_target.delete", f"alert_target:{target.name}", before=told
    )
    target.delete()


def _skip_old_news(target: AlertTarget) -> None:
    """What happened before it was there, waited, or came while it was off, is no news."""
    target.cursor_xid, target.cursor = events.read_settled_end()
    if target.pk is not None:
        waits = target.deliveries.filter(state__in=AlertDelivery.OPEN)
        waits.update(state=AlertDelivery.State.LEFT_OUT)


def _set_digest(target: AlertTarget, before: AlertTarget | None) -> None:
    """Plan the next digest anew where the hour is another, or it was off."""
    same = before is not None and before.digest_hour == target.digest_hour
    if same and before is not None and before.enabled == target.enabled:
        return
    now = timezone.now()
    target.digest_at = target.find_digest_after(now)
    target.digest_from = now if target.digest_at else None


def _check_version(stands: int, wanted: int | None) -> None:
    if wanted not in (None, stands):
        raise ActionError(
            f"version: somebody changed this meanwhile, version {stands} stands now: load "
            "it again, then change it.",
            code="changed",
        )


def _set_secret(target: AlertTarget, secret: str | None) -> str:
    """Set the secret, if one is given; the one that was made up, else ""."""
    if secret is not None:
        target.secret = _check_secret(secret)
    if target.kind != Kind.WEBHOOK or target.sealed_secret:
        return ""
    target.secret = made = secrets.token_urlsafe(32)
    return made


def _set_url(
    target: AlertTarget,
    before: AlertTarget | None,
    url: str | None,
    *,
    kept_secret: bool,
) -> None:
    """Set the address; a stored token is for the server it was given for."""
    if url is None and before is None:
        raise _refuse("url", "give the address that is called.")
    held = before is not None and bool(before.sealed_secret)
    if url is None:
        url = _read_url(target)
    parts = _check_url(url, target.kind)
    if held and kept_secret and before is not None:
        old = urlsplit(_read_url(before))
        same = (old.scheme, old.netloc) == (parts.scheme, parts.netloc)
        if target.kind == Kind.NTFY and not (same and before.kind == target.kind):
            raise _refuse(
                "secret",
                "the stored one was given for another address or kind: type it again, or "
                "clear it.",
            )
    target.url = url


def _read_url(target: AlertTarget) -> str:
    try:
        return str(target.url)
    except SecretUnreadableError as error:
        raise _refuse("url", f"type it again. {error}") from error


def _check_url(url: str, kind: str) -> SplitResult:
    """The parts of an address that can be called; raises ActionError 422."""
    plain = url.isprintable() and " " not in url and len(url) <= LONGEST_URL
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        # Raises for a port that is none.
        usable = usable and parts.port != 0
    except ValueError:
        usable = False
    if not plain or not usable:
        raise _refuse("url", "write an address such as https://example.org/hooks/zoea.")
    if parts.username is not None or parts.password is not None:
        raise _refuse("url", "take the name and the password out of the address.")
    if parts.fragment:
        raise _refuse("url", "take the part after # out of the address.")
    if kind == Kind.NTFY and (not parts.path.strip("/") or parts.query):
        raise _refuse("url", "end it with the topic, as in https://ntfy.sh/my-fleet.")
    return parts


def _check_secret(secret: str) -> str:
    plain = secret.isascii() and secret.isprintable() and " " not in secret
    short = secret and len(secret) < SHORTEST_SECRET
    if not plain or short or len(secret) > LONGEST_SECRET:
        raise _refuse(
            "secret",
            f"give {SHORTEST_SECRET} to {LONGEST_SECRET} plain letters, digits and "
            "signs, without a space.",
        )
    return secret


def _refuse(field: str, remedy: str) -> ActionError:
    return ActionError(f"{field}: {remedy}", code="invalid", status=422)
