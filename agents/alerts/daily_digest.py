"""The digest of each target that asked for one, made once a day at its hour.

Whoever makes it claims the hour first, so that no other process adds up the same. A claim
that came to nothing, by a fault or a kill, ends by itself, and then it is tried again.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import cache

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from agents.alerts.outbox import do_for_each, queue_delivery
from agents.alerts.send import DIGEST
from agents.dashboard.digest import Digest, bound_since, describe_digest, make_digest
from agents.dashboard.digest_text import describe_span, write_markdown, write_text
from agents.events import format_moment
from agents.models import AlertDelivery, AlertTarget

# A claimed digest is tried again after this.
CLAIM = timedelta(minutes=5)


def add_due_digests(now: datetime | None = None) -> None:
    """Make the digests that are due, and have a worker tell them.

    Targets whose digests begin at the same moment get the same one.
    """
    moment = now or timezone.now()

    @cache
    def write(since: datetime) -> str:
        return write_body(make_digest(since, moment))

    def add(target: AlertTarget) -> None:
        _store(target, write(bound_since(target.digest_from, moment)), moment)

    do_for_each(_claim_due(moment), add, "The digest of %s was not made.")


@transaction.atomic
def _claim_due(now: datetime) -> list[AlertTarget]:
    """Those whose digest this process alone is to make."""
    rows = AlertTarget.objects.select_for_update(skip_locked=True)
    due = list(rows.filter(enabled=True, digest_at__lte=now).order_by("pk"))
    for target in due:
        target.digest_at = now + CLAIM
    AlertTarget.objects.bulk_update(due, ["digest_at"])
    return due


@transaction.atomic
def _store(target: AlertTarget, body: str, now: datetime) -> None:
    """Store a digest with the next hour, unless somebody changed the hour meanwhile."""
    rows = AlertTarget.objects.select_for_update()
    locked = rows.filter(pk=target.pk, enabled=True, digest_at=target.digest_at).first()
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
