"""GET /myses/{id}/context/diff: two strategies side by side."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents.context import preview
from agents.models import Mysis
from memory.api.assembly import REASON, STATS, VIEW
from memory.api.fields import MysisReference
from memory.difference import Pair, Side, difference
from memory.preview import Prepared

from . import lookup
from .context import HASH, budget_of

router = Router(tags=["context"])


class Compared(Schema):
    """The two strategies, each with its default options unless it is the policy's."""

    a: str = Field(min_length=1, max_length=100, examples=["window"])
    b: str = Field(min_length=1, max_length=100, examples=["tiered"])
    budget: Annotated[
        str | None,
        Field(
            description='Tokens, or {"tokens": 128000, "reserve": 8000}; for both.',
            examples=['{"tokens": 16000, "reserve": 2000}'],
        ),
    ] = None


class DiffHead(Schema):
    """What became of the whole under one strategy."""

    strategy: str = Field(examples=["window"])
    status: str = Field(examples=["reduced"])
    reason: str = Field(examples=[REASON])
    hash: str = Field(examples=[HASH])
    stats: dict[str, Any] = Field(examples=[STATS])


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


class DiffPair(Schema):
    """A message under both: a stored one, or (``id`` null) one of a ``kind``."""

    id: int | None = Field(examples=[3])
    role: str | None = Field(examples=["user"])
    kind: str | None = Field(examples=[None])
    same: bool = Field(examples=[True])
    a: DiffSide | None
    b: DiffSide | None

    @staticmethod
    def resolve_a(pair: Pair) -> dict[str, Any] | None:
        """Null where the strategy did not even consider it."""
        return _side(pair.a)

    @staticmethod
    def resolve_b(pair: Pair) -> dict[str, Any] | None:
        """As ``a``."""
        return _side(pair.b)


class ContextDiff(Schema):
    """Two strategies, message by message."""

    a: DiffHead
    b: DiffHead
    differing: int = Field(examples=[0])
    messages: list[DiffPair]


@router.get("/myses/{reference}/context/diff", response=ContextDiff)
def compare(
    request: HttpRequest, reference: MysisReference, wanted: Query[Compared]
) -> dict[str, Any]:
    """What the next call would be sent under either, message by message.

    `messages` has one entry for each stored message that either considered, and one
    for each that was made up (`id` null, `kind` set). `same` tells whether both send
    the same of it.
    """
    mysis = lookup.mysis_of(reference)
    a = _prepared(mysis, wanted.a, wanted.budget)
    b = _prepared(mysis, wanted.b, wanted.budget)
    pairs = difference(a, b)
    return {
        "a": _head(a),
        "b": _head(b),
        "differing": sum(not pair.same for pair in pairs),
        "messages": pairs,
    }


def _prepared(mysis: Mysis, strategy: str, budget: str | None) -> Prepared:
    return preview(mysis, strategy=strategy, budget=budget_of(budget))


def _head(prepared: Prepared) -> dict[str, Any]:
    assembly = prepared.assembly
    return {
        "strategy": prepared.subject.strategy,
        "status": assembly.status,
        "reason": assembly.reason,
        "hash": prepared.digest,
        "stats": assembly.stats,
    }


def _side(side: Side) -> dict[str, Any] | None:
    if side.line is None and side.message is None:
        return None
    told = {name: getattr(side.line, name, None) for name in DiffSide.model_fields}
    return told | {"position": side.position, "message": side.message}
