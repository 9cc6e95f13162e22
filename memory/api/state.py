"""GET /myses/{id}/state and /snapshots: what is known of the game, and how well."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from memory.api.parameters import (
    MysisReference,
    Page,
    Rows,
    Window,
    build_page,
    get_owner,
)
from memory.gamestate.rows import build_rows
from memory.gamestate.types import AccountState
from memory.models import AccountClock, GameSnapshot
from memory.snapshots.reads import find_moment

state_router = Router(tags=["memory"])


class StateRowOut(Schema):
    """One snapshot: how old, how far to believe it, and why not further."""

    tool: str = Field(examples=["get_ship"])
    args: dict[str, Any]
    confidence: str = Field(examples=["ageing"])
    age_ticks: int | None = Field(examples=[7])
    age_seconds: float = Field(examples=[70.4])
    reason: str | None = Field(examples=[None])
    tick: int | None = Field(examples=[1035])
    captured_at: datetime
    fields: dict[str, str] = Field(examples=[{"fuel": "invalidated"}])
    content: Annotated[
        Any, Field(description="Under full=1: as the game sent it, events merged in.")
    ] = None


class StateFilter(Schema):
    """What of the state is wanted."""

    full: bool = Field(False, description="1: with the contents.")


class StateWindow(Window, StateFilter):
    """A page of them."""


class SnapshotFilter(StateWindow):
    """Whose snapshots are wanted."""

    username: str = Field(examples=["VoidWanderer"])


@state_router.get(
    "/myses/{reference}/state", response=Page[StateRowOut], exclude_unset=True
)
def read_state(
    request: HttpRequest, reference: MysisReference, wanted: Query[StateWindow]
) -> Rows:
    """The snapshots of the account that a Mysis flies; none where it has none."""
    account = get_owner(reference).account
    if account is None:
        return Rows(items=[], next=None)
    alive = GameSnapshot.objects.filter(logged_out_at=None)
    return _build_state_page(alive, account.username, wanted)


@state_router.get("/snapshots", response=Page[StateRowOut], exclude_unset=True)
def list_snapshots(request: HttpRequest, wanted: Query[SnapshotFilter]) -> Rows:
    """The snapshots of a game account, also those from before a logout."""
    username = wanted.username.replace("\x00", "")
    return _build_state_page(GameSnapshot.objects.all(), username, wanted)


def _build_state_page(
    found: QuerySet[GameSnapshot], username: str, wanted: StateWindow
) -> Rows:
    page = build_page(found.filter(username=username), wanted)
    clock = AccountClock.objects.filter(username=username).first()
    snapshots = tuple(row.to_snapshot() for row in page["items"])
    state = AccountState(username, snapshots, find_moment(clock, timezone.now()))
    items = []
    for row, snapshot in zip(build_rows(state), snapshots, strict=True):
        content = {"content": snapshot.current} if wanted.full else {}
        age = round(row.age_seconds, 3)
        items.append(asdict(row) | {"age_seconds": age} | content)
    return Rows(items=items, next=page["next"])
