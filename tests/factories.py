"""Rows for tests, by plain functions."""

from __future__ import annotations

from itertools import count
from typing import Any

from django.utils import timezone

from agents.events import Item, format_moment
from agents.models import Account, CreditChange, Mysis, Provider, Turn
from memory.models import ContextPolicy, Memory

_numbers = count(1)


def make_mysis(**values: Any) -> Mysis:
    """A Mysis; its name is unique unless given."""
    values.setdefault("name", f"Mysis {next(_numbers)}x")
    return Mysis.objects.create(**values)


def make_memory(mysis: Mysis, **values: Any) -> Memory:
    """A stored message; a human's unless said otherwise."""
    values.setdefault("role", "user")
    origins = {"user": "human", "assistant": "agent", "tool": "tool"}
    values.setdefault("origin", origins.get(values["role"], "prompt"))
    values.setdefault("content", "hello")
    return Memory.objects.create(mysis=mysis, **values)


def make_account(**values: Any) -> Account:
    """A game account with a password."""
    password = values.pop("password", "0" * 64)
    values.setdefault("username", f"Pilot{next(_numbers)}")
    account = Account(**values)
    account.password = password
    account.save()
    return account


def make_provider(**values: Any) -> Provider:
    """A provider with a key; of OpenAI's kind unless said otherwise."""
    key = values.pop("key", "sk-x")
    row = Provider(**{"name": "lab", "kind": "openai", **values})
    row.api_key = key
    row.save()
    return row


def give_policy(mysis: Mysis, **values: Any) -> ContextPolicy:
    """Let a Mysis fly under a policy of its own."""
    policy = ContextPolicy.objects.create(**{"name": f"of {mysis.pk}", **values})
    Mysis.objects.filter(pk=mysis.pk).update(policy=policy)
    return policy


def make_turn(mysis: Mysis, **values: Any) -> Turn:
    """A turn, the next by number."""
    values.setdefault("number", mysis.turns.count() + 1)
    values.setdefault("trigger", "start")
    return Turn.objects.create(mysis=mysis, **values)


def bring_in(*turns: Turn) -> None:
    """Have the turns bring what their purses had more at the end than at the begin."""
    CreditChange.objects.bulk_create(
        CreditChange(
            username=turn.username,
            mysis_id=turn.mysis_id,
            turn=turn,
            amount=after - before,
            credits=after,
            at=turn.started_at,
        )
        for turn in turns
        if (before := turn.credits_before) is not None
        and (after := turn.credits_after) not in (None, before)
    )


def make_item(number: int, kind: str, mysis: int | None = None, **data: Any) -> Item:
    """An event as the hub hands it out; it is not stored."""
    at = format_moment(timezone.now())
    return Item(id=number, kind=kind, at=at, mysis=mysis, data=data)
