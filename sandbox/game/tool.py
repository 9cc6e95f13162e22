"""The form of a tool: its words, its arguments, and what kind of call it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.parameters import SESSION_ID, Parameter

MOST_QUANTITY = 1_000_000


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its words, its arguments, and what kind of call it is.

    `mutation`: it takes the player's turn. `writes`: it changes something although
    it takes no turn. `open`: no login needed.
    """

    name: str
    category: str
    description: str
    parameters: tuple[Parameter, ...] = ()
    example: dict[str, Any] = field(default_factory=dict)
    notes: str = ""
    mutation: bool = False
    writes: bool = False
    destructive: bool = False
    open: bool = False

    @property
    def read_only(self) -> bool:
        return not (self.mutation or self.writes)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        listed = [parameter for parameter in self.parameters if parameter.listed]
        properties = {parameter.name: parameter.schema() for parameter in listed}
        required = [parameter.name for parameter in listed if parameter.required]
        if not self.open:
            properties = {"session_id": SESSION_ID, **properties}
            required = ["session_id", *required]
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return schema

    def command(self) -> dict[str, Any]:
        """The tool as get_commands lists it."""
        form: dict[str, Any] = {"type": self.name}
        if self.example:
            form["payload"] = self.example
        return {
            "category": self.category,
            "description": self.description,
            "format": json.dumps(form),
            "is_mutation": self.mutation,
            "name": self.name,
            "notes": self.notes,
            "requires_auth": not self.open,
        }


def text(name: str, description: str, **more: Any) -> Parameter:
    return Parameter(name, "string", description, **more)


ITEM = text("item_id", "The item's ID or full name", own_error=True)
QUANTITY = Parameter(
    "quantity", "integer", "How many", own_error=True, least=1, most=MOST_QUANTITY
)
