"""GET /myses/{id}/context/diff: two strategies side by side."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from agents.context import preview
from agents.models import Mysis
from memory.difference import Pair, Side, difference
from memory.preview import Prepared

from . import lookup
from .context import budget_of

router = Router(tags=["context"])

Strategy = Annotated[str, Field(min_length=1, max_length=100)]


class Compared(Schema):
    """The two strategies, each with its default options unless it is the policy's."""

    a: Strategy
    b: Strategy
    budget: Annotated[
        str | None,
        Field(description='Tokens, or {"tokens": 128000, "reserve": 8000}; for both.'),
    ] = None


@router.get("/myses/{reference}/context/diff", response=dict[str, Any])
def compare(
    request: HttpRequest, reference: str, wanted: Query[Compared]
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
        "messages": [_pair(pair) for pair in pairs],
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


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "id": pair.id,
        "role": pair.role,
        "kind": pair.kind,
        "same": pair.same,
        "a": _side(pair.a),
        "b": _side(pair.b),
    }


def _side(side: Side) -> dict[str, Any] | None:
    """One side; null where the strategy did not even consider it."""
    if side.line is None and side.message is None:
        return None
    line = side.line
    return {
        "disposition": line.disposition if line else None,
        "by": line.by if line else None,
        "reason": line.reason if line else None,
        "tokens_in": line.tokens_in if line else None,
        "tokens_out": line.tokens_out if line else None,
        "handle": line.handle if line else None,
        "position": side.position,
        "message": side.message,
    }
