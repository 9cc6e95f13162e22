"""The form of a tool: its words, its arguments, and what kind of call it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sandbox.game.config import GameError, Json

SESSION_ID = {"type": "string", "description": "Your session ID from login/register"}
_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
    "array": (str, "a list of strings"),
    "items": (dict, "a list of items with item_id and quantity"),
}
_ITEM_SCHEMA = {
    "type": "object",
    "properties": {"item_id": {"type": "string"}, "quantity": {"type": "integer"}},
    "required": ["item_id", "quantity"],
}
LONGEST_TEXT = 256
MOST_QUANTITY = 1_000_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool.

    `required`: listed as required. `own_error`: the tool itself says what is wrong
    where the argument is missing. `listed`: False for what is accepted without
    being in the tool's schema.
    """

    name: str
    type: str
    description: str
    required: bool = True
    own_error: bool = False
    listed: bool = True
    least: int | None = None
    most: int | None = None
    longest: int = LONGEST_TEXT

    def schema(self) -> Json:
        kind = "array" if self.type == "items" else self.type
        view: Json = {"type": kind, "description": self.description}
        if self.type == "items":
            view["items"] = _ITEM_SCHEMA
        if self.type == "array":
            view["items"] = {"type": "string"}
        return view


def _value(parameter: Parameter, value: Any, example: Json) -> Any:
    """Check one value; 5.0 is a whole number as JSON writes it, true is none."""
    if parameter.type == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    kind, wanted = _TYPES[parameter.type]
    several = parameter.type in ("array", "items")
    values = value if several and isinstance(value, list) else [value]
    fits = several == isinstance(value, list) and {type(one) for one in values} <= {
        kind
    }
    least, most, wrong = parameter.least, parameter.most, ""
    if not fits:
        hint = f" Example: {json.dumps(example)}" if example else ""
        wrong = f"must be {wanted}.{hint}"
    elif isinstance(value, str) and len(value) > parameter.longest:
        wrong = f"is longer than {parameter.longest} characters."
    elif (least is not None and value < least) or (most is not None and value > most):
        wrong = f"must be from {least} to {most}."
    if wrong:
        raise GameError("invalid_payload", f"Parameter '{parameter.name}' {wrong}")
    return value


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
    example: Json = field(default_factory=dict)
    notes: str = ""
    mutation: bool = False
    writes: bool = False
    destructive: bool = False
    open: bool = False

    @property
    def read_only(self) -> bool:
        return not (self.mutation or self.writes)

    def check_arguments(self, given: Json) -> Json:
        """Give the arguments it may work with; null counts as absent.

        Raises GameError `invalid_payload` that names what is wrong and what is right.
        """
        known = {one.name: one for one in self.parameters}
        present = {name: value for name, value in given.items() if value is not None}
        present.pop("session_id", None)
        unknown = [name for name in present if name not in known]
        lacking = [one for one in self.parameters if one.required]
        lacking = [one for one in lacking if one.name not in present]
        if unknown and not any(one.own_error for one in lacking):
            raise self._invalid("Unknown", sorted(unknown))
        if names := [one.name for one in lacking if not one.own_error]:
            raise self._invalid("Missing", names)
        return {
            name: _value(known[name], value, self.example)
            for name, value in present.items()
            if name in known
        }

    def _invalid(self, how: str, names: list[str]) -> GameError:
        wrong = f"{how} parameter(s): [{', '.join(names)}]."
        required = ", ".join(f"'{one.name}'" for one in self.parameters if one.required)
        if required:
            wrong += f" Requires {required}."
        elif self.parameters:
            accepted = ", ".join(f"'{one.name}'" for one in self.parameters)
            wrong += f" Accepts {accepted}."
        else:
            wrong += " Takes no parameters."
        if self.example:
            wrong += f" Example: {json.dumps(self.example)}"
        return GameError("invalid_payload", wrong)

    def schema(self) -> Json:
        """The JSON schema of the arguments."""
        listed = [parameter for parameter in self.parameters if parameter.listed]
        properties = {parameter.name: parameter.schema() for parameter in listed}
        required = [parameter.name for parameter in listed if parameter.required]
        if not self.open:
            properties = {"session_id": SESSION_ID, **properties}
            required = ["session_id", *required]
        schema: Json = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return schema

    def command(self) -> Json:
        """The tool as get_commands lists it."""
        form: Json = {"type": self.name}
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
