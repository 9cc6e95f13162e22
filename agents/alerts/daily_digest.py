"""The digest of each target that asked for one, made once a day at its hour."""

from __future__ import annotations

import json
from datetime import datetime

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents.alerts.outbox import queue_delivery
from agents.alerts.send import DIGEST
from agents.dashboard.digest import Digest, bound_since, describe_digest, make_digest
from agents.dashboard.digest_text import describe_span, write_markdown, write_text
from agents.events import format_moment
from agents.models import AlertDelivery, AlertTarget


def add_due_digests(now: datetime | None = None) -> None:
    """Make the digests that are due, and have a worker tell them."""
    moment = now or timezone.now()
    due = AlertTarget.objects.filter(enabled=True, digest_at__lte=moment)
    for target in due:
        _add_digest(target, moment)


def _add_digest(target: AlertTarget, now: datetime) -> None:
    """Add it up, then store it, unless somebody else did so or changed the hour."""
    body = write_body(make_digest(bound_since(target.digest_from, now), now))
    with transaction.atomic():
        rows = AlertTarget.objects.select_for_update(skip_locked=True)
        same = rows.filter(pk=target.pk, enabled=True, digest_at=target.digest_at)
        locked = same.first()
        if locked is None or locked.digest_hour is None:
            return
        AlertDelivery.objects.create(
            target=locked,
            kind=DIGEST,
            rule=DIGEST,
            cause=DIGEST,
            body=body,
            at=now,
            due_at=now,
        )
        locked.digest_from, locked.digest_at = now, locked.find_digest_after(now)
        locked.save(update_fields=["digest_from", "digest_at"])
        queue_delivery(locked.pk)


def write_body(digest: Digest) -> str:
    """The body of a webhook; it is no event, so it has no number."""
    query = urlencode({"since": format_moment(digest.since)})
    data = describe_digest(digest) | {
        "title": f"Fleet, {describe_span(digest.since, digest.until)}",
        "text": write_text(digest),
        "markdown": write_markdown(digest),
        "link": f"{reverse('digest')}?{query}",
    }
    item = {
        "id": None,
        "kind": DIGEST,
        "at": format_moment(digest.until),
        "mysis": None,
        "data": data,
    }
    return json.dumps(item, ensure_ascii=False, cls=DjangoJSONEncoder)
