"""/myses/{id}/branches: let a Mysis go on from an earlier message, with a correction."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from agents import actions
from agents.actions.base import CHANGED, ActionError, lock_mysis
from agents.actions.branches import Cut, plan_branch
from agents.api.turns import caller_name, get_mysis
from memory.api.parameters import (
    FROM_JSON,
    Body,
    MysisReference,
    Page,
    Rows,
    Text,
    TextOrNull,
    Window,
    build_example,
    build_page,
)
from memory.handles import MAX_ID, parse_id
from memory.models import Branch
from memory.problems import make_missing

branches_router = Router(tags=["branches"])

BranchId = Annotated[str, Field(description="Its id.", examples=["3"])]


class BranchOut(Schema):
    """A stretch of a log that was taken back, from message ``first`` to ``through``.

    The Mysis went on after ``kept``; where that is not ``asked``, a call and its results
    would have been parted. ``correction`` is the message that it went on with.
    """

    id: int = Field(examples=[3])
    asked: int = Field(validation_alias="asked_id", examples=[1234])
    kept: int = Field(validation_alias="kept_id", examples=[1236])
    moved: bool = Field(examples=[True])
    first: int = Field(validation_alias="first_id", examples=[1237])
    through: int = Field(validation_alias="through_id", examples=[1260])
    messages: int = Field(examples=[24])
    correction: int | None = Field(examples=[1261])
    by: str = Field(examples=["operator:grace"])
    created_at: datetime
    undone_by: TextOrNull = Field(examples=[None])
    undone_at: datetime | None = Field(examples=[None])

    @staticmethod
    def resolve_correction(row: Branch) -> int | None:
        """None of one that was imported."""
        return row.correction_id or None


class BranchIn(Body):
    """After which message to go on, with which correction; whether to start it again."""

    model_config = build_example(
        **{"from": 1234, "text": "Sell the ore at Sol Station first."}
    )

    asked: Annotated[int, Field(ge=1, le=MAX_ID), FROM_JSON] = Field(alias="from")
    text: Text
    start: bool = True
    through: Annotated[int, Field(ge=1, le=MAX_ID), FROM_JSON] | None = Field(
        None,
        description="The newest message that may be taken back; 409 where others came.",
    )


@branches_router.get("/myses/{reference}/branches", response=Page[BranchOut])
def list_branches(
    request: HttpRequest, reference: MysisReference, window: Query[Window]
) -> Rows:
    """What of the log of a Mysis was taken back, oldest first."""
    return build_page(_select(reference), window)


@branches_router.post("/myses/{reference}/branches", response={201: BranchOut})
def take_branch(
    request: HttpRequest, reference: MysisReference, body: BranchIn
) -> Status[Branch]:
    """Stop a Mysis, take back what comes after a message, and go on with a correction.

    What is taken back stays stored and is never sent again. What happened in the game has
    happened. 409 where nothing comes after the message, or too much, or something that
    came after ``through``.
    """
    with transaction.atomic():
        mysis = lock_mysis(get_mysis(reference))
        if body.through is not None:
            _check_newest(plan_branch(mysis, body.asked), body.through)
        made = actions.take_branch(
            mysis=mysis,
            asked=body.asked,
            text=body.text,
            by=caller_name(request),
            start=body.start,
        )
    return Status(201, made)


def _check_newest(cut: Cut, through: int) -> None:
    if cut.through > through:
        raise ActionError(
            f"through: messages came after {through}: look at them, then ask again.",
            code=CHANGED,
        )


@branches_router.delete("/myses/{reference}/branches/{branch}", response={204: None})
def undo_branch(
    request: HttpRequest, reference: MysisReference, branch: BranchId
) -> Status[None]:
    """Let what was taken back stand again; 409 once the Mysis has gone on."""
    found = _select(reference).filter(pk=parse_id(branch) or 0).first()
    if found is None:
        raise make_missing(f"There is no branch {branch[:100]!r} of this Mysis.")
    actions.undo_branch(branch=found, by=caller_name(request))
    return Status(204, None)


def _select(reference: str) -> QuerySet[Branch]:
    return Branch.objects.filter(mysis=get_mysis(reference)).select_related("mysis")
