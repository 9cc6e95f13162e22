"""/policies, named ways of assembling contexts, and POST /context/assemble."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest
from ninja import Body as RequestBody
from ninja import Query, Router, Schema, Status
from pydantic import Field, WithJsonSchema

from memory import audit
from memory.api.parameters import (
    Body,
    Name,
    Page,
    Rows,
    StrategyName,
    Whole,
    Window,
    build_example,
    build_page,
    get_row,
)
from memory.context import registry
from memory.context.assemble import assemble
from memory.context.documents import build_result_document, parse_request
from memory.context.result_types import (
    Impossible,
    LedgerLine,
    NoteLine,
    Source,
    Synthetic,
)
from memory.context.types import DEFAULT_STRATEGY, CounterName, Dialect
from memory.context.types import Status as AssemblyStatus
from memory.gamestate.document import StateBlock
from memory.models import ContextPolicy
from memory.problems import Problem, make_invalid

policies_router = Router(tags=["policies"])

PolicyReference = Annotated[
    str, Field(description="Number or name.", examples=["tight"])
]


class PolicyBudgetOut(Schema):
    """A model's window and what of it is kept free, in tokens."""

    tokens: int = Field(examples=[16000])
    reserve: int = Field(examples=[2000])


class PolicyOut(Schema):
    """A named context policy."""

    name: str = Field(examples=["tight"])
    strategy: str = Field(examples=["snapshot-window"])
    options: dict[str, Any] = Field(
        examples=[{"window": 12, "tools": "on_demand", "allow": ["get_*", "mine"]}]
    )
    budget: PolicyBudgetOut
    is_default: Annotated[
        bool,
        Field(
            description="The fleet's default; left out of every other policy.",
            exclude_if=operator.not_,
        ),
    ] = False

    @staticmethod
    def resolve_budget(row: ContextPolicy) -> dict[str, int]:
        return {"tokens": row.budget_tokens, "reserve": row.budget_reserve}


class PolicyBudgetIn(Body):
    """As PolicyBudgetOut; what is left out stays as it is."""

    tokens: Whole | None = None
    reserve: Whole | None = None


class PolicyChange(Body):
    """What may change of a policy."""

    model_config = build_example(budget={"tokens": 32000})

    name: Name | None = None
    strategy: StrategyName | None = None
    options: dict[str, Any] | None = None
    budget: PolicyBudgetIn | None = None


class PolicyIn(PolicyChange):
    """A new policy."""

    model_config = build_example(
        name="tight",
        strategy="snapshot-window",
        options={"window": 12},
        budget={"tokens": 16000, "reserve": 2000},
    )

    name: Name


# What a change writes.
CHANGED = (
    "name",
    "strategy",
    "options",
    "budget_tokens",
    "budget_reserve",
    "updated_at",
)
TOLD = CHANGED[:-1]


@policies_router.get("/policies", response=Page[PolicyOut])
def list_policies(request: HttpRequest, window: Query[Window]) -> Rows:
    """All context policies."""
    return build_page(ContextPolicy.objects.all(), window)


@policies_router.post("/policies", response={201: PolicyOut})
def create_policy(request: HttpRequest, body: PolicyIn) -> Status[ContextPolicy]:
    """Make a policy; its strategy and options are checked now, not in a turn."""
    with transaction.atomic():
        policy = apply_change(ContextPolicy(), body)
        _note_who(request, policy, ADDITION)
        told = audit.read_columns(policy, TOLD)
        audit.record_change("policy.create", f"policy:{policy.name}", after=told)
    return Status(201, policy)


@policies_router.get("/policies/{reference}", response=PolicyOut)
def read_policy(request: HttpRequest, reference: PolicyReference) -> ContextPolicy:
    """One policy, by name or number."""
    return get_row(ContextPolicy.objects.all(), reference, "policy")


@policies_router.patch("/policies/{reference}", response=PolicyOut)
def update_policy(
    request: HttpRequest, reference: PolicyReference, body: PolicyChange
) -> ContextPolicy:
    """Change what is given; the next call of every Mysis with it is made so."""
    with transaction.atomic():
        rows = ContextPolicy.objects.select_for_update()
        stored = get_row(rows, reference, "policy")
        thing, old = f"policy:{stored.name}", audit.read_columns(stored, TOLD)
        policy = apply_change(stored, body)
        _note_who(request, policy, CHANGE)
        new = audit.read_columns(policy, TOLD)
        audit.record_change("policy.update", thing, before=old, after=new)
    return policy


def _note_who(request: HttpRequest, policy: ContextPolicy, flag: int) -> None:
    """Keep who made or changed a policy where the admin keeps it."""
    if request.user.pk is None:
        # Where the memory is served alone, without accounts.
        return
    LogEntry.objects.log_actions(
        request.user.pk,
        [policy],
        flag,
        change_message="Over REST.",
        single_object=True,
    )


@transaction.atomic
def apply_change(policy: ContextPolicy, body: PolicyChange) -> ContextPolicy:
    """Apply a body to a policy and store it; raises a 422 Problem.

    A stored one is locked by the caller.
    """
    change_values(policy, body)
    check_row(policy)
    # Which one is the default is never asked for here.
    policy.save(update_fields=None if policy.pk is None else CHANGED)
    return policy


def change_values(policy: ContextPolicy, body: PolicyChange) -> ContextPolicy:
    """Apply a body to a policy without storing it; raises a 422 Problem."""
    given = body.model_dump(exclude={"budget"}, exclude_none=True)
    for field, value in given.items():
        setattr(policy, field, value)
    if body.budget is not None:
        _set_budget(policy, body.budget)
    try:
        registry.validate_options(policy.strategy, policy.options)
    except (ValueError, TypeError) as error:
        raise Problem(422, "invalid", str(error)) from error
    return policy


def _set_budget(policy: ContextPolicy, budget: PolicyBudgetIn) -> None:
    for name, value in budget.model_dump(exclude_none=True).items():
        setattr(policy, f"budget_{name}", value)
    if not 0 <= policy.budget_reserve < policy.budget_tokens <= 2**31 - 1:
        raise make_invalid(
            "budget", "tokens must be from 1 to 2147483647, and reserve below tokens."
        )


def check_row(row: Model) -> None:
    """Raise the 422 Problem of what a model's own checks say, with its field."""
    with name_fault():
        row.full_clean()


@contextmanager
def name_fault() -> Iterator[None]:
    """Turn what a model's own checks say into a 422 Problem that names the field."""
    try:
        yield
    except ValidationError as error:
        field, texts = next(iter(error.message_dict.items()))
        field = "body" if field == NON_FIELD_ERRORS else field
        raise make_invalid(field, texts[0]) from error


# --- POST /context/assemble: the core on a history from outside

assembly_router = Router(tags=["context"])

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


class ToolDocument(Schema):
    """A tool as models are told of it; `parameters` is a JSON schema."""

    name: str = Field(examples=["travel"])
    description: str = Field("", examples=["Travel to a POI in this system."])
    parameters: Document = Field(
        {}, examples=[{"type": "object", "properties": {"target_poi": {}}}]
    )


class AssembleIn(Body):
    """A history in the form of chat completions, and how to assemble it."""

    model_config = build_example(
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
    notes: list[Document] = []
    summary: Document | None = None
    state: Document | None = None
    tool_policy: Document = {}
    strategy: StrategyName = DEFAULT_STRATEGY
    options: Document = {}
    budget: Document | None = None
    dialect: Dialect = "openai"
    counter: CounterName = "estimate"
    mysis: str = "self"
    previous: Document | list[Document] | None = None
    mission: str | None = None
    turns_left: int | None = None
    max_turns: int | None = None
    data: Document = {}
    tools: Annotated[
        Document | list[Document],
        Field(
            description="A list of {name, description, parameters}, or a map by name."
        ),
    ] = {}
    definitions: Document = {}
    signature: str | None = None
    results: bool = False
    usage: bool = False


class PaybackOut(Schema):
    """What a summary saves of each call (tokens, US dollars), and what it costs.

    It pays back after so many `calls` (null: never); the budget would ask for one after
    `lasts`, or does now (`needed`).
    """

    tokens: int = Field(examples=[9200])
    saves: float = Field(examples=[0.00046])
    costs: float = Field(examples=[0.0021])
    calls: int | None = Field(examples=[5])
    lasts: int = Field(examples=[40])
    needed: bool = Field(examples=[False])


class SummaryWantedOut(Schema):
    """What to have summarised: the ids, and the messages to send for it."""

    first_id: int
    last_id: int
    request: list[Document]
    payback: PaybackOut | None = Field(
        None, description="Where a price of the model is known."
    )


class Assembled(Schema):
    """A view, ready to be sent, and how it came about."""

    status: AssemblyStatus = Field(examples=["reduced"])
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
    notes: list[NoteLine] | None = Field(
        None, description="What became of each note; where there are any."
    )
    tools: list[ToolDocument] | None = Field(
        None, description="As they are sent, where they are known."
    )
    catalogue: str | None = Field(
        None,
        description="The lines for tools in the system message under on_demand.",
        examples=["travel(target_poi): Travel to a POI in this system"],
    )
    usage: Document | None = Field(
        None, description="Where `usage` was asked for: compression, and its box."
    )


@assembly_router.post("/context/assemble", response=Assembled, exclude_unset=True)
def assemble_document(
    request: HttpRequest,
    body: RequestBody[Annotated[Document, WithJsonSchema(AssembleIn.json_schema())]],
) -> Document:
    """Assemble a history that the body brings; stores and calls nothing."""
    # The caller's own texts come back as the core gives them.
    request.keeps_texts = True  # type: ignore[attr-defined]
    # The schema only describes: the core reads, and its errors name key and remedy.
    try:
        return build_result_document(assemble(parse_request(body, StateBlock)))
    except ValueError as error:
        raise Problem(422, "invalid", str(error)) from error
