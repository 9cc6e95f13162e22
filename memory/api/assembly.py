"""POST /context/assemble: the core on a history from outside."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Router, Schema
from pydantic import Field, WithJsonSchema

from memory.context.assemble import assemble
from memory.context.documents import parse_request, result_document
from memory.context.types import (
    DEFAULT_STRATEGY,
    CounterName,
    Dialect,
    Impossible,
    LedgerLine,
    Source,
    Status,
    Synthetic,
)
from memory.gamestate.state_block import StateBlock
from memory.problems import Problem

from . import fields

router = Router(tags=["context"])

VIEW = [
    {"role": "system", "content": "You fly a ship."},
    {"role": "user", "content": "Good. Go on."},
]
REASON = "Of 2 stored messages: 1 outside the window."
LEDGER = [
    {
        "id": 1,
        "disposition": "out_of_window",
        "by": "window",
        "reason": "Older than what is sent.",
        "tokens_in": 4,
        "tokens_out": 0,
        "handle": "ctx://self/1",
    },
    {
        "id": 3,
        "disposition": "kept",
        "by": None,
        "reason": "Sent as stored.",
        "tokens_in": 3,
        "tokens_out": 3,
        "handle": None,
    },
]
STATS = {"strategy": "window", "messages_in": 2, "messages_out": 2, "tokens_out": 9}
SourceOut = Annotated[
    Source,
    Field(
        description="The id of the stored message, null for one that was made up; a "
        "list where several were joined."
    ),
]
Document = dict[str, Any]


class AssembleIn(fields.Body):
    """A history in the form of chat completions, and how to assemble it."""

    model_config = fields.example(
        strategy="window",
        options={"window": 2},
        budget={"tokens": 4000, "reserve": 500},
        system="You fly a ship.",
        messages=[
            {"id": 1, "role": "user", "content": "Mine some iron."},
            {"id": 2, "role": "assistant", "content": "I am at the belt."},
            {"id": 3, "role": "user", "content": "Good. Go on."},
        ],
    )

    messages: list[Document]
    system: str | None = None
    pins: list[str] = []
    summary: Document | None = None
    state: Document | None = None
    tool_policy: Document = {}
    strategy: str = DEFAULT_STRATEGY
    options: Document = {}
    budget: Document | None = None
    dialect: Dialect = "openai"
    counter: CounterName = "estimate"
    mysis: str = "self"
    previous: Document | list[Any] | None = None
    mission: str | None = None
    turns_left: int | None = None
    max_turns: int | None = None
    data: Document = {}
    tools: Document = {}
    definitions: Document = {}


class SummaryWantedOut(Schema):
    """What to have summarised: the ids, and the messages to send for it."""

    first_id: int
    last_id: int
    request: list[Document]


class Assembled(Schema):
    """A view, ready to be sent, and how it came about."""

    status: Status = Field(examples=["reduced"])
    reason: str = Field(examples=[REASON])
    messages: list[Document] = Field(examples=[VIEW])
    sources: list[SourceOut] = Field(examples=[[None, 3]])
    synthetic: list[Synthetic] = Field(examples=[[{"position": 0, "kind": "prompt"}]])
    ledger: list[LedgerLine] = Field(examples=[LEDGER])
    stats: Document = Field(examples=[STATS])
    warnings: list[str] = Field(examples=[[]])
    summary_wanted: SummaryWantedOut | None = Field(examples=[None])
    system: str | None = Field(None, description="In the anthropic dialect alone.")
    impossible: Impossible | None = Field(
        None, description="With the status budget_impossible alone."
    )


@router.post("/context/assemble", response=Assembled, exclude_unset=True)
def assemble_document(
    request: HttpRequest,
    body: Body[Annotated[Document, WithJsonSchema(AssembleIn.json_schema())]],
) -> Document:
    """Assemble a history that the body brings; stores and calls nothing."""
    # The schema only describes: the core reads, and its errors name key and remedy.
    try:
        return result_document(assemble(parse_request(body, StateBlock)))
    except ValueError as error:
        raise Problem(422, "invalid", str(error)) from error
