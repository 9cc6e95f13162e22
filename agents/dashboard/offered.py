"""The tools that a call offers beside its messages, and what each of them costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents import catalogue
from agents.models import Mysis
from memory import calibration
from memory.context.tokens import counter_for

SENT = ("name", "description", "parameters")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the model is told of it; ``schema`` is JSON, indented to be read."""

    name: str
    tokens: int
    about: str
    schema: str


def tools_of(mysis: Mysis) -> Sequence[Tool]:
    """The tools of the next call, as the game server offered them last."""
    count = counter_for("estimate", calibration.known(mysis.model).factor)
    found = catalogue.known_tools(messaging=mysis.messaging)
    return [_tool(one, count(json.dumps(_sent(one)))) for one in found]


def _sent(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in SENT}


def _tool(tool: Mapping[str, Any], tokens: int) -> Tool:
    schema = json.dumps(tool["parameters"], indent=2, ensure_ascii=False)
    return Tool(tool["name"], tokens, tool["description"], schema)
