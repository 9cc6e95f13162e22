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
    being in the tool's schema. `example`: what the example of a tool gives for it.
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
    example: Any = None

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


def text(
    name: str, description: str, example: str | None = None, **more: Any
) -> Parameter:
    return Parameter(name, "string", description, example=example, **more)


def number(
    name: str, description: str, example: int | None = None, **more: Any
) -> Parameter:
    return Parameter(name, "integer", description, example=example, **more)


def flag(name: str, description: str, **more: Any) -> Parameter:
    return Parameter(name, "boolean", description, example=True, **more)


_OWN_ERROR: Json = {"own_error": True}
_PRICE: Json = {**_OWN_ERROR, "most": MOST_QUANTITY}
# The arguments that mean the same in every tool that names them.
_SHARED = {one.name: one for one in (
    text("username", "Your captain's name", "your_name", **_OWN_ERROR),
    text("item_id", "The item's ID or full name", "ore_iron", **_OWN_ERROR),
    number("quantity", "How many", 10, own_error=True, least=1, most=MOST_QUANTITY),
    number("count", "How often, 1 to 10", 1, required=False),
    number("amount", "How many credits", 100, **_PRICE),
    number("price_each", "Credits for one", 6, **_PRICE),
    number("new_price", "Credits for one", 7, **_PRICE),
    number("index", "0 is the newest entry", 0),
    text("channel", "system, local or private", "local"),
    text("title", "The title", "Prices"),
    text("content", "The text", "Iron is cheap in Sol.", longest=10_000),
    text("wreck_id", "The wreck's ID, from get_wrecks", "wreck_id"),
    text("mission_id", "The mission's ID", "mission_id"),
    text("trade_id", "The ID of the offer, from get_trades", "trade_id"),
    text("order_id", "The order's ID, from view_orders", "order_id"),
    text("ship_class", "The class's ID", "courier_light"),
    text("ship_id", "The ship's ID, from list_ships", "ship_id"),
    text("note_id", "The note's ID, from get_notes", "note_id"),
    text("thread_id", "The thread's ID, from forum_list", "thread_id"),
)}  # fmt: skip
GOODS = ("item_id", "quantity")


def make_tool(
    name: str,
    category: str,
    description: str,
    *takes: str | Parameter,
    example: Json | None = None,
    **kind: Any,
) -> Tool:
    """Make a tool; an argument that others have too is given by its name alone.

    `example` has what differs from the examples of the arguments.
    """
    parameters = tuple(_SHARED[one] if isinstance(one, str) else one for one in takes)
    usual = {one.name: one.example for one in parameters if one.example is not None}
    shown = usual | (example or {})
    return Tool(name, category, description, parameters, shown, **kind)
