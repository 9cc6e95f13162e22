"""A replay of recorded calls under five policies: its time, and whether its memory grows.

It runs in a process of its own (see ``bench.processes``), and the command that it
measures in others.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from django.conf import settings

from agents.context_inputs import build_subject
from agents.models import Account, ModelCall, Mysis, Provider, ToolCatalogue, Turn
from agents.tools.request import ToolSpec
from bench.core.command import MANAGE, Run, measure_run
from bench.core.histories import message_columns, prepare_account
from bench.core.views import SUMMARY
from bench.figures import Aim, Figure, Step
from bench.logs import Log, Player
from bench.payloads import TOOLS
from bench.processes import migrated_database
from memory.assembly.hashes import hash_span
from memory.assembly.history_summaries import Effort, Span, commit_summary
from memory.assembly.prepare import (
    PreparedRequest,
    prepare_request,
    record_call,
)
from memory.assembly.turn_reads import TurnReads
from memory.context.tool_calls import guess_policy
from memory.context.types import SummaryWanted
from memory.models import ContextPolicy, Memory

FEW, MANY = 200, 1_000
SECONDS = 30.0
GROWTH = 1.1
#: The calls are made under the first.
POLICIES = {
    "own": ("tiered", {"tools": "on_demand"}, 16_000),
    "tiered": ("tiered", {}, 128_000),
    "window": ("window", {"window": 40}, 128_000),
    "snapshot-window": ("snapshot-window", {}, 64_000),
    "mask": ("mask", {}, 64_000),
    "coalesced": ("coalesced", {"tools": "compact"}, 32_000),
}
_WORDS = "A tool of the game that does what its name says, if the ship is where it can."


def measure(step: Step) -> list[Figure]:
    """The seconds and the peak of memory of ``manage.py replay``."""
    with migrated_database(step), tempfile.TemporaryDirectory() as folder:
        make_policies()
        seconds = {}
        for count in (FEW, MANY):
            step(f"Recording {count:,} calls")
            begun = perf_counter()
            record_calls(f"With {count} calls", count)
            seconds[count] = perf_counter() - begun
        runs = {}
        for count in (FEW, MANY):
            step(f"Replaying {count:,} calls")
            runs[count] = run_replay(f"With {count} calls", Path(folder))
    return replay_figures(runs[FEW], runs[MANY], seconds[MANY])


def replay_figures(few: Run, many: Run, recording: float) -> list[Figure]:
    """The time beside that of recording the calls, the peak beside that of few calls."""
    count = len(POLICIES) - 1
    note = f"manage.py replay, {MANY:,} calls, {count} policies beside their own"
    return [
        Figure(
            "replay: time",
            many.seconds,
            "s",
            baseline=recording,
            baseline_is=f"to assemble and store these {MANY:,} calls once",
            target=SECONDS,
            aim=Aim.AT_MOST,
            note=note,
        ),
        Figure(
            "replay: peak memory",
            many.peak,
            "bytes",
            baseline=few.peak,
            baseline_is=f"the same of {FEW} calls",
            target=GROWTH,
            aim=Aim.RATIO_BELOW,
            note=note,
        ),
    ]


def run_replay(name: str, folder: Path) -> Run:
    """Replay the calls of a Mysis from the command line."""
    others = [policy for policy in POLICIES if policy != "own"]
    words = ["replay", name, "--policies", ",".join(others), "--json"]
    return measure_run([MANAGE, *words], folder)


def make_policies() -> None:
    """Store the policies, a provider with a price, and tools that the game offers."""
    for name, (strategy, options, tokens) in POLICIES.items():
        ContextPolicy.objects.create(
            name=name, strategy=strategy, options=options, budget_tokens=tokens
        )
    provider = Provider(name="openai", kind="openai", default_model="gpt-5-mini")
    provider.api_key = "sk-none"
    provider.save()
    names = [f"{name}{number}" for number in ("", *"234567") for name in TOOLS]
    tools = [_describe_tool(name) for name in names]
    ToolCatalogue.objects.create(url=settings.SPACEMOLT_MCP_URL, tools=tools)


def _describe_tool(name: str) -> dict[str, Any]:
    fields = {"target_poi": {"type": "string", "description": _WORDS}}
    schema = {"type": "object", "properties": fields}
    policy = guess_policy(name)
    return asdict(ToolSpec(name, _WORDS, schema, policy, policy != "mutation"))


def record_calls(name: str, count: int) -> Mysis:
    """A Mysis that made so many calls in a made-up game, each recorded as in a turn."""
    username = f"Pilot {name}"
    prepare_account(username, 10)
    mysis = Mysis.objects.create(
        name=name,
        model="openai:gpt-5-mini",
        policy=ContextPolicy.objects.get(name="own"),
        account=Account.objects.create(username=username),
    )
    turn, number = Turn(), 0
    for unit in Player().units():
        if unit[0].role == "user":
            turn = _begin_turn(mysis)
            reads, number = TurnReads(), 0
        elif count == 0:
            break
        else:
            count, number = count - 1, number + 1
            _record_call(turn, number, reads)
        _store(mysis, turn, unit)
    return mysis


def _begin_turn(mysis: Mysis) -> Turn:
    mysis.turn_count += 1
    return Turn.objects.create(
        mysis=mysis, number=mysis.turn_count, trigger="nudge", outcome="done"
    )


def _record_call(turn: Turn, number: int, reads: TurnReads) -> None:
    call = ModelCall.objects.create(
        turn=turn,
        number=number,
        model=turn.mysis.model,
        input_tokens=9_000,
        output_tokens=120,
    )
    prepared = prepare_request(build_subject(turn.mysis), reads=reads)
    if (wanted := prepared.assembly.summary_wanted) is not None:
        _summarise(prepared, wanted, turn)
        prepared = prepare_request(build_subject(turn.mysis), reads=reads)
    record_call(call_id=call.pk, prepared=prepared, reads=reads)


def _summarise(prepared: PreparedRequest, wanted: SummaryWanted, turn: Turn) -> None:
    """Store the summary that a call asks for."""
    rows = prepared.request.messages
    inside = [m for m in rows if wanted.first_id <= m.id <= wanted.last_id]
    before = prepared.request.summary
    commit_summary(
        Span(
            turn.mysis_id,
            wanted.first_id,
            wanted.last_id,
            before.generation if before else 0,
            hash_span(inside),
        ),
        text=SUMMARY,
        tokens=(wanted.replaced, 1_000),
        effort=Effort(turn.number, turn.mysis.model),
    )


def _store(mysis: Mysis, turn: Turn, unit: Log) -> None:
    rows = [message_columns(mysis.pk, message) for message in unit]
    for row in rows:
        row["tool_calls"] = json.loads(str(row["tool_calls"]))
    Memory.objects.bulk_create(
        Memory(**row | {"args": {}, "turn": turn}) for row in rows
    )
