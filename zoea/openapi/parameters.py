"""An example of every parameter; a test checks each against its schema.

The page of the document fills them in, so a cursor or a bound begins at the beginning:
whoever only wants to try a route is not to get an empty page.
"""

from __future__ import annotations

from typing import Any

from .made_up import example_of

Json = dict[str, Any]

#: By the name of the parameter.
EXAMPLES: Json = {
    "a": "window",
    "after": 0,
    "b": "tiered",
    "budget": '{"tokens": 16000, "reserve": 2000}',
    "cursor": 0,
    "kind": "turn.finished,error",
    "mysis": "Ada",
    "number": "1",
    "options": '{"window": 12}',
    "origin": "agent",
    "q": "iron ore",
    "role": "assistant",
    "since": "2026-02-05",
    "strategy": "window",
    "turn_id": "17",
    "username": "VoidWanderer",
}
#: Where the name alone does not tell, by the first word of the path too.
EXAMPLES_OF: dict[tuple[str, str], Any] = {
    ("budgets", "reference"): "a dollar each",
    ("myses", "reference"): "Ada",
    ("policies", "reference"): "tight",
    ("prompts", "reference"): "captain",
    ("providers", "reference"): "local",
    ("search", "before"): 1234,
    ("usage", "cursor"): "Ada",
}


def exemplify(path: str, parameter: Json, schemas: Json) -> None:
    """Give one parameter its example."""
    name = parameter["name"]
    place = path.strip("/").partition("/")[0]
    known = EXAMPLES_OF.get((place, name), EXAMPLES.get(name))
    made = known if known is not None else example_of(parameter["schema"], schemas)
    parameter.setdefault("example", made)
