"""Every action leaves one entry in the audit log, what a Mysis does by itself leaves none."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from agents import actions
from agents.actions import (
    alerts,
    branches,
    lifecycle,
    notes,
    orders,
    pins,
    saved_views,
    settings,
)
from agents.actions.base import ActionError
from agents.models import (
    AlertTarget,
    Budget,
    Mysis,
    Order,
    Pin,
    Prompt,
    PromptVersion,
    Provider,
    SavedView,
    ToolPolicy,
)
from memory.audit import Actor, acting_as
from memory.models import AuditEntry, ContextPolicy, HistorySummary
from tests.factories import make_account, make_memory, make_mysis
from tests.statements import record_statements

ANN = "operator:ann"
SECRET = "sk-4711-very-secret"


def ada(**values: Any) -> Mysis:
    found = Mysis.objects.filter(name="Ada").first()
    return found or make_mysis(name="Ada", **values)


def ann() -> User:
    return User.objects.get_or_create(username="ann")[0]


def order() -> Order:
    actions.send_message(mysis=ada(), text="Mine.", by="system")
    return Order.objects.get()


def pin() -> Pin:
    return Pin.objects.create(mysis=ada(), text="Never attack.")


def prompt() -> Prompt:
    made = Prompt.objects.create(name="captain")
    PromptVersion.objects.create(prompt=made, number=1, text="Fly.")
    return made


def budget(**values: Any) -> Budget:
    return Budget(name="daily", scope="fleet", tokens=100, **values)


def stored_budget() -> Budget:
    made = budget()
    made.save()
    return made


def target() -> AlertTarget:
    return AlertTarget(name="on call", kind="webhook")


def stored_target() -> AlertTarget:
    made = target()
    made.url, made.secret = f"https://example.org/{SECRET}", SECRET
    made.save()
    return made


def view() -> SavedView:
    return SavedView.objects.create(user=ann(), name="Mine", query="group=miners")


def summary(**values: Any) -> HistorySummary:
    rows = [make_memory(ada(), content=f"{n}") for n in range(2)]
    return HistorySummary.objects.create(
        mysis=ada(), generation=1, first_id=rows[0].pk, through_id=rows[1].pk, **values
    )


def said() -> int:
    """A message that another one follows."""
    first, _ = (make_memory(ada(), content=text) for text in ("Mine.", "Wait."))
    return first.pk


def note() -> None:
    notes.save_note(mysis=ada(), name="route", text="Sol", by="mysis:Ada")


def provider() -> Provider:
    made = Provider(name="zen", kind="openai", base_url=f"http://me:{SECRET}@zen/v1")
    made.api_key = SECRET
    return made


# What is made ready, by the action that is called, with what it is given.
ACTS: dict[Callable[..., Any], Callable[[], dict[str, Any]]] = {
    alerts.save_alert_settings: lambda: {"values": {"hull_percent": 20}, "by": ANN},
    alerts.save_alert_target: lambda: {
        "target": target(),
        "url": f"https://example.org/{SECRET}",
        "secret": SECRET,
    },
    alerts.delete_alert_target: lambda: {"target": stored_target()},
    branches.take_branch: lambda: {
        "mysis": ada(),
        "asked": said(),
        "text": "Sell.",
        "by": ANN,
        "start": False,
    },
    branches.undo_branch: lambda: {
        "branch": branches.take_branch(
            mysis=ada(), asked=said(), text="Sell.", by="system", start=False
        ),
        "by": ANN,
    },
    lifecycle.create_mysis: lambda: {"name": "Eve", "pins": ["Trade."], "by": ANN},
    lifecycle.update_mysis: lambda: {
        "mysis": ada(),
        "by": ANN,
        "group": "miners",
        "pins": ["Mine."],
        "model_settings": {"api_token": SECRET},
    },
    lifecycle.delete_mysis: lambda: {"mysis": ada(), "by": ANN},
    lifecycle.start_mysis: lambda: {"mysis": ada(), "by": ANN},
    lifecycle.stop_mysis: lambda: {"mysis": ada(), "by": ANN},
    actions.send_message: lambda: {"mysis": ada(), "text": "Sell.", "by": ANN},
    actions.send_order: lambda: {"myses": [ada()], "text": "Sell.", "by": ANN},
    actions.send_broadcast: lambda: {"text": f"Sell. {ada().name}", "by": ANN},
    notes.save_note: lambda: {
        "mysis": ada(),
        "name": "route",
        "text": f"The password is {make_account(password=SECRET).password}.",
        "by": ANN,
    },
    notes.forget_note: lambda: {
        "mysis": note() or ada(),  # type: ignore[func-returns-value]
        "name": "route",
        "by": ANN,
    },
    orders.change_order: lambda: {"order": order(), "state": "done", "by": ANN},
    pins.add_pin: lambda: {"mysis": ada(), "text": "Trade.", "by": ANN},
    pins.rewrite_pin: lambda: {"pin": pin(), "text": "Trade ice.", "by": ANN},
    pins.save_pin: lambda: {"pin": Pin(mysis=ada(), text="Trade."), "by": ANN},
    pins.delete_pin: lambda: {"pin": pin(), "by": ANN},
    pins.set_pin_state: lambda: {"pin": pin(), "state": "done", "by": ANN},
    saved_views.save_view: lambda: {"user": ann(), "name": "Mine", "query": "q=1"},
    saved_views.rename_view: lambda: {"view": view(), "name": "Ours"},
    saved_views.choose_default_view: lambda: {"user": ann(), "view": view()},
    saved_views.delete_view: lambda: {"view": view()},
    settings.save_budget: lambda: {"budget": budget()},
    settings.delete_budget: lambda: {"budget": stored_budget()},
    settings.choose_default_policy: lambda: {
        "policy": ContextPolicy.objects.create(name="tight"),
        "by": ANN,
    },
    settings.save_prompt: lambda: {"prompt": prompt(), "text": "Fly well.", "by": ANN},
    settings.rollback_prompt: lambda: {
        "prompt": actions.save_prompt(
            prompt=prompt(), text="Fly well.", by="system"
        ).prompt,
        "number": 1,
        "by": ANN,
    },
    settings.take_back_summary: lambda: {"summary": summary(), "by": ANN},
    settings.clear_failed_summaries: lambda: {
        "chosen": HistorySummary.objects.filter(pk=summary(status="failed").pk),
        "by": ANN,
    },
    settings.save_provider: lambda: {"provider": provider()},
    settings.save_tool_policy: lambda: {"tool": "vault", "policy": "secret"},
    settings.delete_tool_policy: lambda: {
        "tool": ToolPolicy.objects.create(tool="vault", policy="secret").tool
    },
}  # fmt: skip
# Made of several acts, or done by the program and by Myses themselves.
NO_ACTS = {
    "create_demo_fleet",
    "deliver_broadcast",
    "resume_broadcasts",
    "record_shown",
    "finish_shown",
    "report_order",
    "get_default_prompt",
    "install_summary_prompt",
    # Parts of acts.
    "store_order",
    "store_messages",
    "add_recipients",
    "clear_open_orders",
    "replace_pins",
    "take_back_effects",
    "give_back_effects",
    # These write nothing.
    "check_provider",
    "check_recipients",
    "count_recipients",
    "select_orders",
    "read_delivery_statuses",
    "find_unheard",
    "describe_sent",
    "describe_change",
    "explain_no_undo",
    "plan_branch",
    "excerpt_order",
    "find_note",
    "clean_note",
    "check_name",
    "list_standing",
    "list_summaries_past",
    "find_reached",
    "explain_superseded",
    # A part of a start, which is recorded.
    "tell_to_carry_on",
}


def list_functions() -> set[Callable[..., Any]]:
    """The public functions of all modules of actions, but for what these share."""
    found: set[Callable[..., Any]] = set()
    for module in pkgutil.iter_modules(actions.__path__):
        if module.name == "base":
            continue
        room = importlib.import_module(f"agents.actions.{module.name}")
        found |= {
            function
            for name, function in inspect.getmembers(room, inspect.isfunction)
            if function.__module__ == room.__name__ and not name.startswith("_")
        }
    return found


def test_every_action_is_in_the_table() -> None:
    known = {function.__name__ for function in ACTS} | NO_ACTS
    assert {function.__name__ for function in list_functions()} == known


@pytest.mark.django_db
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_an_action_leaves_one_entry_without_secrets(act: Callable[..., Any]) -> None:
    given = ACTS[act]()
    already = AuditEntry.objects.count()
    who = Actor(ANN, token="", address="192.0.2.7")
    with acting_as(who), record_statements() as statements:
        act(**given)
    assert sum('INSERT INTO "memory_auditentry"' in each for each in statements) == 1
    entry = AuditEntry.objects.order_by("-pk")[0]
    assert AuditEntry.objects.count() == already + 1
    assert (entry.who, entry.address) == (ANN, "192.0.2.7")
    assert entry.before or entry.after
    assert entry.object or act is settings.clear_failed_summaries
    assert SECRET not in json.dumps([entry.object, entry.before, entry.after])


@pytest.mark.django_db
def test_what_is_rolled_back_leaves_no_entry() -> None:
    mysis = ada()
    with pytest.raises(RuntimeError), transaction.atomic():
        actions.send_message(mysis=mysis, text="Sell.", by=ANN)
        raise RuntimeError
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_a_refused_act_leaves_no_entry() -> None:
    stopped = ada(state="stopped")
    with pytest.raises(ActionError):
        actions.send_message(mysis=stopped, text="Sell.", by=ANN)
    with pytest.raises(ActionError):
        actions.update_mysis(mysis=stopped, by=ANN, model="nowhere:7")
    actions.stop_mysis(mysis=stopped, by=ANN)
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_an_entry_holds_what_changed_by_names_and_outlives_it() -> None:
    mysis = ada(prompt=prompt())
    trader = Prompt.objects.create(name="trader")
    actions.update_mysis(mysis=mysis, by=ANN, prompt=trader, name="Eve", group="")
    [entry] = AuditEntry.objects.all()
    assert (entry.action, entry.object) == ("mysis.update", "mysis:Ada")
    assert entry.before == {"prompt": "captain", "name": "Ada"}
    assert entry.after == {"prompt": "trader", "name": "Eve"}
    actions.delete_mysis(mysis=mysis, by=ANN)
    assert AuditEntry.objects.filter(object="mysis:Ada").exists()
    gone = AuditEntry.objects.get(action="mysis.delete")
    assert (gone.object, gone.before["prompt"]) == ("mysis:Eve", "trader")


@pytest.mark.django_db
def test_a_prompt_is_told_by_its_versions_and_a_long_text_by_its_hash() -> None:
    actions.save_prompt(prompt=prompt(), text="Fly well.", by=ANN, note="better")
    entry = AuditEntry.objects.get()
    assert entry.before == {"version": 1}
    assert entry.after["version"] == 2
    assert entry.after["note"] == "better"
    assert "Fly" not in json.dumps(entry.after)
    actions.send_message(mysis=ada(), text="Sell. " * 1_000, by=ANN)
    told = AuditEntry.objects.get(action="mysis.message").after["text"]
    assert told["length"] == 6_000
    assert len(told["text"]) == 300
    assert len(told["sha256"]) == 64


@pytest.mark.django_db
def test_a_new_key_is_told_as_changed() -> None:
    zen = settings.save_provider(provider=provider())
    zen.api_key = "sk-another-secret"
    settings.save_provider(provider=zen)
    zen.api_key = ""
    settings.save_provider(provider=zen)
    made, changed, removed = AuditEntry.objects.order_by("pk")
    assert made.after["base_url"] == "http://[hidden]@zen/v1"
    assert made.after["key"] == "changed"
    assert (changed.before, changed.after) == ({"key": "stored"}, {"key": "changed"})
    assert removed.after == {"key": "removed"}


@pytest.mark.django_db
def test_what_a_mysis_and_the_program_do_is_not_in_it() -> None:
    mysis = ada()
    with record_statements() as statements:
        notes.save_note(mysis=mysis, name="route", text="Sol", by="mysis:Ada")
        notes.forget_note(mysis=mysis, name="route", by="mysis:Ada")
        actions.send_broadcast(text="Hello.", by="mysis:Ada", sender=mysis)
        actions.get_default_prompt()
    assert not [each for each in statements if "auditentry" in each]
    assert not AuditEntry.objects.exists()
