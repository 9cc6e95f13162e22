"""Opens every page and route of an installation, and judges each call of its past.

Run by ``manage.py shell`` on a database of its own; what is wrong is written out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from django.contrib.auth.models import User
from django.test import Client

from agents.models import ModelCall, Mysis, Turn
from memory.assembly.sent_view import render_sent
from memory.models import SentContext

PAGES = (
    "/",
    "/orders/",
    "/map/",
    "/accounts/",
    "/yield/",
    "/lanes/",
    "/compare/",
    "/digest/",
    "/health/",
    "/alerts/",
    "/events/",
    "/search/?q=mine",
    "/prompts/",
    "/policies/",
    "/lab/",
    "/analytics/",
)
OF_A_MYSIS = ("", "context/", "notes/", "turns/", "download/")
ROUTES = (
    "myses",
    "events",
    "broadcasts",
    "prompts",
    "providers",
    "accounts",
    "budgets",
    "usage",
    "policies",
    "orders",
    "alerts",
    "replays",
    "rewinds",
    "audit",
    "search/messages?q=mine",
    "search/counts?q=mine",
)


def list_addresses() -> Iterator[str]:
    """All pages and routes, and those of each Mysis, turn and call."""
    yield from PAGES
    yield from (f"/api/v1/{route}" for route in ROUTES)
    for name in Mysis.objects.values_list("name", flat=True):
        yield from (f"/myses/{name}/{page}" for page in OF_A_MYSIS)
        yield f"/api/v1/myses/{name}/context"
    for turn in Turn.objects.values_list("pk", flat=True):
        yield f"/turns/{turn}/"
        yield f"/api/v1/turns/{turn}"
    # Pages of some, as they take time; the bytes of all are judged below.
    for call in ModelCall.objects.filter(sent__isnull=False).order_by("pk")[:4]:
        yield f"/turns/{call.turn_id}/calls/{call.number}/context/"


def read_all() -> None:
    """Write each address that does not answer, and each call whose bytes differ."""
    client = Client(raise_request_exception=False, SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.create_superuser("reader"))
    wrong = []
    addresses = list(list_addresses())
    for address in addresses:
        answer = client.get(address)
        if answer.status_code != 200:
            wrong.append(f"{address}: {answer.status_code}")
    calls = SentContext.objects.all()
    wrong.extend(
        f"call {sent.call_id}: not the bytes that were sent"
        for sent in calls
        if not render_sent(sent).intact
    )
    seen = len(addresses) + len(calls)
    sys.stdout.write("\n".join(wrong) or f"all {seen} as they should be\n")
