"""What a call was sent, and what the next one will be."""

from __future__ import annotations

import json
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, Field

from agents import context_inputs
from agents.api.turns import TurnId, get_mysis, read_path
from agents.context_inputs import RESERVE, RESERVE_SHARE
from agents.dashboard.context import (
    Document,
    build_preview_document,
    build_sent_document,
    mask_document,
)
from agents.models import ModelCall
from memory.api.parameters import MysisReference, StrategyName
from memory.api.policies import (
    LEDGER,
    REASON,
    STATS,
    VIEW,
    Assembled,
    SourceOut,
    ToolDocument,
)
from memory.assembly.view_pairs import Side, compare_views
from memory.context.documents import describe_usage
from memory.context.result_types import LedgerLine
from memory.context.types import Budget
from memory.handles import parse_id
from memory.problems import make_invalid, make_missing

context_router = Router(tags=["context"])

CallNumber = Annotated[str, Field(description="From 1.", examples=["1"])]
HASH = "3f2a" * 16
MASKED = Field(
    False,
    description="Whether secrets are hidden here: then `hash` is that of what is sent, "
    "not of what is shown.",
    examples=[False],
)


class Variant(Schema):
    """What to assemble otherwise than the policy of the Mysis says."""

    strategy: Annotated[StrategyName | None, Field(examples=["window"])] = None
    budget: Annotated[
        str | None,
        Field(
            description='Tokens, or {"tokens": 128000, "reserve": 8000}.',
            examples=['{"tokens": 16000, "reserve": 2000}'],
        ),
    ] = None
    options: Annotated[
        str | None, Field(description="A JSON object.", examples=['{"window": 12}'])
    ] = None
    usage: Annotated[
        bool, Field(description="Add the statistics of compression and their box.")
    ] = False


class SentPin(Schema):
    """A standing order by its SHA-256, and whether the view has it word for word."""

    hash: str = Field(examples=[HASH])
    sent: bool


class ContextPreview(Assembled):
    """What the next call would be sent."""

    hash: str = Field(examples=[HASH])
    sent: bool
    pins: list[SentPin]
    masked: bool = MASKED


class SentContext(Schema):
    """What a call was sent; ``intact`` tells whether the hash still agrees."""

    messages: list[dict[str, Any]] = Field(examples=[VIEW])
    system: str | None = Field(examples=[None])
    sources: list[SourceOut] = Field(examples=[[None, 3]])
    ledger: list[LedgerLine] = Field(examples=[LEDGER])
    stats: dict[str, Any] = Field(examples=[STATS])
    hash: str = Field(examples=[HASH])
    sent: bool = Field(examples=[True])
    pins: list[SentPin]
    intact: bool = Field(examples=[True])
    masked: bool = MASKED
    tools: list[ToolDocument] | None = Field(
        None, description="As they were sent; null where that was not kept."
    )
    catalogue: str | None = Field(
        None, description="The lines for tools in the system message under on_demand."
    )


@context_router.get(
    "/myses/{reference}/context", response=ContextPreview, exclude_unset=True
)
def preview_context(
    request: HttpRequest, reference: MysisReference, wanted: Query[Variant]
) -> Document:
    """What the next call would be sent, message by message; writes nothing."""
    mysis, options = get_mysis(reference), parse_options(wanted.options)
    budget = parse_budget(wanted.budget)
    with context_inputs.previews.taken():
        prepared = context_inputs.assemble_preview(
            mysis, strategy=wanted.strategy, options=options, budget=budget
        )
        document = build_preview_document(prepared)
        if wanted.usage:
            document["usage"] = describe_usage(prepared.assembly.stats)
        return _answer_masked(request, document)


def parse_options(text: str | None) -> dict[str, Any] | None:
    """The options of a query string; raises a 422 Problem."""
    if text is None:
        return None
    value = _parse_json("options", text)
    if not isinstance(value, dict):
        raise make_invalid("options", 'give a JSON object, for example {"window": 20}.')
    return value


def parse_budget(text: str | None) -> Budget | None:
    """The budget of a query string; raises a 422 Problem."""
    if text is None:
        return None
    value = _parse_json("budget", text)
    given = value if isinstance(value, dict) else {"tokens": value}
    if set(given) - {"tokens", "reserve"}:
        raise make_invalid("budget", 'give tokens, or {"tokens": ..., "reserve": ...}.')
    tokens = _check_count("budget.tokens", given.get("tokens"), 1, 2**31 - 1)
    wanted = given.get("reserve", min(RESERVE, tokens // RESERVE_SHARE))
    return Budget(tokens, _check_count("budget.reserve", wanted, 0, tokens - 1))


def _check_count(field: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise make_invalid(field, "give a whole number.")
    if not least <= value <= most:
        raise make_invalid(field, f"give a number from {least} to {most}.")
    return value


def _parse_json(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise make_invalid(field, "is not JSON.") from error


@context_router.get("/turns/{turn_id}/calls/{number}/context", response=SentContext)
def past_context(request: HttpRequest, turn_id: TurnId, number: CallNumber) -> Document:
    """Exactly what one call of a turn was sent; calls count from 1."""
    calls = ModelCall.objects.select_related("sent").filter(sent__isnull=False)
    call = calls.filter(
        turn=parse_id(turn_id) or 0, number=parse_id(number) or 0
    ).first()
    if call is None:
        raise make_missing(
            f"Turn {turn_id[:30]!r} has no call {number[:30]!r} on record."
        )
    return _answer_masked(request, build_sent_document(call.sent))


def _answer_masked(request: HttpRequest, document: Document) -> Document:
    # Once is enough of what is this long.
    request.keeps_texts = True  # type: ignore[attr-defined]
    return mask_document(document)


# --- Two strategies side by side

difference_router = Router(tags=["context"])


class Compared(Schema):
    """The two strategies, each with its default options unless it is the policy's."""

    a: StrategyName = Field(examples=["window"])
    b: StrategyName = Field(examples=["tiered"])
    budget: Annotated[
        str | None,
        Field(
            description='Tokens, or {"tokens": 128000, "reserve": 8000}; for both.',
            examples=['{"tokens": 16000, "reserve": 2000}'],
        ),
    ] = None


class DiffHead(Schema):
    """What became of the whole under one strategy."""

    strategy: str = read_path("subject", "strategy", example="window")
    status: str = read_path("assembly", "status", example="reduced")
    reason: str = read_path("assembly", "reason", example=REASON)
    hash: str = read_path("digest", example=HASH)
    stats: dict[str, Any] = read_path("assembly", "stats", example=STATS)


class DiffSide(Schema):
    """A message under one strategy; ``message`` null where it is not sent."""

    disposition: str | None = Field(examples=["kept"])
    by: int | str | None = Field(examples=[None])
    reason: str | None = Field(examples=["Sent as stored."])
    tokens_in: int | None = Field(examples=[3])
    tokens_out: int | None = Field(examples=[3])
    handle: str | None = Field(examples=[None])
    position: int | None = Field(examples=[1])
    message: dict[str, Any] | None = Field(examples=[VIEW[1]])


def _describe_side(side: Side) -> dict[str, Any] | None:
    if side.line is None and side.message is None:
        return None
    told = {name: getattr(side.line, name, None) for name in DiffSide.model_fields}
    return told | {"position": side.position, "message": side.message}


# Null where the strategy did not even consider the message.
SideOut = Annotated[DiffSide | None, BeforeValidator(_describe_side)]


class DiffPair(Schema):
    """A message under both: a stored one, or (``id`` null) one of a ``kind``."""

    id: int | None = Field(examples=[3])
    role: str | None = Field(examples=["user"])
    kind: str | None = Field(examples=[None])
    same: bool = Field(examples=[True])
    a: SideOut
    b: SideOut


class ContextDiff(Schema):
    """Two strategies, message by message."""

    a: DiffHead
    b: DiffHead
    differing: int = Field(examples=[0])
    messages: list[DiffPair]


@difference_router.get(
    "/myses/{reference}/context/diff",
    response=ContextDiff,
    summary="Compare",
    operation_id="agents_api_difference_compare",
)
def compare_strategies(
    request: HttpRequest, reference: MysisReference, wanted: Query[Compared]
) -> dict[str, Any]:
    """What the next call would be sent under either, message by message.

    `messages` has one entry for each stored message that either considered, and one
    for each that was made up (`id` null, `kind` set). `same` tells whether both send
    the same of it.
    """
    mysis = get_mysis(reference)
    budget = parse_budget(wanted.budget)
    with context_inputs.previews.taken():
        a = context_inputs.assemble_preview(mysis, strategy=wanted.a, budget=budget)
        b = context_inputs.assemble_preview(mysis, strategy=wanted.b, budget=budget)
        pairs = compare_views(a, b)
    return {
        "a": a,
        "b": b,
        "differing": sum(not pair.same for pair in pairs),
        "messages": pairs,
    }
