"""Rows for tests, by plain functions."""

from __future__ import annotations

from itertools import count
from typing import Any

from django.utils import timezone

from agents.events import Item, format_moment
from agents.models import Account, CreditChange, ModelCall, Mysis, Provider, Turn
from memory.assembly.prepare import PreparedRequest, record_call
from memory.models import ContextPolicy, HistorySummary, Memory, SentContext

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


def make_call(name: str, arguments: str = "{}", call_id: str = "c") -> dict[str, Any]:
    """A tool call, as a message keeps it."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


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


def make_summary(mysis: Mysis, through: int = 9, **values: Any) -> HistorySummary:
    """A summary of a history up to this message."""
    values = {"first_id": 1, "generation": 1, "text": "Mined."} | values
    values.setdefault("history_hash", "0" * 64)
    return HistorySummary.objects.create(mysis=mysis, through_id=through, **values)


def make_sent(mysis: Mysis, prepared: PreparedRequest) -> SentContext:
    """The record of a call that was sent this."""
    call = ModelCall.objects.create(turn=make_turn(mysis), number=1, model="pilot")
    return record_call(call_id=call.pk, prepared=prepared)


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
