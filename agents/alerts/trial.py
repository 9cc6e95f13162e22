"""One test alert to a target, while somebody waits for what it answers."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from agents import events
from agents.actions import ActionError
from agents.alerts.outbox import note_success
from agents.alerts.send import RAISED, Answer, Message, send_message
from agents.encryption import SecretUnreadableError
from agents.events import Item
from agents.models import AlertTarget
from memory import audit
from memory.concurrency import release_connection


@dataclass(frozen=True, slots=True)
class Trial:
    """What a target answered, and after how many milliseconds."""

    answer: Answer
    took_ms: int

    @property
    def words(self) -> str:
        """It in a sentence."""
        if not self.answer.ok:
            return self.answer.describe()
        said = f" and says: {self.answer.text}" if self.answer.text else ""
        return f"It answers {self.answer.status} after {self.took_ms} ms{said}"


def try_target(target: AlertTarget, by: str) -> Trial:
    """Send a test alert, in the form and with the signature of a real one.

    It is no event of the log. A target that takes it is told at once what waits for it.
    Raises ActionError 409 where the stored secret cannot be read.
    """
    try:
        message = Message(
            target.kind,
            target.url,
            target.secret,
            make_test_body(by),
            str(uuid.uuid4()),
        )
    except SecretUnreadableError as error:
        raise ActionError(str(error), code="secret_unreadable") from error
    audit.record("alert_target.test", f"alert_target:{target.name}")
    release_connection()
    begun = time.monotonic()
    answer = asyncio.run(send_message(message))
    took = round((time.monotonic() - begun) * 1000)
    if answer.ok:
        with transaction.atomic():
            rows = AlertTarget.objects.select_for_update().filter(pk=target.pk)
            if (row := rows.first()) is not None and row.failures:
                note_success(row, timezone.now())
    return Trial(answer, took)


def make_test_body(by: str) -> str:
    """The body of a test alert: an item like those of the log, with the id 0."""
    item = Item(
        id=0,
        kind=RAISED,
        at=events.format_moment(timezone.now()),
        mysis=None,
        data={
            "rule": "test",
            "mysis": None,
            "text": f"This is a test, asked for by {by}. Nothing is wrong.",
            "link": reverse("alerts"),
        },
    )
    return json.dumps(item, ensure_ascii=False)
