"""Hand-made views for the pilot, and what it answers to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agents.llm.complete import complete
from agents.llm.model_types import Completion, CompletionRequest, Endpoint, OfferedTool
from agents.llm.prompts import DEFAULT_PROMPT, choose_nudge, render_prompt
from sandbox.game.table import TOOLS
from tests.fakes.openai import call, check_messages

PILOT = Endpoint("pilot", "pilot", "pilot", 128_000)
FORGETFUL = Endpoint("pilot:forgetful", "pilot", "forgetful", 128_000)
Json = dict[str, Any]


def game_tools(*more: str) -> list[OfferedTool]:
    """The game's tools without what is filled in for a model, and some others."""
    shown = []
    for tool in TOOLS.values():
        schema = tool.schema()
        for hidden in ("session_id", "password"):
            schema["properties"].pop(hidden, None)
        shown.append(OfferedTool(tool.name, tool.description, schema))
    return [*shown, *(OfferedTool(name, "", {"type": "object"}) for name in more)]


STATUS: Json = {
    "player": {
        "username": "Ada",
        "credits": 500,
        "current_system": "sol",
        "current_poi": "sol_station",
        "home_base": "sol_base",
        "docked_at_base": "sol_base",
    },
    "ship": {
        "hull": 100,
        "max_hull": 100,
        "fuel": 90,
        "max_fuel": 100,
        "cargo_used": 0,
        "cargo_capacity": 50,
        "cargo": None,
    },
}
SYSTEM: Json = {
    "system": {
        "id": "sol",
        "name": "Sol",
        "connections": ["sirius", "alpha_centauri"],
        "pois": ["sol_sun", "sol_station", "sol_belt"],
    },
    "pois": [
        {"id": "sol_sun", "name": "Sol Star", "type": "sun"},
        {"id": "sol_station", "name": "Sol Central", "type": "station"},
        {"id": "sol_belt", "name": "Main Belt", "type": "asteroid_belt"},
    ],
}


def status(poi: str = "sol_station", docked: bool = True, **ship: Any) -> Json:
    """A get_status answer."""
    player = {**STATUS["player"], "current_poi": poi}
    if not docked:
        del player["docked_at_base"]
    return {"player": player, "ship": {**STATUS["ship"], **ship}}


def cargo(**items: int) -> Json:
    """A get_cargo answer."""
    return {
        "cargo": [{"item_id": k, "name": k, "quantity": v} for k, v in items.items()],
        "used": sum(items.values()),
        "capacity": 50,
        "available": 50 - sum(items.values()),
    }


def block(*lines: str, logged_in: bool = True) -> str:
    """A state block with a heading and these lines."""
    if not logged_in:
        return "Not logged in. Use register or login."
    head = ["## Current Game State", "", "**Account:** Ada (Solarian Empire)", ""]
    return "\n".join([*head, *lines])


STATION = (
    "### Status (get_status - 2 ticks ago)",
    "- Credits: 500",
    "- Location: Sol > Sol Central",
    "- Docked: Yes (Sol Central)",
    "- Hull: 100/100",
    "- Fuel: 90/100",
    "- Cargo: 12/50",
    "  - Iron Ore x7",
    "  - Fuel Cell x5",
)
BELT = (
    "### Status (get_status - 2 ticks ago)",
    "- Location: Sol > Main Belt",
    "- Docked: No",
    "- Fuel: 90/100",
    "- Cargo: 12/50",
)
QUEUED = {"queued": True}


class View:
    """Messages put together step by step; the system prompt is the default one."""

    def __init__(self, name: str = "Ada", account: str | None = None) -> None:
        prompt = render_prompt(
            DEFAULT_PROMPT, name=name, account=account, broadcast=None
        )
        self.messages: list[Json] = [{"role": "system", "content": prompt}]

    def user(self, text: str) -> View:
        self.messages.append({"role": "user", "content": text})
        return self

    def nudge(self) -> View:
        return self.user(choose_nudge(1))

    def said(self, text: str = "I wait.") -> View:
        self.messages.append({"role": "assistant", "content": text})
        return self

    def did(self, tool: str, answer: Json | str, **arguments: Any) -> View:
        """A call with its answer."""
        call_id = f"c{len(self.messages)}"
        text = answer if isinstance(answer, str) else json.dumps(answer, indent=2)
        made = call(tool, json.dumps(arguments), call_id)
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call_id, "content": text},
        ]
        return self

    async def fly(
        self, tools: list[OfferedTool] | None = None, captain: Endpoint = PILOT
    ) -> Flown:
        """What a captain answers; the view has to be one that can be sent."""
        check_messages(self.messages)
        offered = game_tools() if tools is None else tools
        request = CompletionRequest(captain, self.messages, tools=offered)
        return Flown(await complete(request))


@dataclass
class Flown:
    """The pilot's answer, easy to look at."""

    answer: Completion

    @property
    def calls(self) -> dict[str, Json]:
        """The arguments by tool, without the news that are fetched beside."""
        return {
            each.name: json.loads(each.arguments)
            for each in self.answer.tool_calls
            if each.name != "get_notifications"
        }

    @property
    def news(self) -> bool:
        names = [each.name for each in self.answer.tool_calls]
        return "get_notifications" in names

    @property
    def text(self) -> str:
        return self.answer.text
