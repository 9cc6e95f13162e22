"""A fleet to look at, and Myses that remember little and much."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from agents.models import Account, ModelCall, Mysis, Turn
from memory.models import (
    AccountClock,
    GameSnapshot,
    Memory,
    Origin,
    Role,
    SentContext,
)

TICK = 481_516
STATUS: dict[str, Any] = {
    "player": {
        "username": "Pilot",
        "empire": "solarian",
        "credits": 11153,
        "current_system": "sol",
        "current_poi": "sol_belt",
    },
    "ship": {
        "name": "Drillship",
        "hull": 120,
        "max_hull": 140,
        "shield": 55,
        "max_shield": 55,
        "fuel": 45,
        "max_fuel": 130,
        "cargo_used": 57,
        "cargo_capacity": 100,
    },
}
SYSTEM = {
    "system": {"id": "sol", "name": "Sol", "empire": "solarian"},
    "pois": [
        {"id": "sol_belt", "name": "Asteroid Belt Alpha"},
        {"id": "earth", "name": "Earth"},
        {"id": "mars", "name": "Mars"},
    ],
}

# --- Fleets


@transaction.atomic
def make_resting_myses(count: int) -> None:
    """Make idle Myses with an account, a conversation and turns of the last hour."""
    for number in range(count):
        mysis = Mysis.objects.create(name=f"Captain {number:03}", state="idle")
        add_account(mysis, stale=number % 10 == 0)
        add_conversation(mysis)
        add_turns(mysis, share=number % 20 / 20)


def vacuum() -> None:
    """Leave the tables as the server's own vacuum does before long."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def sign_in_admin() -> str:
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    return str(client.session.session_key)


# --- Parts of a Mysis


def call_stats(share: float, budget: int = 128_000) -> dict[str, Any]:
    """Statistics of a call that fills so much of its budget."""
    used = int(share * (budget - 8000))
    parts = {"system": 0.12, "tools": 0.18, "pins": 0.02, "summary": 0.08}
    parts |= {"state": 0.06, "user": 0.05, "assistant": 0.14, "tool": 0.35}
    return {
        "strategy": "snapshot-window",
        "status": "reduced",
        "budget": budget,
        "reserve": 8000,
        "tokens_by_category": {k: int(used * v) for k, v in parts.items()},
    }


def add_account(mysis: Mysis, *, credits: int = 11_153, stale: bool = False) -> None:
    """Give a Mysis an account with a cached state."""
    # So no other account that a test makes has its name.
    account = Account(username=f"Captain-{mysis.pk}")
    account.password = "0" * 64
    account.save()
    mysis.account = account
    mysis.tick = TICK
    mysis.save()
    now = timezone.now()
    AccountClock.objects.create(username=account.username, tick=TICK, seen_at=now)
    status = json.loads(json.dumps(STATUS))
    status["player"] |= {"credits": credits, "username": account.username}
    for tool, content in (("get_status", status), ("get_system", SYSTEM)):
        GameSnapshot.objects.create(
            username=account.username,
            tool_name=tool,
            content=json.dumps(content),
            game_tick=TICK - 2,
            captured_at=now - timedelta(seconds=20),
            stale_reason="mine" if stale and tool == "get_status" else "",
            stale_tick=TICK - 2 if stale else None,
        )
    GameSnapshot.objects.create(
        username=account.username,
        tool_name="get_map",
        content=json.dumps({"systems": [{"id": f"s{n}"} for n in range(60)]}),
        game_tick=TICK - 90,
        captured_at=now - timedelta(seconds=900),
    )


def add_conversation(mysis: Mysis, exchanges: int = 3) -> list[Memory]:
    rows = [
        mysis.memories.create(
            role=Role.USER,
            origin=Origin.HUMAN,
            content="Find out what sells best here.",
            sender="operator:ann",
        )
    ]
    turn = _add_turn(mysis, outcome="done", iterations=2, latency_ms=2345)
    for number in range(exchanges):
        rows += _add_exchange(mysis, turn, number)
    mysis.last_memory_at = rows[-1].created_at
    mysis.save()
    return rows


def _add_exchange(mysis: Mysis, turn: Turn, number: int) -> list[Memory]:
    call: dict[str, Any] = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "get_status", "arguments": json.dumps({"deep": number})},
    }
    asked = mysis.memories.create(
        role=Role.ASSISTANT,
        origin=Origin.AGENT,
        turn=turn,
        content="I look around before I mine." if number % 2 else "",
        reasoning="The belt is rich, but the hold is nearly full.",
        tool_calls=[call],
        tick=TICK,
    )
    got = mysis.memories.create(
        role=Role.TOOL,
        origin=Origin.TOOL,
        turn=turn,
        content=json.dumps(STATUS),
        tool_call_id=call["id"],
        tool_name="get_status",
        tick=TICK,
    )
    return [asked, got]


def add_turns(
    mysis: Mysis, *, turns: int = 9, share: float = 0.4, cost: str = "0.004"
) -> None:
    """Turns over the last hour, and a context for the newest call."""
    now = timezone.now()
    for number in range(turns):
        turn = _add_turn(
            mysis,
            outcome="errored" if number % 7 == 5 else "done",
            error="502 from the game server" if number % 7 == 5 else "",
            iterations=3,
            input_tokens=5200,
            output_tokens=240,
            cost=Decimal(cost),
            latency_ms=4321,
        )
        age = timedelta(minutes=(turns - number) * 55 / turns)
        Turn.objects.filter(pk=turn.pk).update(started_at=now - age)
    call = ModelCall.objects.create(turn=turn, number=1, model=mysis.model)
    SentContext.objects.create(
        mysis=mysis,
        call=call,
        strategy="snapshot-window",
        dialect="openai",
        view={"system": None, "sources": [], "synthetic": [], "messages": []},
        stats=call_stats(share),
        digest="0" * 64,
    )


def _add_turn(mysis: Mysis, **values: Any) -> Turn:
    number = mysis.turns.count() + 1
    return Turn.objects.create(mysis=mysis, number=number, trigger="start", **values)
