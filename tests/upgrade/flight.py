"""Flies the fleet of the landed release and gives each table a row; run by its program.

What a row must hold it reads from the models of that program.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from importlib import import_module
from typing import Any

import django
from django.apps import apps
from django.db import DatabaseError, transaction
from django.utils import timezone

OURS = ("agents", "memory", "zoea", "auth")
TURNS, SECONDS = 12, 240
SECRET = "a secret of then"
# What a type of column holds where nothing else is known.
BY_TYPE: dict[str, Any] = {
    "BooleanField": False,
    "DateTimeField": timezone.now(),
    "DateField": timezone.now().date(),
    "JSONField": {},
    "BinaryField": b"\x00",
    "DurationField": timedelta(days=1),
    "DecimalField": 1,
    "FloatField": 1,
}
# What the database checks, or what would ground the fleet.
BY_NAME: dict[str, Any] = {
    "Budget.scope": "fleet",
    "Budget.tokens": 10**9,
    "ApiToken.role": "viewer",
}


def fly() -> None:
    """Let all Myses fly, tell them something, and wait until they have taken turns."""
    actions = import_module("agents.actions")
    fleet = list(apps.get_model("agents", "Mysis").objects.order_by("pk"))
    for mysis in fleet:
        if mysis.state != "running":
            actions.start_mysis(mysis=mysis, by="operator")
    actions.send_message(mysis=fleet[0], text="Mine until you are full.", by="operator")
    actions.send_broadcast(text="Sell only at Earth.", by="operator")
    turns = apps.get_model("agents", "Turn").objects.filter(outcome="done")
    until = time.monotonic() + SECONDS
    while turns.count() < TURNS:
        if time.monotonic() > until:
            sys.exit("The fleet does not fly.")
        time.sleep(0.1)


def fill() -> None:
    """Give each empty table a row; it may need one of a later table."""
    ours: list[Any] = [
        model for model in apps.get_models() if model._meta.app_label in OURS
    ]
    for last in (False, False, True):
        for model in ours:
            if model.objects.exists():
                continue
            try:
                with transaction.atomic():
                    model.objects.create(**_make_values(model))
            except (DatabaseError, ValueError, TypeError) as error:
                # The fleet may have made one meanwhile.
                if last and not model.objects.exists():
                    sys.exit(f"{model.__name__}: {error}")


def _make_values(model: Any) -> dict[str, Any]:
    return {
        field.name: _make_value(field)
        for field in model._meta.concrete_fields
        if field.is_relation or not field.primary_key
        if not field.has_default()
        or _label(field) in BY_NAME
        or field.name.startswith("sealed_")
    }


def _make_value(field: Any) -> Any:
    if field.name.startswith("sealed_"):
        return _seal(SECRET)
    if field.is_relation:
        return None if field.null else field.related_model.objects.first()
    if _label(field) in BY_NAME:
        return BY_NAME[_label(field)]
    if field.choices:
        return field.choices[0][0]
    kind = field.get_internal_type()
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if "Integer" in kind:
        return 1
    return f"{field.name} of then"[: field.max_length or 40]


def _label(field: Any) -> str:
    return f"{field.model.__name__}.{field.name}"


def _seal(text: str) -> str:
    return str(import_module("agents.encryption").seal(text))


if __name__ == "__main__":
    django.setup()
    fly()
    fill()
