"""No secret leaves by any door, also out of rows that were stored before (A11).

The doors are all that the addresses and the REST document list, so also new ones.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.core.management import call_command
from django.db.models import CharField, JSONField, Model, TextField
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from agents import actions
from agents.actions import notes
from agents.alerts import outbox
from agents.context_inputs import preview_context
from agents.models import (
    Account,
    Alert,
    AlertDelivery,
    AlertTarget,
    Broadcast,
    Event,
    ModelCall,
    Mysis,
    OrderRecipient,
    Prompt,
    Provider,
)
from memory.assembly.prepare import record_call
from memory.models import SentContext
from memory.redaction import MaskingFormatter, sealed
from tests.factories import (
    make_call,
    make_memory,
    make_mysis,
    make_summary,
    make_turn,
)
from tests.programs import ROOT, Program
from zoea.api import api
from zoea.api.openapi import list_operations

pytestmark = pytest.mark.django_db

SEALED = {
    "password": 'tr0ub4dor&3 "x"',
    "session": "0123456789abcdef0123456789abcdef",
    "key": "key-of-a-provider-4711",
    "hook": "whsec/of+a/hook==",
}
NAMED = ("hunter2x9", "bearer-value-77", "pw4711x", "k3yvalue77")
WORD = "zanzibar"


def _spell() -> Iterator[str]:
    for value in SEALED.values():
        yield value
        yield quote(value, safe="")
        yield base64.b64encode(value.encode()).decode()
        yield base64.b64encode(f"user:{value}".encode()).decode().rstrip("=")


TEXT = "\n".join(
    [
        f"{WORD} iron",
        *(f"It is {spelling}, or so." for spelling in _spell()),
        "pwd: hunter2x9",
        "Authorization: Bearer bearer-value-77",
        "postgres://user:pw4711x@host/base",
        json.dumps({"api_key": "k3yvalue77", "password": SEALED["password"]}),
    ]
)
NEEDLES = {
    *SEALED.values(),
    *NAMED,
    *(base64.b64encode(value.encode()).decode()[:-4] for value in SEALED.values()),
    # The beginning alone is a secret too, where a text is cut.
    *(value[:12] for value in SEALED.values()),
}
# Texts that people or programs wrote, by model; names and addresses are none.
PLANTED = {
    "memory.Memory": ("content", "reasoning"),
    "memory.Note": ("text",),
    "memory.HistorySummary": ("text", "error"),
    "memory.GameSnapshot": ("stale_reason",),
    "memory.GameEvent": ("payload",),
    "agents.Broadcast": ("text",),
    "agents.Order": ("text",),
    "agents.OrderRecipient": ("note",),
    "agents.Pin": ("text",),
    "agents.PromptVersion": ("text", "note"),
    "agents.Mysis": ("last_error", "hold", "stuck"),
    "agents.Turn": ("error",),
    "agents.ModelCall": ("error",),
    "agents.Alert": ("text",),
    "agents.AlertTarget": ("last_error",),
    "agents.AlertDelivery": ("body", "answer"),
}


def find_secrets(body: bytes) -> set[str]:
    """The secrets that are in an answer, however it is written."""
    plain = body.decode("utf-8", "replace")
    texts = [plain, html.unescape(plain), html.unescape(re.sub("<[^>]*>", "", plain))]
    texts += [plain.replace('\\"', '"'), texts[1].replace('\\"', '"')]
    return {needle for needle in NEEDLES for text in texts if needle in text}


@pytest.fixture
def ada(db: None) -> Mysis:
    """A Mysis with one row of everything, all of whose texts hold secrets."""
    provider = Provider(name="Local", kind="openai", base_url="http://localhost:9/v1")
    provider.api_key = SEALED["key"]
    provider.save()
    target = AlertTarget(name="Phone", kind="webhook")
    target.url, target.secret = "http://localhost:9/", SEALED["hook"]
    target.save()
    ada = make_mysis(name="Ada", prompt=Prompt.objects.create(name="captain"))
    account = Account(username="AdaPilot", assigned_to=ada)
    account.password, account.game_session = SEALED["password"], SEALED["session"]
    account.save()
    Mysis.objects.filter(pk=ada.pk).update(account=account)
    _remember(ada)
    for name, fields in PLANTED.items():
        _plant(apps.get_model(name), fields)
    call = ModelCall.objects.get()
    prepared = preview_context(Mysis.objects.get(pk=ada.pk))
    record_call(call_id=call.pk, prepared=prepared)
    return ada


def _remember(ada: Mysis) -> None:
    turn = make_turn(ada)
    ModelCall.objects.create(turn=turn, number=1, model="pilot")
    said = json.dumps({"content": TEXT, "pwd": NAMED[0]})
    call = make_call("chat", said)
    make_memory(ada, turn=turn, role="assistant", tool_calls=[call])
    make_memory(ada, turn=turn, role="tool", tool_call_id="c", tool_name="chat")
    make_memory(ada, turn=turn, role="assistant", tool_calls=[])
    actions.send_message(mysis=ada, text="x", by="operator:x")
    actions.send_broadcast(text="x", by="operator:x")
    notes.save_note(mysis=ada, name="base", text="x", by="x")
    actions.update_mysis(mysis=ada, pins=["x"], by="x")
    actions.save_prompt(prompt=Prompt.objects.get(name="captain"), text="x", by="x")
    make_summary(ada, text="x")
    Alert.objects.create(
        rule="errored", mysis=ada, name="Ada", cause="x", raised_at=timezone.now()
    )
    order = OrderRecipient.objects.first()
    kinds = {
        "error": {"detail": TEXT},
        "tool.called": {"tool": "chat", "arguments": {"content": TEXT}, "ok": False}
        | {"error": TEXT, "outcome": TEXT},
        "order.changed": {"state": "done", "note": TEXT, "text": TEXT, "by": "x"}
        | {"order": order and order.order_id},
        "alert.raised": {"rule": "errored", "text": TEXT, "cause": "x", "mysis": "Ada"},
    }
    for kind, data in kinds.items():
        Event.objects.create(kind=kind, mysis=ada, data=data)


def _plant(model: type[Model], fields: tuple[str, ...]) -> None:
    for row in model._default_manager.all():
        values: dict[str, Any] = {}
        for name in fields:
            field = model._meta.get_field(name)
            if isinstance(field, JSONField):
                values[name] = {"text": TEXT, "pwd": NAMED[0]}
            elif isinstance(field, CharField | TextField):
                # Whole lines: what a column has cut nobody can tell from another text.
                room = field.max_length or len(TEXT)
                values[name] = TEXT[:room].rpartition("\n")[0] or TEXT[:room]
        # Past everything that takes secrets out on their way in.
        model._default_manager.filter(pk=row.pk).update(**values)


def list_addresses(ada: Mysis) -> list[str]:
    """Every page there is, with what stands in the database as its parts."""
    turn = ada.turns.get()
    memory = ada.memories.order_by("pk").first()
    values = {
        "key": "Ada", "turn_id": turn.pk, "number": 1, "prompt_id": ada.prompt_id,
        "memory_id": memory and memory.pk, "part": "prompt", "step": "provider",
        "target_id": AlertTarget.objects.get().pk, "view_id": 1, "secret": "x",
    }  # fmt: skip
    found = [*list_routes(get_resolver(), "/", values)]
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        found.append(reverse(f"{name}_changelist"))
        for row in model._default_manager.all()[:1]:
            found += [
                reverse(f"{name}_{kind}", args=[row.pk])
                for kind in ("change", "history")
            ]
    found += [
        f"/search/?q={WORD}&where={where}&mode={mode}"
        for mode in ("fts", "exact")
        for where in (
            "messages", "reasoning", "calls", "broadcasts", "notes", "orders",
            "events", "prompts", "summaries", "pins",
        )
    ]  # fmt: skip
    found += [
        f"{address}?format={form}"
        for address in found
        if address.endswith("/download/")
        for form in ("openai", "markdown")
    ]
    found += [
        f"/myses/Ada/messages/?before={2**40}",
        "/myses/Ada/context/?strategy=full",
    ]
    return found


def list_routes(
    resolver: URLResolver, prefix: str, values: dict[str, Any]
) -> Iterator[str]:
    for one in resolver.url_patterns:
        route = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            if one.namespace not in ("admin", "api") and "api" not in route:
                yield from list_routes(one, route, values)
        elif isinstance(one, URLPattern) and "^" not in route:
            yield re.sub(
                r"<(?:\w+:)?(\w+)>", lambda m: str(values.get(m[1], "x")), route
            )


def read(response: Any) -> bytes:
    """The whole answer, of a download too."""
    if not response.streaming:
        return bytes(response.content)
    if response.is_async:

        async def gather() -> bytes:
            return b"".join([piece async for piece in response])

        from asgiref.sync import async_to_sync

        return async_to_sync(gather)()
    return b"".join(response)


def test_no_page_shows_a_secret(ada: Mysis, admin_client: Client) -> None:
    shown = 0
    told: dict[str, set[str]] = {}
    for address in list_addresses(ada):
        body = read(admin_client.get(address, headers={"HX-Request": "false"}))
        shown += WORD.encode() in body
        if found := find_secrets(body):
            told[address] = found
    assert told == {}
    assert shown > 40, shown


def test_no_list_of_the_admin_finds_the_beginning_of_a_secret(
    ada: Mysis, admin_client: Client
) -> None:
    found: dict[str, set[str]] = {WORD: set(), "hunter2": set(), "key-of-a": set()}
    admin.autodiscover()
    for model, page in admin.site._registry.items():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        for word, lists in found.items() if page.search_fields else ():
            url = reverse(f"admin:{name}_changelist")
            rows = admin_client.get(url, {"q": word}).context["cl"].result_list
            if list(rows):
                lists.add(name)
    assert (found.pop("hunter2"), found.pop("key-of-a")) == (set(), set())
    assert len(found[WORD]) > 8, found


def test_no_answer_of_the_api_has_a_secret(ada: Mysis, admin_program: Program) -> None:
    told: dict[str, set[str]] = {}
    shown = 0
    turn = ada.turns.get()
    for path, method, _ in list_operations(api.get_openapi_schema()):
        if method.upper() != "GET":
            continue
        address = path.removeprefix(ROOT).replace("{turn_id}", str(turn.pk))
        names = ("captain", "Phone") if "{reference}" in address else ()
        for name in ("Ada", *names):
            asked = address.replace("{reference}", name)
            asked = re.sub(r"\{\w+\}", "1", asked)
            asked += f"?q={WORD}" if "search" in asked else ""
            asked += "?a=window&b=full" if asked.endswith("diff") else ""
            body = read(admin_program.get(asked))
            shown += WORD.encode() in body
            if found := find_secrets(body):
                told[asked] = found
    assert told == {}
    assert shown > 12, shown


@pytest.mark.parametrize("form", ["jsonl", "openai", "markdown"])
def test_no_export_has_a_secret(ada: Mysis, form: str) -> None:
    out = StringIO()
    call_command("export", "Ada", format=form, stdout=out)
    assert WORD in out.getvalue()
    assert find_secrets(out.getvalue().encode()) == set()


def test_no_line_of_a_log_has_a_secret(ada: Mysis) -> None:
    sealed.read()
    formatters: Any = settings.LOGGING["formatters"]
    formatter = formatters["line"]
    assert formatter["()"] == "memory.redaction.MaskingFormatter"
    try:
        raise ValueError(TEXT)
    except ValueError:
        found = sys.exc_info()
    record = logging.LogRecord("x", logging.ERROR, "x", 1, "%s", (TEXT,), found)
    line = MaskingFormatter(formatter["fmt"]).format(record)
    assert line.count(WORD) == 2
    assert find_secrets(line.encode()) == set()


def test_no_alert_that_is_sent_has_a_secret(ada: Mysis) -> None:
    row = AlertDelivery.objects.create(
        target=AlertTarget.objects.get(), event=1, kind="alert.raised", rule="errored",
        cause="x", body=json.dumps({"data": {"text": TEXT}}), at=timezone.now(),
        due_at=timezone.now(),
    )  # fmt: skip
    attempt = outbox.claim_next(row.target_id)
    assert attempt is not None
    assert WORD in json.loads(attempt.message.body)["data"]["text"]
    assert find_secrets(attempt.message.body.encode()) == set()


def test_a_recorded_call_says_where_something_is_hidden(
    ada: Mysis, admin_program: Program
) -> None:
    """Its hash stays that of what was sent."""
    sent = SentContext.objects.get()
    path = f"/turns/{ada.turns.get().pk}/calls/1/context"
    found = admin_program.get(path).json()
    assert (found["masked"], found["hash"], found["intact"]) == (
        True,
        sent.digest,
        True,
    )
    # The newest of them stands in the prompt of everybody.
    Broadcast.objects.all().delete()
    plain = make_mysis(name="Bob")
    make_memory(plain, content="nothing to hide")
    preview = admin_program.get("/myses/Bob/context").json()
    assert not preview.get("masked")


def test_what_people_and_models_say_is_stored_without_secrets(ada: Mysis) -> None:
    row = actions.send_message(mysis=ada, text=TEXT, by="operator:x")
    row.refresh_from_db()
    assert WORD in row.content
    assert find_secrets(row.content.encode()) == set()
