"""Flies one arm: the real turn loop, a real database, the sandbox stepped by hand.

Time is simulated: a tick is ten seconds whatever the machine does, and it passes when
every turn that is due has been taken. So all arms see the same game, from one seed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from channels.db import database_sync_to_async as in_db
from django.conf import settings
from django.utils import timezone

from agents import actions
from agents.game import sessions
from agents.models import Mysis, Provider, Turn
from agents.runtime import finish, model_calls
from agents.runtime.turn import take_turn
from bench.figures import Step
from bench.loop.arms import WIDE, Arm, ArmResult, SentCall
from memory.assembly.prepare import PreparedRequest
from memory.assembly.sent_view import render_messages, render_tools
from memory.context.types import split_nudge
from memory.gamestate.confidence import Confidence, judge_confidence
from memory.gamestate.facts import Fact, Names, View
from memory.gamestate.render import Scene, split_state
from memory.gamestate.sections import READERS, read_facts
from memory.gamestate.types import AccountState, Moment, Snapshot
from memory.gamestate.values import unwrap_content
from memory.models import ContextPolicy, HistorySummary, SentContext
from memory.snapshots.reads import read_account_state
from sandbox.game.state import Sources
from sandbox.game.testing import SandboxServer

START = datetime(2026, 2, 5, tzinfo=UTC)
SECONDS = 10.0
POLL = 0.01
# Stands for what an answer does not tell.
NOT_TOLD = "(not told)"
GOOD = (Confidence.FRESH, Confidence.MERGED)
#: These are about others or about the moment itself: true when they were asked.
PASSING = frozenset({"In transit", "Online", "Police", "Tick"})


@dataclass
class Clock:
    """The simulated time; ``install`` puts it in the place of the real one.

    What the game does at a tick happens at its very beginning, what the fleet does in
    the middle of it.
    """

    ticks: int = 0
    phase: float = SECONDS / 2

    def now(self) -> datetime:
        return START + timedelta(seconds=SECONDS * self.ticks + self.phase)

    def install(self, sandbox: SandboxServer) -> None:
        """Let the program and the game read this clock; nothing else runs here."""
        timezone.now = self.now
        state = sandbox.game.state
        state.sources = Sources(lambda: int(self.now().timestamp() * 1e9))
        # What follows a turn is else due by the clock of the database.
        finish.read_pace = lambda now: finish.Pace(
            self.now(), SECONDS, settings.ZOEA_ERRORED_AFTER
        )

    def tick(self, step: Callable[[], object]) -> None:
        """Let a tick pass, and with it the game."""
        self.ticks += 1
        self.phase = 0.0
        step()
        self.phase = SECONDS / 2


@dataclass
class Flight:
    arm: Arm
    captain: str
    sandbox: SandboxServer
    clock: Clock
    myses: list[int] = field(default_factory=list)
    result: ArmResult = field(default_factory=ArmResult)
    beliefs: dict[int, tuple[int, int]] = field(default_factory=dict)

    def start_myses(self, number: int) -> None:
        """Create and start the Myses of the arm."""
        policy, _ = ContextPolicy.objects.get_or_create(
            name=f"arm {self.arm.letter}",
            strategy=self.arm.strategy,
            options=dict(self.arm.options),
            budget_tokens=self.arm.budget,
        )
        Provider.objects.get_or_create(name="wide", kind="pilot", window=WIDE)
        for place in range(number):
            mysis = actions.create_mysis(
                name=f"{self.captain[0].upper()}{self.arm.letter}{place}",
                model=f"wide:{self.captain}",
                policy=policy,
                by="bench",
            )
            actions.start_mysis(mysis=mysis, by="bench")
            self.myses.append(mysis.pk)

    def watch_beliefs(self, persist: Callable[..., Any]) -> Callable[..., Any]:
        """``persist_call``, counting what is believed at that moment."""

        def persist_and_count(*given: Any) -> Any:
            kept = persist(*given)
            view: PreparedRequest = given[-1]
            if view.facts:
                self.beliefs[kept.opened.place.call_id] = self._count_beliefs(view)
            return kept

        return persist_and_count

    def _count_beliefs(self, view: PreparedRequest) -> tuple[int, int]:
        username = view.subject.username
        state = read_account_state(
            username, newest_only=True, fetched=view.subject.fetched
        )
        truth = self.sandbox.truth(str(username))
        good, found = find_wrong_beliefs(state, truth["snapshots"], truth["texts"])
        self.result.wrong += [
            f"{b.tool} {b.label}: {b.shown} / {b.true}" for b in found
        ]
        return good, len(found)

    async def pass_tick(self) -> None:
        """Take the turns that are due, then let a tick pass."""
        due = await in_db(self._list_due)()
        turns = {
            asyncio.create_task(take_turn(pk, job_id=job, trigger=trigger))
            for pk, job, trigger in due
        }
        while turns:
            _, turns = await asyncio.wait(turns, timeout=POLL)
            # Whoever waits for the next tick inside its turn gets it.
            if turns and await asyncio.to_thread(lambda: self.sandbox.held) >= len(
                turns
            ):
                await self._step_game()
        await self._step_game()

    async def _step_game(self) -> None:
        await asyncio.to_thread(self.clock.tick, self.sandbox.step)

    def _list_due(self) -> list[tuple[int, int, str]]:
        now = self.clock.now()
        found = []
        for mysis in Mysis.objects.filter(pk__in=self.myses).order_by("pk"):
            if mysis.state != Mysis.State.RUNNING:
                self.result.idle += 1
                mysis = actions.start_mysis(mysis=mysis, by="bench")
            if mysis.next_job and (mysis.wake_at is None or mysis.wake_at <= now):
                found.append((mysis.pk, mysis.next_job, "next"))
        return found

    def add_up(self) -> ArmResult:
        """Add up all calls and turns of the arm."""
        turns = Turn.objects.filter(mysis_id__in=self.myses)
        self.result.turns = turns.count()
        outcomes = list(turns.values_list("outcome", flat=True))
        self.result.limited = outcomes.count(Turn.Outcome.ITERATION_LIMIT)
        self.result.errors = outcomes.count(Turn.Outcome.ERRORED)
        self.result.summaries = HistorySummary.objects.filter(
            mysis_id__in=self.myses, text__gt=""
        ).count()
        for mysis in Mysis.objects.filter(pk__in=self.myses).select_related("account"):
            self._count_calls(mysis)
            name = mysis.account.username if mysis.account else ""
            calls = self.sandbox.calls(name)
            asked = mysis.memories.filter(role="tool", pending=False)
            asked = asked.filter(tool_name__startswith="get_")
            self.result.gets += asked.count()
            self.result.fetched += max(0, calls["get_calls"] - asked.count())
            self.result.actions += calls["mutations_executed"]
            names = mysis.memories.filter(role="tool").exclude(tool_name="")
            self.result.queries.update(names.values_list("tool_name", flat=True))
            if name:
                self.result.credits += self.sandbox.truth(name)["facts"]["credits"]
        return self.result

    def _count_calls(self, mysis: Mysis) -> None:
        kept = SentContext.objects.filter(mysis=mysis).select_related("call")
        for sent in kept.order_by("pk").iterator(chunk_size=50):
            messages, system = render_messages(sent)
            text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
            offered = render_tools(sent)
            schemas = (
                json.dumps(list(offered.sent), separators=(",", ":")) if offered else ""
            )
            catalogue = len(offered.catalogue.encode()) if offered else 0
            good, bad = self.beliefs.get(sent.call_id, (0, 0))
            categories = sent.stats["tokens_by_category"]
            self.result.calls.append(
                SentCall(
                    size=len(text.encode()) + len((system or "").encode()) - catalogue,
                    schemas=len(schemas.encode()),
                    catalogue=catalogue,
                    tokens=sum(categories.values()),
                    shared=sent.stats["prefix_shared_bytes"],
                    output=sent.call.output_tokens,
                    state=_state_bytes(messages, sent.view["synthetic"]),
                    good=good,
                    wrong=bad,
                )
            )


def _state_bytes(messages: list[dict[str, Any]], synthetic: list[Any]) -> int:
    places = {each["position"]: each["kind"] for each in synthetic}
    texts = (
        find_state(str(messages[place]["content"]), kind)
        for place, kind in places.items()
    )
    return sum(len(text.encode()) for text in texts)


def find_state(text: str, kind: str) -> str:
    """The state block in a message that the program made, without what ends that."""
    if kind == "coalesced":
        text = split_nudge(text)[0].rstrip()
    return split_state(text)[1] if kind in ("coalesced", "state") else ""


async def fly_arm(
    arm: Arm, captain: str, ticks: int, myses: int, game: dict[str, Any], step: Step
) -> ArmResult:
    clock = Clock()
    with SandboxServer(**game) as sandbox:
        clock.install(sandbox)
        settings.SPACEMOLT_MCP_URL = sandbox.url
        settings.ZOEA_SECONDS_PER_TICK = SECONDS
        flight = Flight(arm, captain, sandbox, clock)
        persist = model_calls.persist_call
        model_calls.persist_call = flight.watch_beliefs(persist)
        try:
            await in_db(flight.start_myses)(myses)
            while clock.ticks < ticks:
                await flight.pass_tick()
                step(f"Arm {arm.letter}, {captain}, tick {clock.ticks}")
            result: ArmResult = await in_db(flight.add_up)()
            return result
        finally:
            model_calls.persist_call = persist
            await sessions.get_pool().close()


# --- Beliefs: what a state block shows as good, against the game (I27, section 5)


class Belief(NamedTuple):
    """A fact that is shown as good, and what is true of it."""

    tool: str
    label: str
    shown: str
    true: str


def find_wrong_beliefs(
    state: AccountState,
    truth: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
) -> tuple[int, list[Belief]]:
    """The number of facts of a state that count as good, and the false ones of them.

    ``truth`` are the answers that the account would get now, by tool, and ``texts``
    these as a game that answers in texts words them: such a text may tell less, as the
    system alone of a place in it, and what either of both tells is right. Facts whose
    tool answers with an error now are not counted.
    """
    moment, names = state.moment, Scene.from_state(state).names
    good, found = 0, []
    for snapshot in state.snapshots:
        answer = truth.get(snapshot.tool)
        if snapshot.tool not in READERS or not isinstance(answer, Mapping):
            continue
        if "error" in answer:
            continue
        forms = [form for form in (answer, (texts or {}).get(snapshot.tool)) if form]
        true = [_read_true_facts(snapshot, form, names) for form in forms]
        for label, fact in _read_facts(snapshot, names):
            if not _is_good(fact, snapshot, moment):
                continue
            good += 1
            said = [told.get(label, NOT_TOLD) for told in true]
            if _fact_text(fact) not in said:
                words = " or ".join(dict.fromkeys(said))
                found.append(Belief(snapshot.tool, label, _fact_text(fact), words))
    return good, found


def _read_true_facts(
    snapshot: Snapshot, answer: object, names: Names
) -> dict[str, str]:
    """What an answer tells now, by label, read as that of the snapshot was."""
    now = replace(snapshot, content=answer, shown=None)
    return {label: _fact_text(fact) for label, fact in _read_facts(now, names)}


def _read_facts(snapshot: Snapshot, names: Names) -> Iterator[tuple[str, Fact]]:
    content = unwrap_content(snapshot.current)
    view = View(content if isinstance(content, Mapping) else {}, names)
    for fact in read_facts(snapshot.tool, view, content):
        if fact.label not in PASSING:
            yield fact.label, fact


def _fact_text(fact: Fact) -> str:
    listed = [*sorted(fact.items), *(f"{what} {much}" for what, much in fact.children)]
    return "; ".join([fact.value, *listed])


def _is_good(fact: Fact, snapshot: Snapshot, moment: Moment) -> bool:
    # Also of paths that are not there: that nothing is there may be what is shown.
    return all(
        judge_confidence(snapshot, moment, path) in GOOD for path in fact.paths or ("",)
    )
