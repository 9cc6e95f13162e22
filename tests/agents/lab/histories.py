"""Recorded calls, made as turns make them: assembled, stored, the log going on between."""

from __future__ import annotations

import json
from typing import Any

from agents import context_inputs
from agents.models import ModelCall, Mysis, Pin, Provider, Turn
from memory.assembly import prepare
from memory.assembly.turn_reads import TurnReads
from memory.models import ContextPolicy, SentContext
from tests.browser import scenes
from tests.factories import make_memory, make_mysis, make_turn

FORMATS = {"openai": "gpt-5-nano", "anthropic": "claude-sonnet-4-5"}


def make_pilot(name: str = "Ada", **policy: Any) -> Mysis:
    """A Mysis with a game, a standing order, a conversation and a policy of its own."""
    for kind, model in FORMATS.items():
        row, new = Provider.objects.get_or_create(
            name=kind, kind=kind, default_model=model
        )
        if new:
            row.api_key = "k"
            row.save()
    mysis = make_mysis(name=name, model="openai")
    mysis.policy = ContextPolicy.objects.create(name=f"of {name}", **policy)
    mysis.save()
    scenes.add_account(mysis)
    Pin.objects.create(mysis=mysis, text="Never attack miners.", author="ann")
    scenes.add_conversation(mysis, exchanges=6)
    return mysis


def record_turn(mysis: Mysis, calls: int = 2) -> list[SentContext]:
    """A turn of so many calls, with what each was sent and brought."""
    mysis = Mysis.objects.get(pk=mysis.pk)
    turn = make_turn(mysis, outcome="done")
    reads, found = TurnReads(), []
    make_memory(mysis, content=f"Order of turn {turn.number}.", sender="operator:ann")
    for number in range(1, calls + 1):
        found.append(record_call(mysis, turn, number, reads))
        name = f"c{turn.number}-{number}"
        called = {"name": "find_route", "arguments": "{}"}
        call = {"id": name, "type": "function", "function": called}
        make_memory(mysis, role="assistant", content="", tool_calls=[call], turn=turn)
        found_route = {"turn": turn.number, "route": [number] * 40, "say": "Go. " * 50}
        text = json.dumps(found_route, indent=1)
        make_memory(
            mysis, role="tool", content=text, tool_call_id=name, tool_name="find_route",
            turn=turn,
        )  # fmt: skip
    return found


def record_call(mysis: Mysis, turn: Turn, number: int, reads: TurnReads) -> SentContext:
    """One call of a turn, with what it is sent."""
    call = ModelCall.objects.create(
        turn=turn, number=number, model=mysis.model, input_tokens=5000, output_tokens=99
    )
    prepared = prepare.prepare_request(context_inputs.build_subject(mysis), reads=reads)
    return prepare.record_call(call_id=call.pk, prepared=prepared, reads=reads)
