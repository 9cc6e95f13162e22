"""Types of parameters and fields, as strict as JSON clients can be expected to be."""

from __future__ import annotations

import re
from typing import Annotated, Any

from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints

MAX_ID = 2**63 - 1
_DIGITS = re.compile(r"[0-9]{1,19}")


def _whole_parameter(value: Any) -> int:
    """A whole number from a query string."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not _DIGITS.fullmatch(value):
        raise ValueError("give a whole number")
    return int(value)


def _whole(value: Any) -> int:
    """A whole number from JSON; 3.0 is one, "3" and true are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("give a whole number")
    if value != value // 1:
        raise ValueError("give a whole number")
    return int(value)


# Parameters of query strings.
After = Annotated[
    int,
    BeforeValidator(_whole_parameter, json_schema_input_type=int),
    Field(ge=0, le=MAX_ID),
]
Limit = Annotated[
    int,
    BeforeValidator(_whole_parameter, json_schema_input_type=int),
    Field(ge=1, le=200),
]
SearchLimit = Annotated[
    int,
    BeforeValidator(_whole_parameter, json_schema_input_type=int),
    Field(ge=1, le=100),
]

# Fields of bodies.
Whole = Annotated[int, BeforeValidator(_whole, json_schema_input_type=int)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]


class Body(Schema):
    """A body: a field that nobody knows is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class ErrorOut(Schema):
    """Every error."""

    detail: str
    code: str
