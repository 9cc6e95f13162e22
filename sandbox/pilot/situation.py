"""The situation that the rules decide on, their decisions, and what the pilot says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.pilot.beliefs import ASKS, GROUPED_ASKS, Beliefs
from sandbox.pilot.orders import LESSONS, Order
from sandbox.pilot.reading import (
    WAIT_CODES,
    Called,
    Transcript,
    as_text,
    as_whole,
    call_key,
    read_block,
)
from sandbox.pilot.replay import ACTIONS
from sandbox.pilot.words import Part

# Refusals of the same call after which it is not tried again.
WORN_OUT = 2


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """The next message: calls, or the text that ends the turn; and the thought."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    thought: str = ""

    @property
    def acts(self) -> bool:
        """Whether it takes a tick."""
        return any(call.name in ACTIONS for call in self.calls)


@dataclass(frozen=True, slots=True)
class Situation:
    """Beliefs, the view, the present order, and the tools with their arguments' names.

    ``grouped``: the tools are commands of API v2.
    """

    name: str
    beliefs: Beliefs
    transcript: Transcript
    tools: Mapping[str, frozenset[str]]
    order: Order | None = None
    grouped: bool = False

    def asked(self, tool: str) -> bool:
        """Whether a tool was called in this turn."""
        return any(call.name == tool for call in self.transcript.calls_of_turn())

    def can_ask(self, tool: str) -> bool:
        """Whether a query is offered and was not made in this turn."""
        return tool in self.tools and not self.asked(tool)

    def act(self, thought: str, tool: str, **arguments: Any) -> Decision | None:
        """Call a tool for its effect; None if it is missing or was refused.

        Refused: in this turn, or ``WORN_OUT`` times in view without a success since.
        After a refusal whose meaning is known, any accepted action counts as success.
        """
        if tool not in self.tools:
            return None
        key = call_key(tool, arguments)
        now = self.transcript.calls_of_turn()
        if any(call.key == key and call.answer.is_error for call in now):
            return None
        if self._refusals(key) >= WORN_OUT:
            return None
        return Decision((Call(tool, arguments),), thought=thought)

    def _refusals(self, key: tuple[str, str]) -> int:
        count, code = 0, ""
        for call in self.transcript.calls():
            if call.name not in ACTIONS:
                continue
            if not call.answer.is_error:
                mended = count if code not in LESSONS else 0
                count = 0 if call.name == key[0] else mended
            elif call.key == key and call.answer.code not in WAIT_CODES:
                count, code = count + 1, call.answer.code
        return count

    def ask(self, thought: str, *facts: str) -> Decision | None:
        """Ask for the facts that are not known; None if all are, or no tool helps."""
        every = self.beliefs.facts
        unknown = [name for name in facts if not every[name].known]
        wanted = [tool for name in unknown if (tool := self._teller(name))]
        if not wanted:
            return None
        calls = tuple(Call(tool, {}) for tool in dict.fromkeys(wanted))
        names = ", ".join(unknown)
        return Decision(calls, thought=f"{thought} I do not know for sure: {names}.")

    def _teller(self, name: str) -> str:
        named = self.beliefs.facts[name].ask
        own = GROUPED_ASKS if self.grouped else ASKS
        tools = (named, own.get(name, "get_status"), "get_status")
        return next(filter(self.can_ask, tools), "")

    def query(self, thought: str, tool: str, **arguments: Any) -> Decision | None:
        """Make a query; None if it is not offered, or was made in this turn."""
        if not self.can_ask(tool):
            return None
        return Decision((Call(tool, arguments),), thought=thought)

    def ask_chart(self, thought: str) -> Decision | None:
        """Get the chart of this system: from the cache if it is there, else anew."""
        if self.beliefs.chart_here:
            return None
        if self.beliefs.charted and self.can_ask("zoea_recall"):
            cached = f"{thought} The cached chart has the ids."
            return self.query(cached, "zoea_recall", handle="state://get_system")
        if not self.can_ask("get_system"):
            return None
        calls = [Call("get_system", {})]
        cramped = self.transcript.is_cramped and self.beliefs.place.known
        if cramped and "get_status" in self.tools:
            calls.append(Call("get_status", {}))
        elif self._lacks_credits() and self.can_ask("get_status"):
            # Before the chart: a short view keeps the last answer, and needs the chart.
            calls.insert(0, Call("get_status", {}))
        thought = f"{thought} I have no chart of this system in view."
        return Decision(tuple(calls), thought=thought)

    def _lacks_credits(self) -> bool:
        block = read_block(self.transcript.state)
        return block.logged_in is True and not block.find("Credits", "get_status")


def describe_action(call: Called) -> str:
    """Say what was done in this tick, and what comes next."""
    data, arguments = call.answer.data, call.arguments
    arrival = as_whole(data.get("arrival_tick"))
    until = f" at tick {arrival}" if arrival else ""
    if call.answer.unsure:
        return f"I do not know whether {call.name} happened. I look again next tick."
    match call.name:
        case "travel":
            goal = as_text(data.get("destination")) or arguments.get("target_poi")
            return f"Flying to {goal}. I wait for the arrival{until}."
        case "jump":
            goal = as_text(data.get("destination")) or arguments.get("target_system")
            return f"Jumping to {goal}. I wait for the arrival{until}."
        case "mine":
            what = as_text(data.get("resource_name")) or "ore"
            return f"Mining {what}. I wait for the yield of the next tick."
        case "sell":
            item = as_text(data.get("item")) or arguments.get("item_id")
            return f"Selling {arguments.get('quantity')} {item}. I wait for the sale."
    doing = {
        "dock": "Docking",
        "undock": "Undocking",
        "refuel": "Refuelling",
        "repair": "Repairing",
    }
    return f"{doing.get(call.name, call.name)}. I wait for the next tick."


def describe_refusals(calls: Sequence[Called]) -> str:
    """Say why nothing more is tried."""
    errors = [call for call in calls if call.answer.is_error]
    if not errors:
        return "Nothing more to do in this tick. I wait."
    last = errors[-1]
    return f"{last.name} is refused: {last.answer.message[:200]} I wait a tick."


_DOING: Mapping[str, str] = {
    "hold": "I stop and hold",
    "stop": "I stop and hold",
    "dock": "I dock at the nearest station",
    "undock": "I undock",
    "sell": "I sell the cargo",
    "refuel": "I refuel",
    "repair": "I repair the ship",
    "explore": "I explore a neighbouring system",
    "fill": "I mine until the hold is full",
    "work": "I go on mining and selling",
    "report": "here is my report",
    "note": "I write it down",
}


def acknowledge_order(parts: Sequence[Part]) -> str:
    """Say what is going to be done, and what is not understood."""
    doing = [_announce(part) for part in parts if part.kind]
    unread = [describe_unread(part) for part in parts if not part.kind]
    understood = [f"Understood: {', '.join(doing)}."] if doing else []
    return " ".join([*understood, *unread])


def _announce(part: Part) -> str:
    match part.kind:
        case "dock" if part.target:
            return f"I dock at {part.target}"
        case "goto":
            return f"I go to {part.target}"
        case "search":
            return f"I look for {part.target}"
    return _DOING[part.kind]


def describe_unread(part: Part) -> str:
    return f'I do not understand "{part.words}".'


def describe_ship(s: Situation) -> str:
    """Say where the ship is and what it has, as far as that is known."""
    b = s.beliefs
    place = b.here.name if b.here else b.place.value or "a place I do not know"
    where = "docked" if b.docked.value else "in space"
    parts = [f"{s.name} reporting: {where} at {place}"]
    if b.used is not None:
        parts.append(f"cargo {b.used}/{b.capacity or '?'}")
    if b.fuel.value is not None:
        parts.append(f"fuel {b.fuel.value}/{b.fuel.most or '?'}")
    if b.credits.value is not None:
        parts.append(f"{b.credits.value:,} credits")
    return f"{', '.join(parts)}."
