"""Flies one arm: the real turn loop, a real database, the sandbox stepped by hand.

Time is simulated: a tick is ten seconds whatever the machine does, and it passes when
every turn that is due has been taken. So all arms see the same game, from one seed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from channels.db import database_sync_to_async as in_db
from django.conf import settings
from django.utils import timezone

from agents import actions
from agents.game import sessions
from agents.models import Mysis, Provider, Turn
from agents.runtime import model_calls
from agents.runtime.turn import take_turn
from bench.loop.arms import WIDE, Arm
from bench.loop.beliefs import wrong
from bench.loop.figures import Flown, Sent
from memory.assembly.prepare import PreparedRequest as View
from memory.assembly.sent_view import view_of
from memory.models import ContextPolicy, HistorySummary, SentContext
from memory.snapshots.reads import account_state
from sandbox.game.state import Sources
from sandbox.game.testing import SandboxServer

START = datetime(2026, 2, 5, tzinfo=UTC)
SECONDS = 10.0
POLL = 0.01


@dataclass
class Clock:
    """The simulated time; `install` puts it in the place of the real one.

    What the game does at a tick happens at its very beginning, what the fleet does in
    the middle of it.
    """

    ticks: int = 0
    phase: float = SECONDS / 2

    def now(self) -> datetime:
        """The moment."""
        return START + timedelta(seconds=SECONDS * self.ticks + self.phase)

    def install(self, sandbox: SandboxServer) -> None:
        """Let the program and the game read this clock; nothing else runs here."""
        timezone.now = self.now
        state = sandbox.game.state
        state.sources = Sources(lambda: int(self.now().timestamp() * 1e9))

    def tick(self, step: Callable[[], object]) -> None:
        """Let a tick pass, and with it the game."""
        self.ticks += 1
        self.phase = 0.0
        step()
        self.phase = SECONDS / 2


@dataclass
class Flight:
    """One arm under way."""

    arm: Arm
    sandbox: SandboxServer
    clock: Clock
    myses: list[int] = field(default_factory=list)
    flown: Flown = field(default_factory=Flown)
    beliefs: dict[int, tuple[int, int]] = field(default_factory=dict)

    def crew(self, number: int) -> None:
        """Make the Myses of the arm and start them."""
        policy = ContextPolicy.objects.create(
            name=f"arm {self.arm.letter}",
            strategy=self.arm.strategy,
            options=dict(self.arm.options),
            budget_tokens=self.arm.budget,
        )
        Provider.objects.get_or_create(name="wide", kind="pilot", window=WIDE)
        for place in range(number):
            mysis = actions.create_mysis(
                name=f"{self.arm.letter.upper()}{place}",
                model="wide",
                policy=policy,
                by="bench",
            )
            actions.start_mysis(mysis=mysis, by="bench")
            self.myses.append(mysis.pk)

    def look(self, keep: Callable[..., Any]) -> Callable[..., Any]:
        """`calls.keep`, with a look at what is believed at that moment."""

        def keep_and_look(*given: Any) -> Any:
            kept = keep(*given)
            view: View = given[-1]
            if view.facts:
                self.beliefs[kept.opened.place.call_id] = self._believed(view)
            return kept

        return keep_and_look

    def _believed(self, view: View) -> tuple[int, int]:
        username = view.subject.username
        state = account_state(username, newest_only=True)
        truth = self.sandbox.truth(str(username))["snapshots"]
        good, found = wrong(state, truth)
        self.flown.wrong += [f"{b.tool} {b.label}: {b.shown} / {b.true}" for b in found]
        return good, len(found)

    async def tick(self) -> None:
        """Take the turns that are due, then let a tick pass."""
        due = await in_db(self._due)()
        turns = {
            asyncio.create_task(take_turn(pk, job_id=job, trigger=trigger))
            for pk, job, trigger in due
        }
        while turns:
            _, turns = await asyncio.wait(turns, timeout=POLL)
            # Whoever waits for the next tick inside its turn gets it.
            if turns and await asyncio.to_thread(self._held) >= len(turns):
                await self._pass()
        await self._pass()

    def _held(self) -> int:
        return self.sandbox.held

    async def _pass(self) -> None:
        await asyncio.to_thread(self.clock.tick, self.sandbox.step)

    def _due(self) -> list[tuple[int, int, str]]:
        now = self.clock.now()
        found = []
        for mysis in Mysis.objects.filter(pk__in=self.myses).order_by("pk"):
            if mysis.state != Mysis.State.RUNNING:
                self.flown.idle += 1
                mysis = actions.start_mysis(mysis=mysis, by="bench")
            if mysis.next_job and (mysis.wake_at is None or mysis.wake_at <= now):
                found.append((mysis.pk, mysis.next_job, "next"))
        return found

    def add_up(self) -> Flown:
        """What all calls and turns of the arm came to."""
        turns = Turn.objects.filter(mysis_id__in=self.myses)
        self.flown.turns = turns.count()
        outcomes = list(turns.values_list("outcome", flat=True))
        self.flown.limited = outcomes.count(Turn.Outcome.ITERATION_LIMIT)
        self.flown.errors = outcomes.count(Turn.Outcome.ERRORED)
        self.flown.summaries = HistorySummary.objects.filter(
            mysis_id__in=self.myses, text__gt=""
        ).count()
        for mysis in Mysis.objects.filter(pk__in=self.myses).select_related("account"):
            self._count(mysis)
            name = mysis.account.username if mysis.account else ""
            calls = self.sandbox.calls(name)
            asked = mysis.memories.filter(role="tool", pending=False)
            asked = asked.filter(tool_name__startswith="get_")
            self.flown.gets += asked.count()
            self.flown.fetched += max(0, calls["get_calls"] - asked.count())
            self.flown.actions += calls["mutations_executed"]
            names = mysis.memories.filter(role="tool").exclude(tool_name="")
            self.flown.queries.update(names.values_list("tool_name", flat=True))
            if name:
                self.flown.credits += self.sandbox.truth(name)["facts"]["credits"]
        return self.flown

    def _count(self, mysis: Mysis) -> None:
        kept = SentContext.objects.filter(mysis=mysis).select_related("call")
        for sent in kept.order_by("pk").iterator(chunk_size=50):
            messages, system = view_of(sent)
            text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
            good, bad = self.beliefs.get(sent.call_id, (0, 0))
            categories = sent.stats["tokens_by_category"]
            self.flown.calls.append(
                Sent(
                    size=len(text.encode()) + len((system or "").encode()),
                    tokens=sum(categories.values()),
                    shared=sent.stats["prefix_shared_bytes"],
                    output=sent.call.output_tokens,
                    state=_state_bytes(messages, sent.view["synthetic"]),
                    good=good,
                    wrong=bad,
                )
            )


def _state_bytes(messages: list[dict[str, Any]], synthetic: list[Any]) -> int:
    places = [each["position"] for each in synthetic if each["kind"] == "state"]
    return sum(len(str(messages[place]["content"]).encode()) for place in places)


async def fly(
    arm: Arm, wanted: Mapping[str, Any], told: Callable[[int], None]
) -> Flown:
    """Fly an arm as wanted (myses, ticks, seed, game); `told` hears each tick."""
    clock = Clock()
    game = {"seed": wanted["seed"], "systems": 505, **wanted["game"]}
    with SandboxServer(**game) as sandbox:
        clock.install(sandbox)
        settings.SPACEMOLT_MCP_URL = sandbox.url
        settings.ZOEA_SECONDS_PER_TICK = SECONDS
        flight = Flight(arm, sandbox, clock)
        keep, model_calls.persist_call = (
            model_calls.persist_call,
            flight.look(model_calls.persist_call),
        )
        try:
            await in_db(flight.crew)(wanted["myses"])
            while clock.ticks < wanted["ticks"]:
                await flight.tick()
                told(clock.ticks)
            flown: Flown = await in_db(flight.add_up)()
            return flown
        finally:
            model_calls.persist_call = keep
            await sessions.close_all()
