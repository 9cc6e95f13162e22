"""A captain in a closed loop: views by the context core, calls over MCP.

Everything around the pilot is the smallest that can be: a log in a list, a cache
of snapshots in a dictionary. The rules of both are the program's own.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agents.game.client import Connection, GameTool
from agents.llm.complete import complete
from agents.llm.model_types import Completion, CompletionRequest, Endpoint, OfferedTool
from agents.llm.prompts import DEFAULT_PROMPT, choose_nudge, render_prompt
from memory.context.assemble import assemble
from memory.context.tool_calls import guess_policy
from memory.context.types import AssemblyRequest, Budget, Message, Origin
from memory.gamestate import clock, invalidation
from memory.gamestate.confidence import Confidence, judge_confidence
from memory.gamestate.extract import Result, build_args_key, find_username, read_result
from memory.gamestate.render import render_block
from memory.gamestate.types import AccountState, Moment, Snapshot
from tests.gamestate.builders import add_mark, inherit_marks

PILOT = Endpoint("pilot", "pilot", "pilot", 128_000)
SECONDS = 10
START = datetime(2026, 2, 5, tzinfo=UTC)
HIDDEN = ("session_id", "password", "registration_code")
MOST_CALLS = 10
PATIENCE = 60


def shown_tool(tool: GameTool) -> OfferedTool:
    schema = dict(tool.schema)
    properties = schema.get("properties", {})
    schema["properties"] = {k: v for k, v in properties.items() if k not in HIDDEN}
    schema["required"] = [k for k in schema.get("required", ()) if k not in HIDDEN]
    return OfferedTool(tool.name, tool.description, schema)


@dataclass
class Cache:
    """The snapshots of one account, by the rules of the program."""

    username: str | None = None
    snapshots: dict[tuple[str, str], Snapshot] = field(default_factory=dict)
    seen: clock.Sighting | None = None

    def tick(self, now: datetime) -> int | None:
        return clock.estimate_tick(self.seen, now, SECONDS)

    def take(
        self, tool: str, arguments: Mapping[str, Any], result: Result, now: datetime
    ) -> None:
        """Learn from one call."""
        self.seen = clock.keep_newest_sighting(
            self.seen, result.tick, now, is_current=result.tick_is_current
        )
        if result.is_error:
            return
        if tool in ("register", "login"):
            self.username = find_username(result.content) or arguments["username"]
        elif invalidation.is_mutation(tool):
            self._mark(tool, arguments, result, now)
        elif guess_policy(tool) == "snapshot":
            self._store(tool, arguments, result, now)

    def _mark(
        self, tool: str, arguments: Mapping[str, Any], result: Result, now: datetime
    ) -> None:
        tick = self.tick(now)
        around = invalidation.Circumstances(current_tick=tick)
        for hit in invalidation.find_invalidations(tool, arguments, result, around):
            for key, old in self.snapshots.items():
                if hit.hits(old.tool):
                    mark = add_mark(old.stale, hit, tool, tick)
                    self.snapshots[key] = replace(old, stale=mark)

    def _store(
        self, tool: str, arguments: Mapping[str, Any], result: Result, now: datetime
    ) -> None:
        key = (tool, build_args_key(arguments))
        stamp = clock.choose_tick(result.tick, self.seen, now, SECONDS)
        tick = stamp if stamp is not None else self.tick(now)
        marks = [known.stale for known in self.snapshots.values() if known.stale]
        under_way = inherit_marks(marks, tool, arguments, tick)
        stale = invalidation.join_marks(under_way, tick)
        self.snapshots[key] = Snapshot(
            tool, dict(arguments), result.content, stamp, now, stale
        )

    def state(self, now: datetime) -> AccountState:
        found = tuple(self.snapshots.values())
        return AccountState(self.username, found, Moment(self.tick(now), now, SECONDS))

    def is_fresh(self, tool: str, now: datetime) -> bool:
        """Whether a call of this tool would tell what is known for certain."""
        snapshot = self.snapshots.get((tool, ""))
        if snapshot is None:
            return False
        return judge_confidence(snapshot, self.state(now).moment) is Confidence.FRESH


@dataclass
class Policy:
    """How the views are made."""

    strategy: str = "snapshot-window"
    options: Mapping[str, object] = field(default_factory=dict)
    state_block: bool = True


@dataclass
class Call:
    """One call that was made, and how it ended."""

    tick: int
    turn: int
    step: int
    name: str
    arguments: dict[str, Any]
    error: str
    was_fresh: bool


class Captain:
    """A captain with a log, a cache and a session."""

    def __init__(self, name: str, connection: Connection, policy: Policy) -> None:
        self.connection = connection
        self.policy = policy
        self.tools = [shown_tool(tool) for tool in connection.tools]
        self.prompt = render_prompt(
            DEFAULT_PROMPT, name=name, account=None, broadcast=None
        )
        self.log: list[Message] = []
        self.cache = Cache()
        self.now = START
        self.tick = 1
        self.turn = 0
        self.step = 0
        self.calls: list[Call] = []
        self.answers: list[Completion] = []
        self.session = ""
        self.results: dict[str, str] = {}

    def hear(self, text: str) -> None:
        """A human speaks."""
        self._add("user", "human", text)

    def pass_ticks(self, ticks: int = 1) -> None:
        """Time passes, here; the sandbox is stepped by its owner."""
        self.tick += ticks
        self.now += timedelta(seconds=SECONDS * ticks)

    async def take_turn(self) -> list[Completion]:
        """One turn, as the runtime takes it; its answers."""
        self.turn += 1
        answers: list[Completion] = []
        for self.step in range(MOST_CALLS):
            answer = await self._ask()
            answers.append(answer)
            await self._record(answer)
            if not answer.tool_calls:
                break
        self.answers += answers
        return answers

    async def _ask(self) -> Completion:
        with_state = self.policy.state_block
        view = assemble(
            AssemblyRequest(
                messages=tuple(self.log),
                system=self.prompt,
                render_state=self._render if with_state else None,
                strategy=self.policy.strategy,
                options=self.policy.options,
                budget=Budget(1_000_000, 8_000),
                nudge=choose_nudge(1),
                **self._tell_turn(),
            )
        )
        assert view.status not in ("fallback_used", "budget_impossible"), view.reason
        return await complete(CompletionRequest(PILOT, view.messages, tools=self.tools))

    def _tell_turn(self) -> dict[str, Any]:
        """What the runtime tells beside the log, for views that are one message."""
        ends = [m.id for m in self.log if m.role == "assistant" and not m.tool_calls]
        heard = [m for m in self.log if m.origin == "human"]
        last = max(ends, default=0)
        return {
            "tools": {
                tool.name: {"parameters": tool.parameters} for tool in self.tools
            },
            "turns_left": MOST_CALLS - self.step,
            "max_turns": MOST_CALLS,
            "open_orders": tuple(m.id for m in heard if m.id > last),
            "show_results": True,
        }

    def _render(self, size: int) -> str:
        return render_block(self.cache.state(self.now), size).text

    async def _record(self, answer: Completion) -> None:
        self._add("assistant", "agent", answer.text, tool_calls=answer.tool_calls)
        for call in answer.tool_calls:
            arguments = json.loads(call.arguments)
            text, is_error = await self._call(call.name, arguments)
            self._add("tool", "tool", text, tool_call_id=call.id, is_error=is_error)

    async def _call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        fresh = self.cache.is_fresh(name, self.now)
        if name in self.results:
            text, is_error = self.results[name], self.results[name].startswith("Error")
        else:
            given = {**arguments}
            if name not in ("register", "login"):
                given["session_id"] = self.session
            # A second action in one tick would be held until the next for ever.
            async with asyncio.timeout(PATIENCE):
                found = await self.connection.call(name, given)
            text, is_error = "\n".join(found.blocks), found.is_error
        if name in ("register", "login") and not is_error:
            self.session = json.loads(text)["session_id"]
        result = read_result(text, is_error=is_error)
        self.cache.take(name, arguments, result, self.now)
        error = result.error.code or "error" if result.error else ""
        where = (self.tick, self.turn, self.step)
        self.calls.append(Call(*where, name, arguments, error, fresh))
        return text, is_error

    def _add(self, role: Any, origin: Origin, content: str, **more: Any) -> None:
        self.log.append(Message(len(self.log) + 1, role, origin, content, **more))

    # -- what happened -----------------------------------------------------

    def count(self) -> Counter[str]:
        """Calls by tool."""
        return Counter(call.name for call in self.calls)

    def worst_repetition(self) -> int:
        """How often at most one and the same call was refused in a row."""
        worst = run = 0
        last = ""
        for call in self.calls:
            key = f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
            if call.error:
                run = run + 1 if key == last else 1
                worst, last = max(worst, run), key
            elif guess_policy(call.name) == "mutation":
                run, last = 0, ""
        return worst
